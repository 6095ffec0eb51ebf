"""References to the network namespaces of pods, held until their devices are restored.

A referenced namespace is never destroyed, and the devices in it would stay there.
"""

from dataclasses import dataclass, field
from typing import Final

from dranet_nri.attach.executor import Clock
from dranet_nri.attach.records import AttachmentRecords
from dranet_nri.model import NetnsId
from dranet_nri.plan.kernel import Kernel

HOLD_UNLINKED_S: Final = 30  # a namespace without a path, before the kernel is to empty it


@dataclass(frozen=True, slots=True)
class NetnsRefs:
    """Lets held namespaces go. One instance, on one event loop."""

    kernel: Kernel
    attachments: AttachmentRecords
    clock: Clock
    _unlinked: dict[NetnsId, int] = field(default_factory=dict)

    def end(self, netns: NetnsId) -> None:
        """Let the namespace go."""
        self.kernel.release(netns)
        self._unlinked.pop(netns, None)

    def end_if_home(self, netns: NetnsId) -> None:
        """Release the namespace once no allocated device is in it."""
        if not any(
            attachment.netns == netns and attachment.is_away
            for attachment in self.attachments.all()
        ):
            self.end(netns)

    def end_if_late(self, netns: NetnsId) -> None:
        """Release the namespace if the kernel has to empty it: restores failed for too long."""
        if self._patience_ended(netns) and self._returns_all(netns):
            self.end(netns)

    def _patience_ended(self, netns: NetnsId) -> bool:
        """Whether only the plugin's descriptor has kept the namespace alive for too long.

        Once it is let go, the kernel returns the hardware in it to the host by itself.
        """
        if self.kernel.identify(netns.path) == netns:
            self._unlinked.pop(netns, None)
            return False
        now = self.clock.boot()
        return now - self._unlinked.setdefault(netns, now) >= HOLD_UNLINKED_S

    def _returns_all(self, netns: NetnsId) -> bool:
        """Whether the kernel brings what is away in the namespace; a virtual device would die."""
        away = (
            attachment
            for attachment in self.attachments.all()
            if attachment.netns == netns and attachment.is_away
        )
        return all(
            nic.home or nic.device.key.bus for attachment in away for nic in attachment.devices
        )
