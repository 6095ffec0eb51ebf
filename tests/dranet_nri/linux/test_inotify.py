"""dranet_nri.linux.inotify: events, overflows and replaced directories."""

import os
import resource
import shutil
import struct
from errno import EACCES, ENOSPC
from pathlib import Path

import pytest

from dranet_nri.errors import StateError
from dranet_nri.linux import inotify
from dranet_nri.linux.inotify import (
    IN_CREATE,
    IN_IGNORED,
    IN_MOVED_TO,
    IN_Q_OVERFLOW,
    ChangedFiles,
    InotifyEvent,
    Watch,
    parse_events,
)
from tests.dranet_nri.state.directories import open_descriptors

pytestmark = pytest.mark.process


def is_watching(observed: Watch) -> bool:
    """Whether the directory itself is watched, not one above it."""
    return observed.directory is not None


def event(watch: int, mask: int, name: bytes = b"") -> bytes:
    """Return a struct inotify_event as the kernel pads it."""
    padded = name + b"\0" * (-len(name) % 16) if name else b""
    return struct.pack("iIII", watch, mask, 0, len(padded)) + padded


def test_events_of_one_read_are_separated() -> None:
    data = (
        event(1, IN_MOVED_TO, b"a.json")
        + event(-1, IN_Q_OVERFLOW)
        + event(2, IN_CREATE, b"sixteen-byte.jso")
        + event(1, IN_IGNORED)
    )

    assert list(parse_events(data)) == [
        InotifyEvent(1, IN_MOVED_TO, "a.json"),
        InotifyEvent(-1, IN_Q_OVERFLOW, ""),
        InotifyEvent(2, IN_CREATE, "sixteen-byte.jso"),
        InotifyEvent(1, IN_IGNORED, ""),
    ]


def test_undecodable_name_is_kept() -> None:
    (only,) = parse_events(event(1, IN_CREATE, b"\xff.json"))

    assert os.fsencode(only.name) == b"\xff.json"


def test_overflow_marks_everything_as_changed(tmp_path: Path) -> None:
    observed = Watch(tmp_path)
    os.close(observed._inotify)
    observed._inotify, feed = os.pipe()
    os.set_blocking(observed._inotify, False)
    os.write(feed, event(-1, IN_Q_OVERFLOW))

    assert observed.drain() == ChangedFiles(everything=True)

    os.close(feed)
    observed.close()


@pytest.mark.parametrize(
    ("buffer", "reads", "changes"),
    [
        pytest.param(300, 128, ChangedFiles(everything=True), id="full buffers"),
        pytest.param(1024, 1, ChangedFiles(frozenset({"a.json"})), id="room for another event"),
    ],
)
def test_drain_of_a_busy_directory_is_bounded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    buffer: int,
    reads: int,
    changes: ChangedFiles,
) -> None:
    observed = Watch(tmp_path)
    (tmp_path / "a.json").touch()

    class Busy:
        """An inotify queue that is never empty."""

        reads = 0

        def read(self) -> bytes:
            self.reads += 1
            return event(observed._watch, IN_CREATE, b"a.json")

    busy = Busy()
    monkeypatch.setattr(Watch, "_read", lambda _self: busy.read())
    monkeypatch.setattr(inotify, "_BUFFER", buffer)

    assert observed.drain() == changes
    assert busy.reads == reads
    observed.close()


def test_events_of_a_replaced_directory_are_ignored(tmp_path: Path) -> None:
    directory = tmp_path / "records"
    directory.mkdir()
    observed = Watch(directory)
    (directory / "old.json").touch()
    directory.rename(tmp_path / "away")
    directory.mkdir()
    (tmp_path / "away" / "late.json").touch()

    assert observed.drain().everything
    (tmp_path / "away" / "later.json").touch()
    assert observed.drain() == ChangedFiles()
    observed.close()


def test_directory_created_during_the_watch_of_its_parent_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "lib" / "records"
    real_add = Watch._add

    def add_then_make(self: Watch, path: Path, *mask: int) -> int:
        found = real_add(self, path, *mask)
        directory.mkdir(parents=True, exist_ok=True)
        return found

    monkeypatch.setattr(Watch, "_add", add_then_make)

    observed = Watch(directory)

    assert is_watching(observed)
    (directory / "a.json").touch()
    assert observed.drain().names == {"a.json"}
    observed.close()


def test_directory_created_step_by_step_is_found(tmp_path: Path) -> None:
    directory = tmp_path / "run" / "dranet" / "records"
    observed = Watch(directory)
    for step in ("run", "run/dranet", "run/dranet/records"):
        assert not is_watching(observed)
        (tmp_path / step).mkdir()
        assert observed.drain().everything

    assert is_watching(observed)
    observed.close()


def test_file_in_place_of_the_directory_is_tolerated(tmp_path: Path) -> None:
    directory = tmp_path / "records"
    directory.write_bytes(b"")
    observed = Watch(directory)
    assert not is_watching(observed)

    directory.unlink()
    directory.mkdir()

    assert observed.drain().everything
    assert is_watching(observed)
    observed.close()


def test_exhausted_inotify_is_reported_with_the_remedy(tmp_path: Path) -> None:
    before = open_descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(StateError, match=r"fs\.inotify\.max_user_instances"):
            Watch(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert open_descriptors() == before


def test_directory_below_an_unreadable_one_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_add = Watch._add

    def add(self: Watch, path: Path, *mask: int) -> int:
        if path == tmp_path.parent:
            raise PermissionError(13, "Permission denied")
        return real_add(self, path, *mask)

    monkeypatch.setattr(Watch, "_add", add)
    observed = Watch(tmp_path)
    (tmp_path / "a.json").touch()

    assert observed.drain() == ChangedFiles(frozenset({"a.json"}))
    observed.close()


def test_failed_watch_leaves_no_open_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_descriptors()

    def refuse(_self: Watch, _path: Path, *_mask: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Watch, "_add", refuse)
    with pytest.raises(PermissionError):
        Watch(tmp_path)

    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("code", "reported"),
    [
        (EACCES, "[Errno 13] refused: {directory!r}"),
        (ENOSPC, "refused; raise the node's sysctl fs.inotify.max_user_watches"),
    ],
)
def test_refused_watch_is_reported_with_the_directory_or_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, reported: str
) -> None:
    real_call = inotify._call

    def call(name: str, *arguments: int | bytes) -> int:
        if name == "inotify_add_watch":
            raise OSError(code, "refused")
        return real_call(name, *arguments)

    monkeypatch.setattr(inotify, "_call", call)
    with pytest.raises((OSError, StateError)) as caught:
        Watch(tmp_path)

    assert str(caught.value) == reported.format(directory=str(tmp_path))


def test_path_without_an_existing_parent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_self: Watch, path: Path, *_mask: int) -> int:
        raise FileNotFoundError(path)

    monkeypatch.setattr(inotify.Watch, "_add", nothing)

    with pytest.raises(StateError, match="neither it nor a directory above it"):
        Watch(Path("/a/b"))


def test_removed_directory_is_watched_again_once_it_is_created(tmp_path: Path) -> None:
    directory = tmp_path / "run" / "records"
    directory.mkdir(parents=True)
    (directory / "old.json").touch()
    observed = Watch(directory)
    for removed in (directory, directory.parent):
        shutil.rmtree(removed)
        directory.mkdir(parents=True)
        assert observed.drain().everything

        (directory / "new.json").touch()
        assert observed.drain() == ChangedFiles(frozenset({"new.json"}))
        (directory.parent / "other").touch()
        (directory.parent / "other").unlink()
        assert observed.drain() == ChangedFiles()
    observed.close()


def test_last_event_of_a_name_decides_whether_it_is_removed(tmp_path: Path) -> None:
    for name in ("deleted", "renamed", "created again"):
        (tmp_path / name).touch()
    observed = Watch(tmp_path)
    (tmp_path / "deleted").unlink()
    (tmp_path / "renamed").rename(tmp_path / "new")
    (tmp_path / "created again").unlink()
    (tmp_path / "created again").touch()

    changes = observed.drain()
    observed.close()

    assert changes.names == {"deleted", "renamed", "new", "created again"}
    assert changes.removed == {"deleted"}
