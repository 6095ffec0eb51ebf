"""dranet_nri.state.reader: a refresh returns every earlier write."""

import itertools
import os
import select
from collections.abc import Callable
from pathlib import Path

import pytest

from dranet_nri.state.reader import AllocationReader
from dranet_nri.state.store import AllocationStore
from tests.dranet_nri.state.directories import ME, open_descriptors
from tests.dranet_nri.state.examples import ALLOCATION, CLAIM_UID, allocation_of
from tests.dranet_nri.state.state_directory import directory, reader, store

pytestmark = pytest.mark.process


__all__ = ["directory", "reader", "store"]


def test_refresh_without_changes_costs_one_read(
    store: AllocationStore, reader: AllocationReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(ALLOCATION)
    reader.refresh()
    calls: list[str] = []

    def counted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            calls.append(name)
            return real(*arguments, **named)

        return call

    for name in ("read", "open", "stat", "fstat", "listdir", "scandir", "close"):
        monkeypatch.setattr(os, name, counted(name, getattr(os, name)))

    assert reader.refresh() == frozenset()
    assert calls == ["read"]


def test_removed_record_is_not_looked_up(
    store: AllocationStore, reader: AllocationReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed lookup delays the next move of a device, see DeferredFileSystem."""
    real_open = os.open
    failed: list[object] = []

    def opened(path: str, *arguments: int, **named: int) -> int:
        try:
            return real_open(path, *arguments, **named)
        except FileNotFoundError:
            failed.append(path)
            raise

    monkeypatch.setattr(os, "open", opened)
    store.put(ALLOCATION)
    store.remove(CLAIM_UID)  # before the reader's first refresh
    store.put(allocation_of("b"))
    reader.refresh()
    store.remove("b")
    assert reader.refresh() == {"b"}
    assert not reader.records()

    assert failed == []


def test_quarantine_without_access_hides_no_record(
    store: AllocationStore, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(ALLOCATION)
    real_open = os.open

    def opened(path: str, *arguments: int, **named: int) -> int:
        if path == "quarantine":
            raise PermissionError(13, "Permission denied", path)
        return real_open(path, *arguments, **named)

    monkeypatch.setattr(os, "open", opened)

    with AllocationReader(directory, owner=ME) as started:
        assert started.records() == (ALLOCATION,)


def test_record_that_is_created_again_is_read(
    store: AllocationStore, reader: AllocationReader
) -> None:
    store.put(ALLOCATION)
    reader.refresh()
    store.remove(CLAIM_UID)
    store.put(ALLOCATION)

    assert reader.refresh() == {CLAIM_UID}
    assert reader.records() == (ALLOCATION,)


def test_descriptor_is_readable_while_changes_are_pending(
    store: AllocationStore, reader: AllocationReader
) -> None:
    def is_readable() -> bool:
        return bool(select.select([reader], [], [], 0)[0])

    assert not is_readable()
    store.put(ALLOCATION)
    assert is_readable()
    reader.refresh()
    assert not is_readable()


def test_unreadable_directory_is_an_error_and_leaves_no_descriptor(
    store: AllocationStore, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_descriptors()

    def refuse(_path: int) -> list[str]:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", refuse)
        with pytest.raises(PermissionError):
            AllocationReader(directory, owner=ME)

    assert open_descriptors() == before


def test_only_changed_records_are_read_again(
    store: AllocationStore, reader: AllocationReader
) -> None:
    store.put(allocation_of("a"))
    store.put(allocation_of("b"))
    reader.refresh()
    first = reader.get("a")

    store.put(allocation_of("b", nonce="n1"))

    assert reader.refresh() == {"b"}
    assert reader.get("a") is first


def test_reader_started_first_finds_the_directory_later(tmp_path: Path) -> None:
    directory = tmp_path / "lib" / "dranet" / "allocations"
    with AllocationReader(directory, owner=ME) as reader:
        assert reader.refresh() == frozenset()
        assert not (tmp_path / "lib").exists(), "a reader makes nothing"

        with AllocationStore(directory) as store:
            store.put(ALLOCATION)

            assert reader.refresh() >= {CLAIM_UID}
            assert reader.get(CLAIM_UID) == ALLOCATION

            store.put(allocation_of("b"))
            assert reader.refresh() == {"b"}


def test_replaced_directory_is_read_again(
    store: AllocationStore, reader: AllocationReader, directory: Path, tmp_path: Path
) -> None:
    store.put(allocation_of("old"))
    reader.refresh()
    with AllocationStore(tmp_path / "next") as successor:
        successor.put(allocation_of("new"))

    directory.rename(tmp_path / "away")
    (tmp_path / "next").rename(directory)

    assert reader.refresh() >= {"old", "new"}
    assert reader.records() == (allocation_of("new"),)
    with AllocationStore(directory) as successor:
        successor.put(allocation_of("newer"))
    assert reader.refresh() == {"newer"}


def test_missing_directory_has_no_records_until_it_returns(
    store: AllocationStore, reader: AllocationReader, directory: Path, tmp_path: Path
) -> None:
    store.put(ALLOCATION)
    reader.refresh()

    directory.rename(tmp_path / "away")
    reader.refresh()
    assert reader.records() == ()

    (tmp_path / "away").rename(directory)
    reader.refresh()
    assert reader.records() == (ALLOCATION,)


def test_rescan_needs_no_events(
    store: AllocationStore, reader: AllocationReader, directory: Path, tmp_path: Path
) -> None:
    store.put(ALLOCATION)
    reader._watch.drain()  # as if the events had been lost

    assert reader.rescan() == {CLAIM_UID}
    assert reader.get(CLAIM_UID) == ALLOCATION

    directory.rename(tmp_path / "away")
    reader._watch.drain()
    (tmp_path / "away").rename(directory)
    assert CLAIM_UID in reader.rescan()
    assert reader.get(CLAIM_UID) == ALLOCATION


def test_rescan_finds_a_directory_whose_parent_was_replaced(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "lib" / "allocations"
    with AllocationStore(directory) as store, AllocationReader(directory, owner=ME) as reader:
        store.put(allocation_of("old"))
        (tmp_path / "lib").rename(tmp_path / "away")
        with AllocationStore(directory) as successor:
            successor.put(allocation_of("new"))

            reader.rescan()
            assert reader.records() == (allocation_of("new"),)

            successor.put(allocation_of("newer"))
            assert reader.refresh() == {"newer"}


def test_rescan_drops_a_directory_whose_parent_was_moved(tmp_path: Path) -> None:
    directory = tmp_path / "lib" / "allocations"
    with AllocationStore(directory) as store, AllocationReader(directory, owner=ME) as reader:
        store.put(ALLOCATION)
        (tmp_path / "lib").rename(tmp_path / "away")

        reader.rescan()

        assert reader.records() == ()


def test_lost_events_cause_a_full_scan(
    store: AllocationStore, reader: AllocationReader, directory: Path
) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    names = itertools.cycle((directory / ".a", directory / ".b"))
    for name in itertools.islice(names, limit // 3 + 10):  # create, close, delete: three events
        name.touch()
        name.unlink()

    store.put(ALLOCATION)

    assert CLAIM_UID in reader.refresh()
    assert reader.get(CLAIM_UID) == ALLOCATION
    assert reader.refresh() == frozenset()


def test_store_reports_only_writes_of_others(directory: Path) -> None:
    with AllocationStore(directory) as daemon, AllocationStore(directory) as command:
        command.put(allocation_of("a"))
        daemon.put(allocation_of("b"))

        assert daemon.refresh() == {"a"}
        assert daemon.refresh() == frozenset()
        assert [record.claim.uid for record in daemon.records()] == ["a", "b"]
