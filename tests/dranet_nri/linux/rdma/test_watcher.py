"""Listener for RDMA events, open only while there are RDMA devices."""

import asyncio
import socket
from errno import EBADMSG, EPERM
from pathlib import Path

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.linux.rdma import codec
from dranet_nri.linux.rdma.multicast import RdmaMonitor
from dranet_nri.linux.rdma.types import RdmaEvent
from dranet_nri.linux.rdma.watcher import RdmaListener
from tests.dranet_nri.linux.rdma.test_multicast import message
from tests.dranet_nri.nri.stub.plugin_bench import finish

pytestmark = pytest.mark.process


REGISTER, UNREGISTER = RdmaEvent.REGISTER, RdmaEvent.UNREGISTER
REFUSED = KernelError("listen to RDMA events", EPERM)


class Kernel:
    """A sysfs with RDMA devices, and what announces them.

    Attributes:
        silent: the kernel sends no notifications.
        refuses: it refuses every listener.
        sockets: pairs of each socket that was opened and its far end.
        events, errors: the reports of the listener.
    """

    def __init__(self, root: Path) -> None:
        self._devices = root / "class/infiniband"
        self.silent = self.refuses = False
        self.sockets: list[tuple[socket.socket, socket.socket]] = []
        self.events: list[RdmaEvent] = []
        self.errors: list[KernelError] = []
        self.listener = RdmaListener(root, self._on_events, self._on_error, self._opened)
        self._reported = asyncio.Event()

    def add(self, name: str) -> None:
        (self._devices / name).mkdir(parents=True)
        self.listener.follow()

    def remove(self, name: str) -> None:
        (self._devices / name).rmdir()
        self.listener.follow()

    def send(self, data: bytes) -> None:
        self.sockets[-1][1].send(data)

    def listening(self) -> list[bool]:
        """Return of each socket whether it is open."""
        return [near.fileno() >= 0 for near, _ in self.sockets]

    async def reported(self) -> None:
        """Return once the listener reported something."""
        await self._reported.wait()
        self._reported.clear()

    def close(self) -> None:
        for near, far in self.sockets:
            near.close()
            far.close()

    def _on_events(self, events: tuple[RdmaEvent, ...]) -> None:
        self.events += events
        self._reported.set()

    def _on_error(self, error: KernelError) -> None:
        self.errors.append(error)
        self._reported.set()

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
    async def scenario() -> None:
        kernel = Kernel(tmp_path)
        kernel.listener.follow()
        assert kernel.listening() == [], "asking would load RDMA"

        kernel.add("mlx5_0")
        kernel.add("mlx5_1")
        kernel.send(message(codec.MONITOR, 0))
        await kernel.reported()
        assert kernel.events == [REGISTER]
        kernel.remove("mlx5_0")
        assert kernel.listening() == [True]

        kernel.send(message(codec.MONITOR, 1))
        kernel.remove("mlx5_1")
        assert kernel.events == [REGISTER, UNREGISTER], "what is left is reported before the end"
        assert kernel.listening() == [False], "ib_core can be unloaded"
        await kernel.reported()

        kernel.add("mlx5_0")
        kernel.send(message(codec.MONITOR, 0))
        await kernel.reported()
        assert kernel.events == [REGISTER, UNREGISTER, REGISTER]
        kernel.listener.close()
        kernel.listener.close()
        assert kernel.listening() == [False, False]
        assert kernel.errors == []
        kernel.close()

    finish(scenario())


def test_empty_device_class_opens_no_listener(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel = Kernel(tmp_path)
        (tmp_path / "class/infiniband").mkdir(parents=True)
        kernel.listener.follow()
        assert kernel.listening() == []

    finish(scenario())


def test_refused_listener_is_reported_once_until_devices_change(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel = Kernel(tmp_path)
        kernel.refuses = True
        kernel.add("mlx5_0")
        kernel.add("mlx5_1")
        assert kernel.errors == [REFUSED]

        kernel.refuses = False
        kernel.remove("mlx5_0")
        kernel.remove("mlx5_1")
        kernel.add("mlx5_0")
        assert kernel.listening() == [True]
        kernel.listener.close()
        kernel.close()

    finish(scenario())


def test_kernel_without_notifications_is_accepted(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel = Kernel(tmp_path)
        kernel.silent = True
        kernel.add("mlx5_0")
        kernel.remove("mlx5_0")
        assert (kernel.events, kernel.errors) == ([], [])

    finish(scenario())


def test_failed_socket_is_reported_and_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel = Kernel(tmp_path)
        kernel.add("mlx5_0")
        kernel.send(message(codec.MONITOR, 0)[:-8])
        await kernel.reported()
        assert [error.code for error in kernel.errors] == [EBADMSG]
        assert (kernel.events, kernel.listening()) == ([], [False])
        kernel.close()

    finish(scenario())
