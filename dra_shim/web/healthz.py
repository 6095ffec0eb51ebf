"""Liveness and readiness of the shim, for probes.

Rules:
1. The shim is alive if it answers requests like those of the kubelet, through both sockets. This
   tests the event loop, both servers and the file system. Failures that a restart does not repair
   do not count.
2. The shim is ready after the registration and one complete publication.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

from dra_shim.kubeletplugin import KubeletPlugin, Sockets, probe
from dra_shim.settings.common import KUBELET_ELSEWHERE

# seconds for each of three responses; probes in the manifests wait five seconds
ANSWER_S: Final = 1.5


@dataclass(frozen=True, slots=True)
class HealthChecks:
    """Checks of a running shim.

    Attributes:
        answers: returns the error that a kubelet would get, "" if there is none.
        unregistered: returns why the driver is not registered, "" if it is.
        published: whether all devices were published at least once.
    """

    answers: Callable[[], Awaitable[str]]
    unregistered: Callable[[], str]
    published: Callable[[], bool]

    @classmethod
    def of(cls, sockets: Sockets, plugin: KubeletPlugin, published: Callable[[], bool]) -> Self:
        """Return the checks of a running shim."""
        return cls(
            partial(_probe, sockets.registration),
            partial(_unregistered, plugin, sockets.registration.parent),
            published,
        )

    async def alive(self) -> tuple[str, ...]:
        """Return the errors that a restart may repair, one line each."""
        error = await self.answers()
        return (f"a kubelet would not be answered: {error}",) if error else ()

    async def ready(self) -> tuple[str, ...]:
        """Return the reasons why no pod can be served yet, one line each."""
        errors = []
        if reason := self.unregistered():
            errors.append(f"not registered at the kubelet: {reason}")
        if not self.published():
            errors.append("devices not published yet")
        return tuple(errors)


async def _probe(registration: Path) -> str:
    return await probe(registration, ANSWER_S)


def _unregistered(plugin: KubeletPlugin, registry: Path) -> str:
    status = plugin.status
    if status.registered:
        return ""
    no_answer = (
        f"no answer yet; if the kubelet does not watch {registry}, set its --root-dir as "
        f"--kubelet-root-dir ({KUBELET_ELSEWHERE})"
    )
    return status.socket_error or status.reason or no_answer
