"""References to the network namespaces of pods, until their devices are restored.

A reference (an open descriptor) keeps the namespace and its devices after the pod has ended.
"""

from dataclasses import dataclass, field
from typing import Final

from dranet_nri.attach.records import AttachmentRecords
from dranet_nri.component.clock import SystemClock
from dranet_nri.model import NetnsId
from dranet_nri.plan.kernel import Kernel

UNLINKED_TIMEOUT_S: Final = 30  # of restores in a namespace that only the plugin references


@dataclass(frozen=True, slots=True)
class NetnsRefs:
    """Releases referenced namespaces. One instance, on one event loop."""

    kernel: Kernel
    attachments: AttachmentRecords
    clock: SystemClock
    _unlinked: dict[NetnsId, int] = field(default_factory=dict)

    def release(self, netns: NetnsId) -> None:
        """Release the namespace."""
        self.kernel.release(netns)
        self._unlinked.pop(netns, None)

    def release_if_restored(self, netns: NetnsId) -> None:
        """Release the namespace if all its devices are restored."""
        if not any(
            attachment.netns == netns and attachment.is_unrestored
            for attachment in self.attachments.all()
        ):
            self.release(netns)

    def release_if_expired(self, netns: NetnsId) -> None:
        """Release the namespace if restores in it have failed for too long.

        The kernel then ends it, and returns its hardware to the host.
        """
        if self._is_expired(netns) and self._is_hardware_only(netns):
            self.release(netns)

    def _is_expired(self, netns: NetnsId) -> bool:
        """Whether the runtime has removed the namespace's path for UNLINKED_TIMEOUT_S."""
        if self.kernel.identify(netns.path) == netns:
            self._unlinked.pop(netns, None)
            return False
        now = self.clock.boot()
        return now - self._unlinked.setdefault(netns, now) >= UNLINKED_TIMEOUT_S

    def _is_hardware_only(self, netns: NetnsId) -> bool:
        """Whether all unrestored devices in it are hardware. The kernel destroys virtual ones."""
        unrestored = (
            attachment
            for attachment in self.attachments.all()
            if attachment.netns == netns and attachment.is_unrestored
        )
        return all(
            device.restored or device.device.key.bus
            for attachment in unrestored
            for device in attachment.devices
        )
