"""Device ownership from the records of both processes: allocated, or not restored yet."""

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

    def take_in(self) -> None:
        """Read changed records, so that the inotify descriptors are no longer readable.

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

    def failing(self) -> dict[str, str]:
        """Return the devices that the plugin could not attach to their pod again: name → reason.

        A restored device was refused or undone, possibly because of the pod. A shared device is not
        included, because other pods may still use it.
        """
        return {
            device.device.name: record.failure.message
            for record in self.attachments.records()
            if record.failure and record.phase is Phase.FAILED
            for device in record.devices
            if device.is_unrestored and not device.share_id
        }

    def _devices(self) -> Iterator[Device]:
        """Yield all devices, those of allocation records last; without adminAccess."""
        for attachment in self.attachments.records():
            yield from (device.device for device in attachment.devices if device.is_unrestored)
        for allocation in self.allocations.records():
            yield from (device.device for device in allocation.devices if not device.admin_access)
