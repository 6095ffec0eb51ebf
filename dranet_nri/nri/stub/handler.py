"""The handler interface of the connection, and the events that the handler receives.

Times are seconds of the clock given to the connection, time.monotonic by default.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from dranet_nri.model import Container, Edits, Pod


class Handler(Protocol):
    """Does the work of the hooks.

    Hooks of one sandbox come one at a time in the order of the wire; those of different sandboxes
    run side by side. A hook that fails raises: a DranetError's text is what the runtime and so
    the pod's event say, anything else is reported as a fault of ours. What a hook raises after it
    was answered goes to the notices.

    A hook is cancelled when the plugin stops and it doesn't end in time. Only create_container is
    cancelled for being late, or when its connection is lost.
    """

    def is_unclaimed(self, pod: Pod, container: Container | None = None) -> bool:
        """Return whether this hook of the sandbox, or of its container, has nothing to do.

        Called for every event of a sandbox that has no hook at work; True answers it with success
        on the spot. Must be quick, and False for a sandbox that something is still held for. What
        it raises is told, and the hook runs.
        """

    def may_refuse(self, pod: Pod, container: Container | None = None) -> bool:
        """Return whether a hook of the sandbox, or of its container, may fail undone.

        Called for each hook that a plugin which stops has no time for; False answers it with
        success. Must be quick, and must not raise.
        """

    async def synchronize(self, pods: tuple[Pod, ...]) -> None:
        """Take the list of every pod that exists; it is answered already.

        Stopped sandboxes are in it as well. Hooks that arrive later wait until this returns while
        their deadlines run: take the list, start the work elsewhere, return. Called once per
        connection, and one call at a time.
        """

    async def run_pod_sandbox(self, pod: Pod, deadline: float) -> None:
        """Attach. Still at work at the deadline, it is answered with success and goes on.

        What it raises rejects the sandbox, so it must not where that is not wanted.
        The deadline may have passed before the call: the wait for its turn counts.
        """

    async def stop_pod_sandbox(self, pod: Pod) -> None:
        """Detach. Late, it is answered with success and goes on. pod.netns_path may be empty."""

    async def remove_pod_sandbox(self, pod: Pod) -> None:
        """Forget the sandbox. Late, it is answered with success and goes on."""

    async def create_container(self, pod: Pod, container: Container, deadline: float) -> Edits:
        """Return what the container gets. At the deadline it is answered with an error."""


@dataclass(frozen=True, slots=True)
class Serving:
    """Registered and synchronised: events come from now on."""

    runtime_name: str
    runtime_version: str
    nri_version: str


@dataclass(frozen=True, slots=True)
class Unsynchronized:
    """The runtime has not synchronized a connection for that long; repeated as the time doubles.

    Until it does, it sends no pod events, and containerd starts no pod.
    """

    waited_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection is lost or was not made; not said of the end that close brings.

    retry_s is the pause before the next try, None if there is none.
    """

    reason: str
    retry_s: float | None


@dataclass(frozen=True, slots=True)
class HookLate:
    """A hook met its deadline and was answered for it: success, or an error for a container."""

    hook: str
    pod: Pod


@dataclass(frozen=True, slots=True)
class HookFailed:
    """A hook raised.

    Attributes:
        hook: name of the rpc.
        pod: whose; None for Synchronize.
        told: the runtime got the error. False after a late answer or a lost connection.
    """

    hook: str
    pod: Pod | None
    error: Exception
    told: bool


Notice = Serving | Unsynchronized | Disconnected | HookLate | HookFailed
Notify = Callable[[Notice], None]


Outcome = Literal["success", "failed", "noop"]  # noop: with success on the spot, is_unclaimed
Answered = Callable[[str, Pod, Outcome, float], None]  # name of the rpc, seconds since it came


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """The state of the connection, for probes.

    Attributes:
        connected: there is a socket; says nothing about the runtime's opinion.
        synchronized: registered and synchronised on this very connection, thus ready.
        runtime_name, runtime_version, nri_version: as the runtime said last; "" before.
        last_error: why there was no connection the last time, or why the present one
            does not serve.
    """

    connected: bool = False
    synchronized: bool = False
    runtime_name: str = ""
    runtime_version: str = ""
    nri_version: str = ""
    last_error: str = ""
