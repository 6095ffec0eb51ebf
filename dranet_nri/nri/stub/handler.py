"""Handler interface of the connection, and its events for operators.

Times are seconds of the connection's clock, time.monotonic by default.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from dranet_nri.model import Container, Edits, Pod

Answer = Callable[[], None]


class Handler(Protocol):
    """Handles the hooks.

    Hooks of one sandbox are called one at a time in arrival order; those of different sandboxes run
    concurrently. A failed hook raises: the runtime and the pod's event get the text of a
    DranetError; any other exception is reported as an internal error. An exception after the
    answer is only notified.

    A hook that does not end in time is cancelled when the plugin stops. create_container is also
    cancelled at its deadline, and when its connection is lost.
    """

    def is_unclaimed(self, pod: Pod, container: Container | None = None) -> bool:
        """Return whether the hook of the sandbox, or of its container, needs no work.

        Called for each event of a sandbox without a queued hook; True answers it with success at
        once. Must be quick, and False for a sandbox that may own devices. If it raises, the hook
        runs.
        """

    def may_refuse(self, pod: Pod, container: Container | None = None) -> bool:
        """Return whether an unfinished hook of the sandbox or container may be refused.

        Called for each unfinished hook of a stopping plugin; False answers it with success. Must be
        quick, and must not raise.
        """

    async def synchronize(self, pods: tuple[Pod, ...]) -> None:
        """Process the list of all pods; the call is already answered.

        The list includes stopped sandboxes. Later hooks wait for the return while their deadlines
        run, so that long work belongs elsewhere. Called once per connection, one call at a time.
        """

    async def run_pod_sandbox(self, pod: Pod, deadline: float) -> None:
        """Attach. At the deadline it is answered with success and continues.

        An exception rejects the sandbox. The deadline may have passed before the call: time in the
        queue counts.
        """

    async def stop_pod_sandbox(self, pod: Pod, answer: Answer) -> None:
        """Detach. At the deadline it succeeds and continues. pod.netns_path may be empty.

        `answer` answers with success before the return; later hooks of the sandbox wait for the
        return.
        """

    async def remove_pod_sandbox(self, pod: Pod, answer: Answer) -> None:
        """Forget the sandbox. At the deadline it succeeds and continues. `answer` as above."""

    async def create_container(self, pod: Pod, container: Container, deadline: float) -> Edits:
        """Return the container's edits. At the deadline it is answered with an error."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The plugin is registered and synchronized: events follow.

    timeout_s is the runtime's timeout for the answer to a hook; 0 if it reports none.
    """

    runtime_name: str
    runtime_version: str
    nri_version: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Unsynchronized:
    """The runtime has not synchronized for waited_s seconds; repeated as the time doubles.

    Before that it sends no pod events, and containerd starts no pod.
    """

    waited_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection was lost or not established; not sent for close.

    retry_s is the delay of the next attempt, None if there is none.
    """

    reason: str
    retry_s: float | None


@dataclass(frozen=True, slots=True)
class HookLate:
    """A hook reached its deadline and was answered: success, or an error for a container."""

    hook: str
    pod: Pod


@dataclass(frozen=True, slots=True)
class HookFailed:
    """A hook raised.

    Attributes:
        hook: name of the rpc.
        pod: its pod; None for Synchronize.
        reported: the runtime got the error. False after a late answer or a lost connection.
    """

    hook: str
    pod: Pod | None
    error: Exception
    reported: bool


Notice = Serving | Unsynchronized | Disconnected | HookLate | HookFailed
Notify = Callable[[Notice], None]


# noop: success at once, see is_unclaimed; deferred: success at the deadline, the work continues.
Outcome = Literal["success", "failed", "noop", "deferred"]
Answered = Callable[[str, Pod, Outcome, float], None]  # first name of the rpc, last seconds


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """State of the connection, for probes.

    Attributes:
        connected: the socket is open; the handshake may not be complete.
        synchronized: registered and synchronized on this connection: ready.
        runtime_name, runtime_version, nri_version: as last reported by the runtime; "" before.
        last_error: reason of the last failed connection, or why the current one does not serve.
    """

    connected: bool = False
    synchronized: bool = False
    runtime_name: str = ""
    runtime_version: str = ""
    nri_version: str = ""
    last_error: str = ""
