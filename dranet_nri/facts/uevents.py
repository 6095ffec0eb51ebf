"""Device events (uevents) of devices that appear, disappear or are renamed, for an event loop.

Rules:
1. Events come directly from the kernel, so no udev daemon is needed; udev rules of the host may
   rename a device after its event.
2. An event only reports that something changed; a scan reads the current state. After an event
   with undecodable names everything is read.
3. Net and RDMA events are those of the network namespace in which the source was opened. Files of
   RDMA devices (infiniband_verbs) and PCI functions have no namespace: their events reach every
   namespace (uevent_net_broadcast_untagged, lib/kobject_uevent.c).
"""

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyudev

OVERFLOW: Final = "overflow"  # the action for lost events

_SUBSYSTEMS: Final = ("net", "infiniband", "infiniband_verbs", "pci")
_BUFFER_BYTES: Final = 8 << 20  # a driver reload sends hundreds of events at once


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """One event.

    Attributes:
        action: "add", "remove", "move", "change", "bind", …; OVERFLOW if events were lost, or
            cannot be distinguished from others.
        subsystem: "net", "infiniband", "infiniband_verbs" or "pci"; "" for an overflow.
        name: name in its subsystem ("eth0", "mlx5_0", "uverbs0", "0000:8a:00.0").
        path: device path below /sys.
    """

    action: str
    subsystem: str = ""
    name: str = ""
    path: str = ""


class DeviceEvents:
    """A source of device events: when fileno() is readable, pending() yields them."""

    def __init__(self) -> None:
        """Start listening in the thread's own network namespace."""
        self._monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source="kernel")
        for subsystem in _SUBSYSTEMS:
            self._monitor.filter_by(subsystem)
        self._enlarge()
        self._monitor.start()

    def fileno(self) -> int:
        """Return the descriptor to poll; it is open as long as this object exists."""
        return int(self._monitor.fileno())

    def pending(self) -> Iterator[DeviceEvent]:
        """Yield the queued events without waiting."""
        while True:
            try:
                event = self._next()
            except UnicodeDecodeError:
                event = DeviceEvent(OVERFLOW)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                event = DeviceEvent(OVERFLOW)
            if event is None:
                return
            yield event

    def _next(self) -> DeviceEvent | None:
        device = self._monitor.poll(timeout=0)
        if device is None:
            return None
        return DeviceEvent(
            str(device.action),
            str(device.subsystem),
            str(device.sys_name),
            str(device.device_path),
        )

    def _enlarge(self) -> None:
        """Enlarge the receive buffer; without CAP_NET_ADMIN the default stays."""
        try:
            self._monitor.set_receive_buffer_size(_BUFFER_BYTES)
        except OSError as error:
            if error.errno != errno.EPERM:
                raise
