"""Live pod sandboxes, as the runtime reports them.

Rules:
1. One sandbox of a pod is live: the latest one that the runtime reported.
2. The runtime's list has no order, and CRI-O's list has no process ids.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from dranet_nri.errors import KernelError, NoNetnsError
from dranet_nri.model import NetnsId, Phase, Pod
from dranet_nri.plan.kernel import Kernel

ENDED: Final = frozenset({Phase.DETACHING, Phase.HOME})  # of records whose sandbox has ended


def has_ended(pod: Pod, kernel: Kernel) -> bool:
    """Whether a sandbox has stopped: no network namespace is where the runtime says it is.

    containerd 1.7 and 2.0 then name none, nor a process; of a pod that has none they name one.
    """
    if not pod.netns_path:
        return pod.pid == 0
    with suppress(KernelError):  # Nobody can look there: the attach says so.
        return kernel.identify(pod.netns_path) is None
    return False


def own_netns(pod: Pod, kernel: Kernel) -> NetnsId:
    """Return the pod's own network namespace.

    Raises:
        NoNetnsError: it has none of its own: host network, a VM runtime, or gone.
    """
    if not pod.netns_path:
        raise NoNetnsError(
            f"pod {pod} claims a NIC but has no network namespace of its own: hostNetwork and"
            " VM sandboxes cannot be given one; remove hostNetwork or the claim"
        )
    netns = kernel.identify(pod.netns_path)
    if netns is None:
        raise NoNetnsError(
            f"pod {pod}: network namespace {pod.netns_path} does not exist; is that where the"
            " runtime keeps them, mount the directory into the plugin's container"
            " (manifests/components/netns-state-dir)"
        )
    if kernel.is_host(netns):
        raise NoNetnsError(
            f"pod {pod} claims a NIC but uses the host's network; remove hostNetwork or the claim"
        )
    return netns


@dataclass(slots=True)
class Sandboxes:
    """The sandboxes that may have devices."""

    _live: dict[str, Pod] = field(default_factory=dict)
    _by_uid: dict[str, dict[str, Pod]] = field(default_factory=dict)

    def __contains__(self, sandbox_id: object) -> bool:
        """Whether the sandbox lives."""
        return sandbox_id in self._live

    def __iter__(self) -> Iterator[Pod]:
        """Return those that live now, whatever comes or goes meanwhile."""
        return iter(tuple(self._live.values()))

    def enter(self, pod: Pod) -> None:
        """Note that the sandbox lives, and thus no other one of its pod."""
        for other in self.others(pod):
            self.leave(other.sandbox_id)
        self.leave(pod.sandbox_id)
        self._live[pod.sandbox_id] = pod
        self._by_uid.setdefault(pod.uid, {})[pod.sandbox_id] = pod

    def leave(self, sandbox_id: str) -> None:
        """Note that the sandbox has ended; an unknown one is fine."""
        pod = self._live.pop(sandbox_id, None)
        if pod is not None:
            of_pod = self._by_uid[pod.uid]
            del of_pod[sandbox_id]
            if not of_pod:
                del self._by_uid[pod.uid]

    def others(self, pod: Pod) -> tuple[Pod, ...]:
        """Return what else is said to be a living sandbox of the pod."""
        of_pod = self._by_uid.get(pod.uid, {})
        return tuple(sandbox for sandbox in of_pod.values() if sandbox.sandbox_id != pod.sandbox_id)

    def take(self, listed: Iterable[Pod], holders: Collection[str]) -> None:
        """Take the runtime's list as the truth.

        Args:
            listed: what the runtime names and has not ended.
            holders: ids of those that live by our records. Of two without a process it is these.
        """
        self._live, self._by_uid = {}, {}
        for pod in sorted(listed, key=lambda pod: (pod.pid > 0, pod.sandbox_id in holders)):
            self.enter(pod)
