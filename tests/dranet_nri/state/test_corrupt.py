"""dranet_nri.state: unusable records are kept and reported, and do not affect others."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dranet_nri.errors import (
    StateCorruptError,
    StateError,
    StateVersionError,
)
from dranet_nri.state.reader import AllocationReader
from dranet_nri.state.record import VERSION
from dranet_nri.state.store import AllocationStore
from tests.dranet_nri.state.directories import ME, NAME, put_file, tree, unreadable
from tests.dranet_nri.state.examples import ALLOCATION, CLAIM_UID, POD_UID, allocation_of
from tests.dranet_nri.state.invalid_records import BROKEN_BYTES, GOOD, with_value
from tests.dranet_nri.state.state_directory import directory, reader, store

pytestmark = pytest.mark.process


__all__ = ["directory", "reader", "store"]

NEWER = with_value("version", value=VERSION + 1)


@pytest.mark.parametrize("data", BROKEN_BYTES)
def test_reader_reports_a_broken_record_and_changes_nothing(
    store: AllocationStore, reader: AllocationReader, directory: Path, data: bytes
) -> None:
    good = allocation_of("good", "other-pod")
    store.put(good)
    put_file(directory, NAME, data)
    before = tree(directory)

    reader.refresh()

    assert reader.broken.keys() == {CLAIM_UID}
    assert reader.broken[CLAIM_UID].in_place
    assert isinstance(reader.broken[CLAIM_UID].error, StateCorruptError)
    assert reader.records() == (good,)
    assert tree(directory) == before


@pytest.mark.parametrize("data", BROKEN_BYTES)
def test_store_quarantines_a_broken_record_with_its_bytes(
    store: AllocationStore, reader: AllocationReader, directory: Path, data: bytes
) -> None:
    good = allocation_of("good", "other-pod")
    store.put(good)
    put_file(directory, NAME, data)

    store.refresh()
    reader.refresh()

    assert not (directory / NAME).exists()
    assert (directory / "quarantine" / f"{NAME}.1").read_bytes() == data
    for index in (store, reader):
        assert index.records() == (good,)
        assert index.broken.keys() == {CLAIM_UID}
        assert index.broken[CLAIM_UID].name == f"quarantine/{NAME}.1"


def test_pod_of_a_broken_record_is_read_from_its_bytes(
    reader: AllocationReader, directory: Path
) -> None:
    put_file(directory, NAME, GOOD[:-20])

    reader.refresh()

    (broken,) = reader.broken_of_pod(POD_UID)
    assert "not JSON" in str(broken.error)
    assert reader.broken_of_pod("other-pod") == ()


def test_pod_of_a_broken_record_is_that_of_the_earlier_record(
    store: AllocationStore, reader: AllocationReader, directory: Path
) -> None:
    store.put(ALLOCATION)
    reader.refresh()
    put_file(directory, NAME, b"")

    reader.refresh()
    assert reader.broken[CLAIM_UID].pod_uid == POD_UID
    store.refresh()
    reader.refresh()

    for index in (store, reader):
        assert [item.name for item in index.broken_of_pod(POD_UID)] == [f"quarantine/{NAME}.1"]


def test_quarantined_records_are_numbered_and_never_overwritten(
    store: AllocationStore, directory: Path
) -> None:
    pieces = [GOOD[:cut] for cut in range(200, 212)]
    for piece in pieces:
        put_file(directory, NAME, piece)
        store.refresh()

    quarantined = [(directory / "quarantine" / f"{NAME}.{n}").read_bytes() for n in range(1, 13)]
    assert quarantined == pieces
    assert store.broken[CLAIM_UID].name == f"quarantine/{NAME}.12"


def test_good_record_replaces_a_broken_one(
    store: AllocationStore, reader: AllocationReader, directory: Path
) -> None:
    put_file(directory, NAME, b"broken")

    store.put(ALLOCATION)
    reader.refresh()

    for index in (store, reader):
        assert index.get(CLAIM_UID) == ALLOCATION
        assert not index.broken
    assert (directory / "quarantine" / f"{NAME}.1").read_bytes() == b"broken"


def test_quarantined_record_is_known_after_a_restart(directory: Path) -> None:
    directory.mkdir()
    put_file(directory, NAME, GOOD[:-1])
    with AllocationStore(directory):
        pass

    with AllocationStore(directory) as store, AllocationReader(directory, owner=ME) as reader:
        for index in (store, reader):
            assert index.broken[CLAIM_UID].name == f"quarantine/{NAME}.1"
            assert index.broken[CLAIM_UID].pod_uid == POD_UID


def test_record_under_the_name_of_another_claim_is_broken(
    reader: AllocationReader, directory: Path
) -> None:
    put_file(directory, "other.json", GOOD)

    reader.refresh()

    assert "has the record of claim" in str(reader.broken["other"].error)
    assert reader.get(CLAIM_UID) is None


def make_link(path: Path) -> None:
    (path.parent / ".target").write_bytes(GOOD)
    path.symlink_to(".target")


def make_hard_link(path: Path) -> None:
    (path.parent / ".target").write_bytes(GOOD)
    path.hardlink_to(path.parent / ".target")


def make_large(path: Path) -> None:
    path.write_bytes(GOOD.ljust((64 << 10) + 1))


NOT_REGULAR = [
    pytest.param(make_link, id="symbolic-link"),
    pytest.param(make_hard_link, id="hard-link"),
    pytest.param(os.mkfifo, id="fifo"),
    pytest.param(os.mkdir, id="directory"),
    pytest.param(make_large, id="oversize"),
]


@pytest.mark.parametrize("make", NOT_REGULAR)
def test_irregular_file_is_a_broken_record_for_a_reader(
    reader: AllocationReader, directory: Path, make: Callable[[Path], None]
) -> None:
    make(directory / NAME)
    before = tree(directory)

    reader.refresh()

    assert isinstance(reader.broken[CLAIM_UID].error, StateCorruptError)
    assert reader.records() == ()
    assert tree(directory) == before


@pytest.mark.parametrize("make", NOT_REGULAR)
def test_irregular_file_is_quarantined_by_a_store(
    store: AllocationStore, directory: Path, make: Callable[[Path], None]
) -> None:
    make(directory / NAME)
    inode = (directory / NAME).lstat().st_ino

    store.refresh()

    assert (directory / "quarantine" / f"{NAME}.1").lstat().st_ino == inode
    assert store.broken[CLAIM_UID].name == f"quarantine/{NAME}.1"


def test_record_of_another_owner_is_broken(store: AllocationStore, directory: Path) -> None:
    store.put(ALLOCATION)

    with AllocationReader(directory, owner=ME + 1) as reader:
        assert "belongs to uid" in str(reader.broken[CLAIM_UID].error)
        assert reader.records() == ()


def test_quarantined_record_that_became_valid_stays_in_quarantine(
    store: AllocationStore, directory: Path
) -> None:
    make_hard_link(directory / NAME)
    store.refresh()
    (directory / ".target").unlink()

    store.rescan()

    assert store.get(CLAIM_UID) is None
    assert "was quarantined" in str(store.broken[CLAIM_UID].error)
    assert store.broken[CLAIM_UID].pod_uid == POD_UID


def test_unreadable_record_is_kept_and_not_overwritten(
    store: AllocationStore,
) -> None:
    store.put(ALLOCATION)

    with unreadable():
        store.rescan()
        assert store.broken[CLAIM_UID].in_place
        with pytest.raises(StateError, match="cannot be read: Input/output error"):
            store.put(replace(ALLOCATION, nonce="n1"))

    store.rescan()
    assert store.get(CLAIM_UID) == ALLOCATION


def test_broken_record_that_cannot_be_quarantined_is_not_overwritten(
    store: AllocationStore, directory: Path
) -> None:
    (directory / "quarantine").write_bytes(b"in the way")
    put_file(directory, NAME, b"broken")

    with pytest.raises(StateCorruptError, match="not JSON"):
        store.put(ALLOCATION)

    assert (directory / NAME).read_bytes() == b"broken"


def test_newer_record_stays_in_place_and_is_not_overwritten(
    store: AllocationStore, reader: AllocationReader, directory: Path
) -> None:
    put_file(directory, NAME, NEWER)

    with pytest.raises(StateVersionError, match="upgrade it"):
        store.put(ALLOCATION)
    reader.refresh()

    assert (directory / NAME).read_bytes() == NEWER
    for index in (store, reader):
        assert isinstance(index.broken[CLAIM_UID].error, StateVersionError)
        assert index.broken_of_pod(POD_UID)


def test_removed_newer_record_is_quarantined_with_its_bytes(
    store: AllocationStore, directory: Path
) -> None:
    put_file(directory, NAME, NEWER)

    store.remove(CLAIM_UID)

    assert (directory / "quarantine" / f"{NAME}.1").read_bytes() == NEWER
    assert store.broken[CLAIM_UID].name == f"quarantine/{NAME}.1"
    assert store.broken_of_pod(POD_UID)
    store.put(ALLOCATION)
    assert store.get(CLAIM_UID) == ALLOCATION
