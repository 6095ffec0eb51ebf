"""Record cache: devices that records of either process allocate, or that are not restored yet."""

from collections.abc import Iterator
from contextlib import suppress

from dra_shim.settings.common import StatePaths
from dranet_nri.errors import StateError
from dranet_nri.model import Device, Phase
from dranet_nri.state.records import NodeRecords


class RecordCache(NodeRecords):
    """Cache of the records of both processes."""

    def __init__(self, state: StatePaths) -> None:
        """Create the cache; arguments are those of NodeRecords."""
        super().__init__(state.allocations, state.attachments)

    def read_changes(self) -> None:
        """Read changed records, which consumes the inotify events.

        A record that cannot be read now is read again at the next call.
        """
        for reader in (self.allocations, self.attachments):
            with suppress(StateError, OSError):
                reader.refresh()

    def devices(self) -> dict[str, Device]:
        """Return the devices of all records by name, with their facts at allocation.

        Raises:
            StateError: a record cannot be read now.
            OSError: a directory cannot be read.
        """
        self.refresh()
        for record in self.unread:
            raise record.error
        return {device.name: device for device in self._devices()}

    def attach_failures(self) -> dict[str, str]:
        """Return device name → reason for devices that the plugin failed to attach or restore.

        A device that was restored after a failed attach is not included, because the cause may be
        the pod. Nor is a shared device, because other pods may still use it.
        """
        return {
            device.device.name: record.failure.message
            for record in self.attachments.records()
            if record.failure and record.phase is Phase.FAILED
            for device in record.devices
            if device.is_unrestored and not device.share_id
        }

    def _devices(self) -> Iterator[Device]:
        """Yield all devices without adminAccess, those of allocation records last."""
        for attachment in self.attachments.records():
            yield from (device.device for device in attachment.devices if device.is_unrestored)
        for allocation in self.allocations.records():
            yield from (device.device for device in allocation.devices if not device.admin_access)
