"""RDMA events on an event loop, for as long as the host has RDMA devices.

A socket of NETLINK_RDMA keeps ib_core from being unloaded (netlink_create in af_netlink.c), and a
reload of a vendor's drivers unloads it: so the socket is closed with the last device.
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
        heard: Callable[[tuple[RdmaEvent, ...]], None],
        deaf: Callable[[KernelError], None],
        opened: Callable[[], RdmaMonitor | None] = open_monitor,
    ) -> None:
        """Prepare; nothing is opened before follow.

        Args:
            sysfs: a mount of sysfs of this network namespace.
            heard: called with events as they come.
            deaf: called with the reason when no events come, until the devices change.
            opened: opens the socket; see open_monitor.
        """
        self._devices = sysfs / "class/infiniband"
        self._heard, self._deaf, self._opened = heard, deaf, opened
        self._there = False
        self._monitor: RdmaMonitor | None = None

    def follow(self) -> None:
        """Listen if there are RDMA devices, stop if there are none.

        To be called on the running event loop, at first and after device events: those tell as
        well what comes and goes. Without a device, asking would load RDMA.
        """
        there = _has_entries(self._devices)
        if there == self._there:
            return
        self._there = there
        if there:
            self._listen()
        elif self._monitor is not None:
            self._take(self._monitor)
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
            self._deaf(error)
            return
        if monitor is not None:  # before Linux 6.12 nothing is announced
            asyncio.get_running_loop().add_reader(monitor.fileno(), self._take, monitor)

    def _take(self, monitor: RdmaMonitor) -> None:
        try:
            events = tuple(monitor.pending())
        except KernelError as error:
            self.close()
            self._deaf(error)
            return
        if events:
            self._heard(events)


def _has_entries(folder: Path) -> bool:
    with suppress(OSError):
        return any(folder.iterdir())
    return False
