"""Kubelet endpoint: both sockets, open before the rest of the shim is loaded.

Rules:
1. The kubelet gets its answers to the registration from this module and `kubeletplugin`, which
   import no room that registration does not need. `process.py` loads the others meanwhile.
2. A call of the kubelet waits until the shim is wired. Earlier notices are reported then.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from dra_shim.kubeletplugin import (
    Driver,
    KubeletPlugin,
    Notice,
    Sockets,
    dra_services,
    health_services,
)
from dranet_nri.component.supervisor import Worker, WorkerFailed
from dranet_nri.model import DRIVER_NAME, ObjectRef

if TYPE_CHECKING:
    from dra_shim.pool import HealthReport, HealthSource
    from dra_shim.prepare import PrepareResult


class Wired(Protocol):
    """The wired shim: driver and health source for the kubelet, and receiver of notices."""

    @property
    def driver(self) -> Driver:
        """Return the implementation of Prepare and Unprepare."""

    @property
    def devices(self) -> "HealthSource":
        """Return the source of the devices' health."""

    def on_kubelet(self, notice: Notice) -> None:
        """Report the state of the sockets and the registration."""

    def failed(self, notice: WorkerFailed) -> None:
        """Report a worker that failed."""


class KubeletEndpoint:
    """A Driver and a HealthSource that wait for those of the shim."""

    def __init__(self, sockets: Sockets) -> None:
        """Create the endpoint; nothing is opened before the worker runs."""
        self._shim: asyncio.Future[Wired] = asyncio.get_running_loop().create_future()
        self._reports: list[Callable[[Wired], None]] = []
        services = (*dra_services(self), *health_services(self))
        self.plugin = KubeletPlugin(DRIVER_NAME, sockets, services, self._on_kubelet)
        self.worker = Worker("kubelet", self.plugin.run)

    def wire(self, shim: Wired) -> None:
        """Use this shim for calls and notices from now on."""
        self._shim.set_result(shim)
        for report in self._reports:
            report(shim)
        self._reports.clear()

    async def prepare(
        self, claims: Sequence[ObjectRef], limit_s: float | None = None
    ) -> "Mapping[str, PrepareResult]":
        """Implement Driver."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        shim = await asyncio.shield(self._shim)
        remaining_s = None if limit_s is None else limit_s - (loop.time() - begin)
        return await shim.driver.prepare(claims, remaining_s)

    async def unprepare(self, claims: Sequence[ObjectRef]) -> Mapping[str, str]:
        """Implement Driver."""
        return await (await asyncio.shield(self._shim)).driver.unprepare(claims)

    async def health(self, last: int | None) -> "HealthReport":
        """Implement HealthSource."""
        return await (await asyncio.shield(self._shim)).devices.health(last)

    def failed(self, notice: WorkerFailed) -> None:
        """Report that the worker failed."""
        self._report(lambda shim: shim.failed(notice))

    def _on_kubelet(self, notice: Notice) -> None:
        self._report(lambda shim: shim.on_kubelet(notice))

    def _report(self, report: Callable[[Wired], None]) -> None:
        if self._shim.done():
            report(self._shim.result())
        else:
            self._reports.append(report)
