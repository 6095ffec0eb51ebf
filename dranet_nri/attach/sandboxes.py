"""Live pod sandboxes, as the runtime reports them.

Rules:
1. A pod has one live sandbox: the last one that the runtime reported.
2. The runtime's list has no order, and CRI-O's list has no process ids.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from dranet_nri.errors import KernelError, NoNetnsError
from dranet_nri.model import NetnsId, Phase, Pod
from dranet_nri.plan.kernel import Kernel

ENDED: Final = frozenset({Phase.DETACHING, Phase.RESTORED})  # of records whose sandbox has ended


def has_ended(pod: Pod, kernel: Kernel) -> bool:
    """Whether a sandbox has stopped: its network namespace does not exist at the reported path.

    For a stopped sandbox, containerd 1.7 and 2.0 report neither namespace nor process; for a pod
    on the host's network they report a process.
    """
    if not pod.netns_path:
        return pod.pid == 0
    with suppress(KernelError):  # the path cannot be read, which the attach reports
        return kernel.identify(pod.netns_path) is None
    return False


def own_netns(pod: Pod, kernel: Kernel) -> NetnsId:
    """Return the pod's own network namespace.

    Raises:
        NoNetnsError: it has none: host network, a VM runtime, or it is gone.
    """
    if not pod.netns_path:
        raise NoNetnsError(
            f"pod {pod} claims a NIC but has no network namespace of its own: pods with hostNetwork"
            " and VM sandboxes cannot have one; remove hostNetwork or the claim"
        )
    netns = kernel.identify(pod.netns_path)
    if netns is None:
        raise NoNetnsError(
            f"pod {pod}: network namespace {pod.netns_path} does not exist; if the runtime"
            " has its namespaces there, mount the directory into the plugin's container"
            " (manifests/components/netns-state-dir)"
        )
    if kernel.is_host(netns):
        raise NoNetnsError(
            f"pod {pod} claims a NIC but uses the host's network; remove hostNetwork or the claim"
        )
    return netns


@dataclass(slots=True)
class Sandboxes:
    """Live sandboxes that may have devices."""

    _live: dict[str, Pod] = field(default_factory=dict)
    _by_uid: dict[str, dict[str, Pod]] = field(default_factory=dict)

    def __contains__(self, sandbox_id: object) -> bool:
        """Whether the sandbox is live."""
        return sandbox_id in self._live

    def __iter__(self) -> Iterator[Pod]:
        """Return an iterator over a copy, which changes do not affect."""
        return iter(tuple(self._live.values()))

    def add(self, pod: Pod) -> None:
        """Add a live sandbox; it replaces other ones of its pod."""
        for other in self.others(pod):
            self.remove(other.sandbox_id)
        self.remove(pod.sandbox_id)
        self._live[pod.sandbox_id] = pod
        self._by_uid.setdefault(pod.uid, {})[pod.sandbox_id] = pod

    def remove(self, sandbox_id: str) -> None:
        """Remove an ended sandbox, if present."""
        pod = self._live.pop(sandbox_id, None)
        if pod is not None:
            of_pod = self._by_uid[pod.uid]
            del of_pod[sandbox_id]
            if not of_pod:
                del self._by_uid[pod.uid]

    def others(self, pod: Pod) -> tuple[Pod, ...]:
        """Return the pod's other sandboxes that are recorded as live."""
        of_pod = self._by_uid.get(pod.uid, {})
        return tuple(sandbox for sandbox in of_pod.values() if sandbox.sandbox_id != pod.sandbox_id)

    def replace_all(self, listed: Iterable[Pod], owners: Collection[str]) -> None:
        """Replace all sandboxes by the runtime's list.

        Args:
            listed: sandboxes of the runtime that have not ended.
            owners: ids of sandboxes with attachment records, preferred among several of a pod
                for which the runtime reports no process.
        """
        self._live, self._by_uid = {}, {}
        for pod in sorted(listed, key=lambda pod: (pod.pid > 0, pod.sandbox_id in owners)):
            self.add(pod)
