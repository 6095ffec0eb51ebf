"""Listener for RDMA events, on an event loop, while the host has RDMA devices.

A socket of NETLINK_RDMA blocks the unload of ib_core (netlink_create in af_netlink.c), which the
reload of a vendor's drivers includes: so the socket is closed with the last device.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dranet_nri.errors import KernelError
from dranet_nri.linux.rdma.multicast import RdmaMonitor, open_monitor
from dranet_nri.linux.rdma.types import RdmaEvent


class RdmaListener:
    """Listener for RDMA device events, on one event loop."""

    def __init__(
        self,
        sysfs: Path,
        on_events: Callable[[tuple[RdmaEvent, ...]], None],
        on_error: Callable[[KernelError], None],
        opened: Callable[[], RdmaMonitor | None] = open_monitor,
    ) -> None:
        """Prepare; `follow` opens the socket.

        Args:
            sysfs: a mount of sysfs of this network namespace.
            on_events: called with received events.
            on_error: called with the reason if events cannot be received; follow retries.
            opened: opens the socket; see open_monitor.
        """
        self._devices = sysfs / "class/infiniband"
        self._on_events, self._on_error, self._opened = on_events, on_error, opened
        self._has_devices = False
        self._monitor: RdmaMonitor | None = None

    def follow(self) -> None:
        """Listen if there are RDMA devices, stop if there are none.

        Called on the running event loop, at the start and after device events, which also report
        RDMA devices. Without a device a socket would load RDMA modules.
        """
        has_devices = _has_entries(self._devices)
        if has_devices == self._has_devices:
            return
        self._has_devices = has_devices
        if has_devices:
            self._listen()
        elif self._monitor is not None:
            self._read(self._monitor)
            self.close()

    def close(self) -> None:
        """Stop listening. Idempotent."""
        monitor, self._monitor = self._monitor, None
        if monitor is not None:
            asyncio.get_running_loop().remove_reader(monitor.fileno())
            monitor.close()

    def _listen(self) -> None:
        try:
            self._monitor = monitor = self._opened()
        except KernelError as error:
            self._on_error(error)
            return
        if monitor is not None:  # None before Linux 6.12
            asyncio.get_running_loop().add_reader(monitor.fileno(), self._read, monitor)

    def _read(self, monitor: RdmaMonitor) -> None:
        try:
            events = tuple(monitor.pending())
        except KernelError as error:
            self.close()
            self._on_error(error)
            return
        if events:
            self._on_events(events)


def _has_entries(directory: Path) -> bool:
    with suppress(OSError):
        return any(directory.iterdir())
    return False
