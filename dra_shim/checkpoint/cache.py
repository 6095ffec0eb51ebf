"""Record cache: devices that records of either process allocate, or that are not restored yet."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from dra_shim.settings.common import StatePaths
from dranet_nri.errors import StateError
from dranet_nri.model import Device, Phase
from dranet_nri.state.records import NodeRecords


@dataclass(frozen=True, slots=True)
class RecordedDevices:
    """The devices of all records.

    Attributes:
        devices: devices by name, with their facts at allocation; without those of adminAccess.
        moved: names of devices that the plugin moves, or that are in a pod; without shared devices,
            which stay on the host.
        failures: device name → reason why the plugin failed to attach or restore it. Without
            devices that were restored after a failed attach, because the cause may be the pod, and
            without shared devices, because other pods may still use them.
    """

    devices: Mapping[str, Device] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()
    failures: Mapping[str, str] = field(default_factory=dict)

    def then(self, later: Self) -> Self:
        """Return a later reading, with the devices of this one as well."""
        return type(self)(
            {**self.devices, **later.devices}, self.moved | later.moved, later.failures
        )


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

    def devices(self) -> RecordedDevices:
        """Return the devices of all records.

        Raises:
            StateError: a record cannot be read now.
            OSError: a directory cannot be read.
        """
        self.refresh()
        for record in self.unread:
            raise record.error
        devices: dict[str, Device] = {}
        moved: set[str] = set()
        failures: dict[str, str] = {}
        for attachment in self.attachments.records():
            unrestored = [device for device in attachment.devices if device.is_unrestored]
            devices |= {device.device.name: device.device for device in unrestored}
            exclusive = {device.device.name for device in unrestored if not device.share_id}
            if attachment.phase is not Phase.FAILED:
                moved |= exclusive
            elif attachment.failure is not None:
                failures |= dict.fromkeys(exclusive, attachment.failure.message)
        for allocation in self.allocations.records():
            devices |= {
                device.device.name: device.device
                for device in allocation.devices
                if not device.admin_access
            }
        return RecordedDevices(devices, frozenset(moved), failures)
