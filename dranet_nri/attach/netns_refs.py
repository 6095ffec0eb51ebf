"""References to the network namespaces of pods, kept until their devices are restored.

A reference keeps the namespace, and the devices in it, after the pod has ended.
"""

from dataclasses import dataclass, field
from typing import Final

from dranet_nri.attach.records import AttachmentRecords
from dranet_nri.component.clock import SystemClock
from dranet_nri.model import NetnsId
from dranet_nri.plan.kernel import Kernel

HOLD_UNLINKED_S: Final = 30  # for a namespace without a path, before the kernel empties it


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
            attachment.netns == netns and attachment.is_away
            for attachment in self.attachments.all()
        ):
            self.release(netns)

    def release_if_late(self, netns: NetnsId) -> None:
        """Release the namespace, so that the kernel empties it, if restores failed for too long."""
        if self._is_hold_expired(netns) and self._returns_all(netns):
            self.release(netns)

    def _is_hold_expired(self, netns: NetnsId) -> bool:
        """Whether only the plugin's descriptor has kept the namespace for HOLD_UNLINKED_S.

        After the release, the kernel returns the hardware in it to the host.
        """
        if self.kernel.identify(netns.path) == netns:
            self._unlinked.pop(netns, None)
            return False
        now = self.clock.boot()
        return now - self._unlinked.setdefault(netns, now) >= HOLD_UNLINKED_S

    def _returns_all(self, netns: NetnsId) -> bool:
        """Whether the kernel returns all its unrestored devices; it destroys virtual ones."""
        away = (
            attachment
            for attachment in self.attachments.all()
            if attachment.netns == netns and attachment.is_away
        )
        return all(
            nic.home or nic.device.key.bus for attachment in away for nic in attachment.devices
        )
