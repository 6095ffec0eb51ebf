"""dranet_nri.state.lock: one holder at a time, freed however it ends."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dranet_nri.state.lock import OperationLock, PluginLock
from dranet_nri.state.store import AllocationStore
from tests.dranet_nri.state.directories import open_descriptors
from tests.dranet_nri.state.examples import allocation_of

pytestmark = pytest.mark.process


ROOT = Path(__file__).parents[3]
HOLDER = """
import sys
from pathlib import Path
from dranet_nri.state.lock import PluginLock
print(PluginLock(Path(sys.argv[1])).try_acquire(), flush=True)
sys.stdin.read()
"""


def test_second_instance_waits_until_the_first_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    second = PluginLock(path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"True\n"
        assert not second.try_acquire()

        first.send_signal(signal.SIGKILL)
        first.wait()

        assert second.try_acquire()
    second.release()


def test_lock_is_held_until_it_is_released(tmp_path: Path) -> None:
    first, second = PluginLock(tmp_path / "lock"), PluginLock(tmp_path / "lock")

    assert first.try_acquire()
    assert first.try_acquire(), "ours already"
    assert not second.try_acquire()
    first.release()
    first.release()
    assert second.try_acquire()
    second.release()


def test_failed_acquire_leaves_no_descriptor(tmp_path: Path) -> None:
    first, second = PluginLock(tmp_path / "lock"), PluginLock(tmp_path / "lock")
    first.try_acquire()
    before = open_descriptors()

    second.try_acquire()

    assert open_descriptors() == before
    first.release()


@pytest.mark.parametrize(
    "acquire",
    [
        lambda path: PluginLock(path).try_acquire(),
        lambda path: OperationLock(path, path.parent.mkdir).__enter__(),
    ],
    ids=["plugin", "operation"],
)
def test_symbolic_link_in_place_of_the_lock_is_refused(
    tmp_path: Path, acquire: Callable[[Path], object]
) -> None:
    (tmp_path / "lock").symlink_to("elsewhere")

    with pytest.raises(OSError, match="symbolic link"):
        acquire(tmp_path / "lock")

    assert not (tmp_path / "elsewhere").exists()


def test_operation_lock_is_free_after_its_outermost_exit(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = OperationLock(path, tmp_path.mkdir)

    def is_free() -> bool:
        descriptor = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    with lock:
        with lock:
            assert not is_free()
        assert not is_free()
    assert is_free()


PUTTER = """
import sys
from pathlib import Path
from dranet_nri.state.store import AllocationStore
from tests.dranet_nri.state.examples import allocation_of
with AllocationStore(Path(sys.argv[1])) as store:
    for n in range(100):
        store.put(allocation_of("shared", nonce=sys.argv[2] + str(n)))
        store.put(allocation_of(sys.argv[2], nonce=str(n)))
        assert not store.broken
"""


def test_processes_of_one_owner_are_serialized(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", PUTTER, tmp_path, name], cwd=ROOT)
        for name in ("a", "b")
    ]
    assert [writer.wait() for writer in writers] == [0, 0]

    with AllocationStore(tmp_path) as store:
        assert store.get("a") == allocation_of("a", nonce="99")
        assert store.get("b") == allocation_of("b", nonce="99")
        assert store.get("shared") in [
            allocation_of("shared", nonce="a99"),
            allocation_of("shared", nonce="b99"),
        ]
        assert not store.broken
