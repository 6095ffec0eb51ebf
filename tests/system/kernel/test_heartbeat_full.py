"""The heartbeat on a small tmpfs of its own, as on a node whose /run is full."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dranet_nri.component.files import FileSystem
from dranet_nri.state import heartbeat
from dranet_nri.state.heartbeat import Heartbeat
from dranet_nri.state.lock import PluginLock
from tests.capability import lacking
from tests.unwritable import full, readonly

FIRST = Heartbeat(7, 1000.0, serving=True)
NEXT = Heartbeat(7, 123456.789, serving=False, error="nobody there")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """Return a directory with little room, for bytes and for files."""
    mount = ("mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=16", "run", str(tmp_path))
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        lacking("a mount of one's own", "run as root in a private mount namespace")
    yield tmp_path
    subprocess.run(("umount", "--lazy", str(tmp_path)), check=True)


def test_heartbeat_is_written_without_free_bytes(run: Path) -> None:
    heartbeat.store(FileSystem(), run, FIRST)
    with full(run):
        with pytest.raises(OSError, match="No space left"):
            (run / "more").write_bytes(b"x")

        heartbeat.store(FileSystem(), run, NEXT)

        assert heartbeat.load(run) == NEXT


def test_heartbeat_is_written_without_free_inodes(run: Path) -> None:
    heartbeat.store(FileSystem(), run, FIRST)
    with suppress(OSError):
        for number in range(100):
            (run / str(number)).touch()
    with pytest.raises(OSError, match="No space left"):
        (run / "more").touch()

    heartbeat.store(FileSystem(), run, NEXT)

    assert heartbeat.load(run) == NEXT


def test_running_plugin_keeps_its_directory_writable(run: Path) -> None:
    lock = PluginLock(run / "lock")
    assert lock.try_acquire()

    with pytest.raises(subprocess.CalledProcessError), readonly(run):
        pass

    lock.release()
    with readonly(run), pytest.raises(OSError, match="Read-only"):
        PluginLock(run / "lock").try_acquire()
