"""Device ownership by the records of both processes: allocated, or not restored yet."""

from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

from dra_shim.settings.common import StatePaths
from dranet_nri.errors import StateError
from dranet_nri.model import Device, Phase
from dranet_nri.state.reader import AllocationReader, AttachmentReader


class RecordCache:
    """The records of both processes, only read; a context manager, for one thread."""

    def __init__(self, state: StatePaths) -> None:
        """Read the directories and watch them; they need not exist yet.

        Raises:
            StateError: inotify is not to be had.
            OSError: a directory cannot be read.
        """
        self._allocations = AllocationReader(state.allocations, owner=None)
        try:
            self._attachments = AttachmentReader(state.attachments, owner=None)
        except BaseException:
            self._allocations.close()
            raise

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop watching."""
        self._allocations.close()
        self._attachments.close()

    def filenos(self) -> tuple[int, ...]:
        """Return the descriptors that are readable when records changed."""
        return self._allocations.fileno(), self._attachments.fileno()

    def take_in(self) -> None:
        """Read what changed, so that the descriptors are readable no longer.

        What cannot be read now is tried again with the next question.
        """
        for reader in (self._allocations, self._attachments):
            with suppress(StateError, OSError):
                reader.refresh()

    def devices(self) -> dict[str, Device]:
        """Return the devices by name, with the facts of when they were given away.

        Raises:
            StateError: a record cannot be read now.
            OSError: a directory cannot be read.
        """
        for reader in (self._allocations, self._attachments):
            reader.refresh()
            for record in reader.unread:
                raise record.error
        return {device.name: device for device in self._devices()}

    def failing(self) -> dict[str, str]:
        """Return of devices that the plugin could not bring back into their pod, by name, why not.

        What is at home was refused, or undone, which may be the pod's fault. Of a share nobody
        knows: what one pod does not get, others may have.
        """
        return {
            device.device.name: record.failure.message
            for record in self._attachments.records()
            if record.failure and record.phase is Phase.FAILED
            for device in record.devices
            if device.touched and not device.share_id
        }

    def _devices(self) -> Iterator[Device]:
        """Yield them, the shim's own records last, without adminAccess, which only observes."""
        for attachment in self._attachments.records():
            yield from (device.device for device in attachment.devices if device.touched)
        for allocation in self._allocations.records():
            yield from (device.device for device in allocation.devices if not device.admin_access)
