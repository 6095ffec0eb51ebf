"""Kernel events of devices that appear, disappear or are renamed, for an event loop.

Rules:
1. Events come directly from the kernel, so no udev daemon is needed; rules of the host's udev
   may still rename a device after its event.
2. An event only says that something changed; a scan reads the current state. An event whose
   names cannot be decoded stands for any change: everything is read.
3. Net and RDMA events are those of the network namespace in which the source was opened. Files of
   RDMA devices (infiniband_verbs) and PCI functions have no namespace: their events reach every
   namespace (uevent_net_broadcast_untagged, lib/kobject_uevent.c).
"""

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyudev

OVERFLOW: Final = "overflow"  # the action that stands for events that found no room

_SUBSYSTEMS: Final = ("net", "infiniband", "infiniband_verbs", "pci")
_BUFFER_BYTES: Final = 8 << 20  # a driver reload sends hundreds of events at once


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """One event.

    Attributes:
        action: "add", "remove", "move", "change", "bind", …; OVERFLOW if events were lost, or
            cannot be distinguished from others.
        subsystem: "net", "infiniband", "infiniband_verbs" or "pci"; "" for an overflow.
        name: of the device in its subsystem ("eth0", "mlx5_0", "uverbs0", "0000:8a:00.0").
        path: below /sys, as the kernel names it.
    """

    action: str
    subsystem: str = ""
    name: str = ""
    path: str = ""


class DeviceEvents:
    """A source of device events: wait until fileno() is readable, then call pending()."""

    def __init__(self) -> None:
        """Start listening in the thread's own network namespace."""
        self._monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source="kernel")
        for subsystem in _SUBSYSTEMS:
            self._monitor.filter_by(subsystem)
        self._enlarge()
        self._monitor.start()

    def fileno(self) -> int:
        """Return the descriptor to poll; it lives as long as this object."""
        return int(self._monitor.fileno())

    def pending(self) -> Iterator[DeviceEvent]:
        """Yield the events that are there now, without waiting for more."""
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
        """Ask for a larger buffer; without CAP_NET_ADMIN the usual one has to do."""
        try:
            self._monitor.set_receive_buffer_size(_BUFFER_BYTES)
        except OSError as error:
            if error.errno != errno.EPERM:
                raise
