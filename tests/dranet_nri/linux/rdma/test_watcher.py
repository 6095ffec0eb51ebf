"""Listener for RDMA events, open only while there are RDMA devices."""

import asyncio
import socket
from errno import EBADMSG, EPERM
from pathlib import Path

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.linux.rdma import codec
from dranet_nri.linux.rdma.multicast import RdmaMonitor
from dranet_nri.linux.rdma.types import EventKind, RdmaEvent
from dranet_nri.linux.rdma.watcher import RdmaListener
from tests.dranet_nri.linux.rdma.test_multicast import message
from tests.dranet_nri.nri.stub.plugin_bench import finish

pytestmark = pytest.mark.process


REGISTER, UNREGISTER = RdmaEvent(EventKind.REGISTER), RdmaEvent(EventKind.UNREGISTER)
REFUSED = KernelError("listen to RDMA events", EPERM)


class Kernel:
    """A sysfs with RDMA devices, and what announces them.

    Attributes:
        silent: the kernel announces nothing.
        refuses: it lets nobody listen.
        sockets: pairs of each socket that was opened and its far end.
        heard, unheard: what a listener told.
    """

    def __init__(self, root: Path) -> None:
        self._devices = root / "class/infiniband"
        self.silent = self.refuses = False
        self.sockets: list[tuple[socket.socket, socket.socket]] = []
        self.heard: list[RdmaEvent] = []
        self.unheard: list[KernelError] = []
        self.listener = RdmaListener(root, self._hear, self._lose, self._opened)
        self._told = asyncio.Event()

    def add(self, name: str) -> None:
        (self._devices / name).mkdir(parents=True)
        self.listener.follow()

    def remove(self, name: str) -> None:
        (self._devices / name).rmdir()
        self.listener.follow()

    def tell(self, told: bytes) -> None:
        self.sockets[-1][1].send(told)

    def listening(self) -> list[bool]:
        """Return of each socket whether it is open."""
        return [near.fileno() >= 0 for near, _ in self.sockets]

    async def told(self) -> None:
        """Return once the listener told something."""
        await self._told.wait()
        self._told.clear()

    def close(self) -> None:
        for near, far in self.sockets:
            near.close()
            far.close()

    def _hear(self, events: tuple[RdmaEvent, ...]) -> None:
        self.heard += events
        self._told.set()

    def _lose(self, error: KernelError) -> None:
        self.unheard.append(error)
        self._told.set()

    def _opened(self) -> RdmaMonitor | None:
        if self.refuses:
            raise REFUSED
        if self.silent:
            return None
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        near.settimeout(0)
        self.sockets.append((near, far))
        return RdmaMonitor(near)


def test_listener_is_open_while_there_are_devices(tmp_path: Path) -> None:
    async def scene() -> None:
        it = Kernel(tmp_path)
        it.listener.follow()
        assert it.listening() == [], "asking would load RDMA"

        it.add("mlx5_0")
        it.add("mlx5_1")
        it.tell(message(codec.MONITOR, 0))
        await it.told()
        assert it.heard == [REGISTER]
        it.remove("mlx5_0")
        assert it.listening() == [True]

        it.tell(message(codec.MONITOR, 1))
        it.remove("mlx5_1")
        assert it.heard == [REGISTER, UNREGISTER], "what is left is told before the end"
        assert it.listening() == [False], "ib_core can be unloaded"
        await it.told()

        it.add("mlx5_0")
        it.tell(message(codec.MONITOR, 0))
        await it.told()
        assert it.heard == [REGISTER, UNREGISTER, REGISTER]
        it.listener.close()
        it.listener.close()
        assert it.listening() == [False, False]
        assert it.unheard == []
        it.close()

    finish(scene())


def test_empty_device_class_opens_no_listener(tmp_path: Path) -> None:
    async def scene() -> None:
        it = Kernel(tmp_path)
        (tmp_path / "class/infiniband").mkdir(parents=True)
        it.listener.follow()
        assert it.listening() == []

    finish(scene())


def test_refused_listener_is_reported_once_until_devices_change(tmp_path: Path) -> None:
    async def scene() -> None:
        it = Kernel(tmp_path)
        it.refuses = True
        it.add("mlx5_0")
        it.add("mlx5_1")
        assert it.unheard == [REFUSED]

        it.refuses = False
        it.remove("mlx5_0")
        it.remove("mlx5_1")
        it.add("mlx5_0")
        assert it.listening() == [True]
        it.listener.close()
        it.close()

    finish(scene())


def test_kernel_without_notifications_is_accepted(tmp_path: Path) -> None:
    async def scene() -> None:
        it = Kernel(tmp_path)
        it.silent = True
        it.add("mlx5_0")
        it.remove("mlx5_0")
        assert (it.heard, it.unheard) == ([], [])

    finish(scene())


def test_failed_socket_is_reported_and_closed(tmp_path: Path) -> None:
    async def scene() -> None:
        it = Kernel(tmp_path)
        it.add("mlx5_0")
        it.tell(message(codec.MONITOR, 0)[:-8])
        await it.told()
        assert [error.code for error in it.unheard] == [EBADMSG]
        assert (it.heard, it.listening()) == ([], [False])
        it.close()

    finish(scene())
