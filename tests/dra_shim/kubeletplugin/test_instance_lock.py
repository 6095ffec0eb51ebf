"""Two shims on one node: the second one waits, knows for whom, and takes over."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from errno import ENOSPC
from pathlib import Path

import pytest

from dra_shim.kubeletplugin import SocketError, only_instance
from dra_shim.kubeletplugin.instance_lock import POLL_S
from dra_shim.kubeletplugin.plugin import WATCH_S
from tests.dra_shim.kubeletplugin.kubelet_bench import Node, short_directory
from tests.fakes.clock import FakeClock

pytestmark = pytest.mark.process


__all__ = ["short_directory"]

HOLD = """
import asyncio, sys
from pathlib import Path
from dra_shim.kubeletplugin import only_instance
async def hold():
    async with only_instance(Path(sys.argv[1]), "pod dra-net-x7, pid 12", print):
        print("held", flush=True)
        await asyncio.Event().wait()
asyncio.run(hold())
"""


@pytest.fixture
def node(short_directory: Path) -> Iterator[Node]:
    with closing(Node(short_directory)) as made:
        made.kubelet.start()
        yield made


async def run_instance(node: Node, name: str, waiting_for: list[str], clock: FakeClock) -> None:
    """Be a shim, as its daemon is one."""
    async with only_instance(node.sockets.lock, name, waiting_for.append, sleep=clock.sleep):
        await node.new_plugin().run()


def test_second_instance_waits_and_takes_over(node: Node) -> None:
    claim = node.bench.cluster.add("nics", "u1", "a")
    waiting_for: list[str] = []
    waiting = FakeClock()

    async def run() -> None:
        first = asyncio.create_task(run_instance(node, "pod one", waiting_for, FakeClock()))
        await node.clock.until_asleep(WATCH_S)
        await node.kubelet.look()
        second = asyncio.create_task(run_instance(node, "pod two", waiting_for, waiting))
        for _ in range(3):
            await waiting.until_asleep(POLL_S)
            waiting.pass_time(POLL_S)
        assert waiting_for == ["pod one"]
        assert len((await node.kubelet.prepare(claim))["u1"]) == 1

        first.cancel()
        await asyncio.wait({first})
        await waiting.until_asleep(POLL_S)
        waiting.pass_time(POLL_S)
        await node.clock.until_asleep(WATCH_S)
        await node.kubelet.look()

        assert node.sockets.lock.read_text() == "pod two\n"
        await node.kubelet.unprepare(claim)
        second.cancel()
        await asyncio.wait({second})
        await node.kubelet.restart()

    asyncio.run(run())
    assert waiting_for == ["pod one"]


def test_lock_of_a_killed_process_is_free(node: Node) -> None:
    path = str(node.sockets.lock)
    child = subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    waiting_for: list[str] = []
    clock = FakeClock()

    async def run() -> None:
        async def acquire_lock() -> None:
            async with only_instance(
                node.sockets.lock, "pod two", waiting_for.append, sleep=clock.sleep
            ):
                pass

        task = asyncio.create_task(acquire_lock())
        await clock.until_asleep(POLL_S)
        child.send_signal(signal.SIGKILL)
        child.wait()
        clock.pass_time(POLL_S)
        await task

    with child:
        asyncio.run(run())
    assert waiting_for == ["pod dra-net-x7, pid 12"]


def test_full_disk_prevents_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(ENOSPC, "No space left on device")

    async def run() -> bool:
        async with only_instance(tmp_path / "lock", "pod one", print):
            return True

    monkeypatch.setattr(Path, "write_text", full)

    assert asyncio.run(run())


def test_error_of_a_lock_names_the_directory(tmp_path: Path) -> None:
    lock = tmp_path / "kubelet" / "plugins" / "dra.net" / "lock"

    async def run() -> None:
        async with only_instance(lock, "pod one", print):
            raise AssertionError

    with pytest.raises(SocketError, match="cannot be made: No such file"):
        asyncio.run(run())
    assert not os.path.lexists(tmp_path / "kubelet")
