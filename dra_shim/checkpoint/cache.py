"""Device ownership by the records of both processes: allocated, or not restored yet."""

from collections.abc import Iterator
from contextlib import suppress

from dra_shim.settings.common import StatePaths
from dranet_nri.errors import StateError
from dranet_nri.model import Device, Phase
from dranet_nri.state.records import NodeRecords


class RecordCache(NodeRecords):
    """The records of both processes, and the devices in them."""

    def __init__(self, state: StatePaths) -> None:
        """See NodeRecords."""
        super().__init__(state.allocations, state.attachments)

    def take_in(self) -> None:
        """Read what changed, so that the descriptors are readable no longer.

        What cannot be read now is tried again with the next question.
        """
        for reader in (self.allocations, self.attachments):
            with suppress(StateError, OSError):
                reader.refresh()

    def devices(self) -> dict[str, Device]:
        """Return the devices by name, with the facts of when they were given away.

        Raises:
            StateError: a record cannot be read now.
            OSError: a directory cannot be read.
        """
        self.refresh()
        for record in self.unread:
            raise record.error
        return {device.name: device for device in self._devices()}

    def failing(self) -> dict[str, str]:
        """Return of devices that the plugin could not bring back into their pod, by name, why not.

        What is at home was refused, or undone, which may be the pod's fault. Of a share nobody
        knows: what one pod does not get, others may have.
        """
        return {
            device.device.name: record.failure.message
            for record in self.attachments.records()
            if record.failure and record.phase is Phase.FAILED
            for device in record.devices
            if device.touched and not device.share_id
        }

    def _devices(self) -> Iterator[Device]:
        """Yield them, the shim's own records last, without adminAccess, which only observes."""
        for attachment in self.attachments.records():
            yield from (device.device for device in attachment.devices if device.touched)
        for allocation in self.allocations.records():
            yield from (device.device for device in allocation.devices if not device.admin_access)
