"""component.files: atomic writes, and checks on files of others."""

import itertools
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from errno import (
    EACCES,
    EEXIST,
    EINVAL,
    ELOOP,
    ENOENT,
    ENOSPC,
    ENOSYS,
    EOPNOTSUPP,
    EPERM,
    EXDEV,
)
from pathlib import Path

import pytest

from dranet_nri.component.files import (
    DeferredFileSystem,
    FileSystem,
    read_record_bytes,
    remove,
    remove_staged,
    save,
)
from dranet_nri.errors import StateCorruptError
from tests.dranet_nri.state.directories import removed_and_open
from tests.dranet_nri.state.failing import DeadFs, FailingFs


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def test_failed_save_leaves_the_old_or_the_new_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "claim.json"
    for n in itertools.count(1):
        save(FileSystem(), path, b"old record")
        try:
            save(FailingFs(n), path, b"new record")
        except OSError:
            assert path.read_bytes() in {b"old record", b"new record"}
            assert names(tmp_path) == ["claim.json"]
        else:
            break

    assert n == 4, "write, rename, sync failed in turn; then nothing was left to fail"
    assert path.read_bytes() == b"new record"


def test_save_after_a_crash_at_any_step_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "claim.json"
    for n in itertools.count(1):
        save(FileSystem(), path, b"old record")
        try:
            save(DeadFs(n), path, b"new record")
        except OSError:
            assert path.read_bytes() in {b"old record", b"new record"}
            save(FileSystem(), path, b"next record")
            assert path.read_bytes() == b"next record"
            assert names(tmp_path) == ["claim.json"]
        else:
            break

    assert n == 4


def test_failed_save_of_a_new_file_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    for kind in (FailingFs, DeadFs):
        path = tmp_path / "claim.json"
        for n in itertools.count(1):
            path.unlink(missing_ok=True)
            try:
                save(kind(n), path, b"record", new=True)
            except OSError:
                assert names(tmp_path) == [path.name] * path.exists()
                save(FileSystem(), path, b"record", new=True)
                assert names(tmp_path) == [path.name]
            else:
                break

        assert n == 3, "creation and sync failed in turn"
        assert path.read_bytes() == b"record"


def test_remove_can_be_repeated_after_any_failure(tmp_path: Path) -> None:
    path = tmp_path / "claim.json"
    for n in itertools.count(1):
        save(FileSystem(), path, b"old record")
        try:
            remove(FailingFs(n), path)
        except OSError:
            remove(FileSystem(), path)
            assert names(tmp_path) == []
        else:
            break

    assert n == 3, "unlink and sync failed in turn"
    assert names(tmp_path) == []


@pytest.mark.parametrize("new", [False, True], ids=["renamed", "linked"])
def test_durable_file_is_synced_before_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, new: bool
) -> None:
    path = tmp_path / "claim.json"
    real_fsync = os.fsync
    steps: list[tuple[bool, int]] = []

    def note(descriptor: int) -> None:
        real_fsync(descriptor)
        status = os.fstat(descriptor)
        steps.append((path.exists(), status.st_ino))

    monkeypatch.setattr("dranet_nri.component.files.os.fsync", note)

    save(FileSystem(), path, b"data", new=new)

    file, directory = path.stat().st_ino, tmp_path.stat().st_ino
    again = [(True, file)] if new else []  # btrfs logs no file without a link
    assert steps == [(False, file), *again, (True, directory)]


def test_volatile_file_is_not_synced(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"

    class NoSync(FileSystem):
        def sync_directory(self, path: Path) -> None:
            raise AssertionError(path)

    save(NoSync(), path, b"data", durable=False, mode=0o644)

    assert path.read_bytes() == b"data"
    remove(NoSync(), path, durable=False)
    assert not path.exists()


def test_deferred_file_system_frees_replaced_and_removed_files_later(tmp_path: Path) -> None:
    fs = DeferredFileSystem()
    save(fs, tmp_path / "claim.json", b"old record")
    with fs.freed_later(), fs.freed_later():
        save(fs, tmp_path / "claim.json", b"new record")
        remove(fs, tmp_path / "claim.json")
        remove(fs, tmp_path / "claim.json")

        assert names(tmp_path) == []
        assert removed_and_open(tmp_path) == 2
    assert removed_and_open(tmp_path) == 0


def test_deferred_file_system_frees_the_entry_of_a_new_file_later(tmp_path: Path) -> None:
    fs = DeferredFileSystem()
    with fs.freed_later():
        save(fs, tmp_path / "claim.json", b"record", new=True)

        assert names(tmp_path) == ["claim.json"]
        assert (tmp_path / "claim.json").stat().st_nlink == 1
        assert removed_and_open(tmp_path) == 1, "the file had another entry, without a name"
    assert removed_and_open(tmp_path) == 0
    save(fs, tmp_path / "other.json", b"record", new=True)
    assert removed_and_open(tmp_path) == 0


@pytest.mark.parametrize(
    "refused", [EEXIST, EOPNOTSUPP, ENOSYS, EINVAL, EXDEV, ENOENT, ELOOP, EPERM, EACCES]
)
@pytest.mark.parametrize("call", ["open", "link"])
def test_new_file_is_renamed_into_place_where_files_without_a_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, refused: int
) -> None:
    real_open = os.open

    def refusing_open(path: Path, flags: int, *arguments: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(refused, "refused")
        return real_open(path, flags, *arguments)

    def refusing_link(*_: object, **__: object) -> None:
        raise OSError(refused, "refused")

    refusing = {"open": refusing_open, "link": refusing_link}
    monkeypatch.setattr(f"dranet_nri.component.files.os.{call}", refusing[call])

    save(FileSystem(), tmp_path / "claim.json", b"record", new=True)

    assert (tmp_path / "claim.json").read_bytes() == b"record"
    assert names(tmp_path) == ["claim.json"]
    assert removed_and_open(tmp_path) == 0


def test_new_file_replaces_one_that_exists(tmp_path: Path) -> None:
    save(FileSystem(), tmp_path / "claim.json", b"old record", new=True)

    save(FileSystem(), tmp_path / "claim.json", b"new record", new=True)

    assert (tmp_path / "claim.json").read_bytes() == b"new record"


def test_new_file_that_does_not_fit_is_an_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("dranet_nri.component.files.os.link", full)

    with pytest.raises(OSError, match="No space left") as caught:
        save(FileSystem(), tmp_path / "claim.json", b"record", new=True)

    assert caught.value.filename == str(tmp_path / "claim.json")
    assert names(tmp_path) == []
    assert removed_and_open(tmp_path) == 0


def test_deferred_file_system_frees_files_at_once_without_a_restore(tmp_path: Path) -> None:
    fs = DeferredFileSystem()
    with fs.freed_later():
        pass

    save(fs, tmp_path / "claim.json", b"old record")
    save(fs, tmp_path / "claim.json", b"new record")
    remove(fs, tmp_path / "claim.json")

    assert removed_and_open(tmp_path) == 0


def test_file_that_is_removed_while_the_restore_ends_is_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, restore, real_open = DeferredFileSystem(), ExitStack(), os.open
    save(fs, tmp_path / "claim.json", b"record")
    restore.enter_context(fs.freed_later())

    def open_late(path: Path, flags: int) -> int:
        descriptor = real_open(path, flags)
        restore.close()
        return descriptor

    monkeypatch.setattr("dranet_nri.component.files.os.open", open_late)
    fs.unlink(tmp_path / "claim.json")

    assert removed_and_open(tmp_path) == 0


def test_deferred_file_system_has_a_limit_of_open_files(tmp_path: Path) -> None:
    fs = DeferredFileSystem()

    with fs.freed_later():
        for _ in range(200):
            save(fs, tmp_path / "claim.json", b"record")
            assert removed_and_open(tmp_path) <= 64


@pytest.mark.parametrize("mode", [0o640, 0o644])
@pytest.mark.parametrize("new", [False, True], ids=["renamed", "linked"])
def test_file_mode_is_independent_of_the_umask(tmp_path: Path, mode: int, *, new: bool) -> None:
    path = tmp_path / "claim.json"
    umask = os.umask(0o077)
    try:
        save(FileSystem(), path, b"data", mode=mode, new=new)
    finally:
        os.umask(umask)

    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_staged_file_is_hidden_and_no_cdi_spec(tmp_path: Path) -> None:
    observed: list[str] = []

    class Peeking(FileSystem):
        def replace(self, source: Path, target: Path) -> None:
            observed.extend(names(tmp_path))
            super().replace(source, target)

    save(Peeking(), tmp_path / "claim.json", b"data")

    assert len(observed) == 1
    assert observed[0].startswith(".")
    assert not observed[0].endswith((".json", ".yaml"))


def test_save_does_not_follow_a_link_in_place_of_its_staged_file(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / ".claim.json.new").symlink_to(victim)

    save(FileSystem(), tmp_path / "claim.json", b"data")

    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "claim.json").read_bytes() == b"data"


def test_write_does_not_overwrite_an_existing_path(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.symlink_to("elsewhere")

    with pytest.raises(FileExistsError):
        FileSystem().write(path, b"data", 0o640, durable=False)

    assert not (tmp_path / "elsewhere").exists()


def test_removal_of_staged_files_keeps_other_files(tmp_path: Path) -> None:
    for name in (".claim.json.new", ".claim.json", "claim.new", ".other.json.new", "claim.json"):
        (tmp_path / name).write_bytes(b"")

    remove_staged(FileSystem(), tmp_path, "claim")

    assert names(tmp_path) == [".claim.json", ".other.json.new", "claim.json", "claim.new"]


def test_regular_file_is_read_up_to_the_limit(tmp_path: Path, directory: int) -> None:
    (tmp_path / "a.json").write_bytes(b"x" * 10)

    assert read_record_bytes(directory, "a.json", 10, os.geteuid()) == b"x" * 10
    with pytest.raises(StateCorruptError, match="10 bytes, at most 9"):
        read_record_bytes(directory, "a.json", 9)


def test_missing_file_is_not_a_broken_one(directory: int) -> None:
    with pytest.raises(FileNotFoundError):
        read_record_bytes(directory, "a.json", 10)


def test_symbolic_link_is_refused(tmp_path: Path, directory: int) -> None:
    (tmp_path / "target").write_bytes(b"x")
    (tmp_path / "a.json").symlink_to("target")

    with pytest.raises(StateCorruptError, match="symbolic link"):
        read_record_bytes(directory, "a.json", 10)


def test_hard_link_is_refused(tmp_path: Path, directory: int) -> None:
    (tmp_path / "target").write_bytes(b"x")
    (tmp_path / "a.json").hardlink_to(tmp_path / "target")

    with pytest.raises(StateCorruptError, match="has 2 hard links"):
        read_record_bytes(directory, "a.json", 10)


def test_fifo_is_refused_without_waiting_for_its_writer(tmp_path: Path, directory: int) -> None:
    os.mkfifo(tmp_path / "a.json")

    with pytest.raises(StateCorruptError, match="no regular file"):
        read_record_bytes(directory, "a.json", 10)


def test_directory_is_refused(tmp_path: Path, directory: int) -> None:
    (tmp_path / "a.json").mkdir()

    with pytest.raises(StateCorruptError, match="no regular file"):
        read_record_bytes(directory, "a.json", 10)


def test_socket_is_refused(tmp_path: Path, directory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # socket paths have at most 107 bytes
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("a.json")

        with pytest.raises(StateCorruptError, match="is a socket"):
            read_record_bytes(directory, "a.json", 10)


def test_file_of_another_owner_is_refused(tmp_path: Path, directory: int) -> None:
    (tmp_path / "a.json").write_bytes(b"x")
    foreign_uid = os.geteuid() + 1

    with pytest.raises(StateCorruptError, match=f"belongs to uid .*, must be {foreign_uid}"):
        read_record_bytes(directory, "a.json", 10, foreign_uid)


def test_file_replaced_during_the_open_is_read_again(
    tmp_path: Path, directory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    real_open = os.open
    replaced: list[str] = []

    def open_then_replace(name: str, flags: int, *, dir_fd: int) -> int:
        descriptor = real_open(name, flags, dir_fd=dir_fd)
        if not replaced:
            replaced.append(name)
            (tmp_path / "next").write_bytes(b"new")
            (tmp_path / "next").replace(path)
        return descriptor

    monkeypatch.setattr("dranet_nri.component.files.os.open", open_then_replace)

    assert read_record_bytes(directory, "a.json", 10) == b"new"
    assert replaced == ["a.json"]


def test_file_replaced_repeatedly_is_an_error(
    tmp_path: Path, directory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    real_open = os.open

    def open_then_remove(name: str, flags: int, *, dir_fd: int) -> int:
        path.write_bytes(b"data")
        descriptor = real_open(name, flags, dir_fd=dir_fd)
        path.unlink()
        return descriptor

    monkeypatch.setattr("dranet_nri.component.files.os.open", open_then_remove)

    with pytest.raises(OSError, match="replaced faster than it could be read"):
        read_record_bytes(directory, "a.json", 10)


def test_file_that_grows_above_the_limit_during_the_read_is_refused(
    tmp_path: Path, directory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"x" * 10)
    real_fstat = os.fstat

    def look_then_grow(descriptor: int) -> os.stat_result:
        status = real_fstat(descriptor)
        path.write_bytes(b"x" * 11)
        return status

    monkeypatch.setattr("dranet_nri.component.files.os.fstat", look_then_grow)

    with pytest.raises(StateCorruptError, match="grew above 10 bytes"):
        read_record_bytes(directory, "a.json", 10)


def test_refused_file_leaves_no_descriptor(tmp_path: Path, directory: int) -> None:
    (tmp_path / "a.json").mkdir()
    before = names(Path("/proc/self/fd"))

    with pytest.raises(StateCorruptError):
        read_record_bytes(directory, "a.json", 10)

    assert names(Path("/proc/self/fd")) == before
