"""Allocations of pods: the records of the shim, as the plugin reads them.

Rules:
1. An allocation that cannot be read is reported once, and read again until it can be.
2. For a pod without allocations no file is opened.
"""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from dranet_nri.attach.desired import devices_to_attach
from dranet_nri.errors import OutdatedError, UnusableRecordError
from dranet_nri.model import Allocation, Pod
from dranet_nri.plan.kernel import Kernel
from dranet_nri.plan.refusals import described
from dranet_nri.state.reader import AllocationReader


@dataclass(slots=True)
class PodAllocations:
    """Allocations by pod.

    Attributes:
        request_reconcile: requests a reconcile now, after a change of the allocations.
        wake: requests a reconcile soon, while an allocation cannot be read.
        boot_id: boot id of the running kernel; allocations of other boots are refused.
        unread: why an allocation cannot be read, "" if all can be.
    """

    reader: AllocationReader
    kernel: Kernel
    log: structlog.typing.FilteringBoundLogger
    request_reconcile: Callable[[], None]
    wake: Callable[[], None]
    boot_id: str
    unread: str = ""

    def refresh(self) -> None:
        """Read changed allocations; an unreadable one is retried at each call."""
        changed, unread = False, ""
        try:
            changed = bool(self.reader.refresh())
            unread = "; ".join(str(broken.error) for broken in self.reader.unread)
        except Exception as error:  # noqa: BLE001 - one file must not stop a node
            unread = described(error)
        if unread and not self.unread:
            self.log.error("allocations cannot be read, attaches may be late", reason=unread)
            self.wake()
        if changed or (self.unread and not unread):
            self.request_reconcile()
        self.unread = unread

    def has(self, pod_uid: str) -> bool:
        """Whether the pod has allocation records, usable or not."""
        return bool(self.reader.by_pod(pod_uid) or self.reader.broken_of_pod(pod_uid))

    def of(self, pod: Pod) -> tuple[Allocation, ...]:
        """Return the allocations of the pod's claims.

        Raises:
            UnusableRecordError: an allocation record of the pod cannot be used.
            OutdatedError: an allocation is from before the last boot of the node.
        """
        self.refresh()
        broken = self.reader.broken_of_pod(pod.uid)
        if broken:
            raise UnusableRecordError(
                f"pod {pod}: its allocation record cannot be used: {broken[0].error};"
                " see dranet-nri status, then delete the pod, so that it is prepared again"
            )
        claims = self.reader.by_pod(pod.uid)
        for claim in claims:
            if claim.boot_id and claim.boot_id != self.boot_id:
                raise OutdatedError(
                    f"pod {pod}: claim {claim.claim} was allocated before the node was booted;"
                    " the kubelet prepares it again; without a kubelet, run dra-shim allocate again"
                )
        attachable = tuple(claim for claim in claims if devices_to_attach(claim))
        if attachable == claims or not self._is_on_host_network(pod):
            return claims
        return attachable  # adminAccess needs no network namespace of the pod

    def _is_on_host_network(self, pod: Pod) -> bool:
        kernel = self.kernel
        netns = kernel.identify(pod.netns_path) if pod.netns_path else None
        return not pod.netns_path or (netns is not None and kernel.is_host(netns))
