"""dranet_nri.state.reader without free descriptors: missed records are read later."""

import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from dranet_nri.state.reader import AllocationReader
from dranet_nri.state.record import encode_allocation
from tests.dranet_nri.state.directories import ME, NAME, no_descriptors
from tests.dranet_nri.state.examples import ALLOCATION, CLAIM_UID, POD_UID, allocation_of

pytestmark = pytest.mark.process


STAGED = ".staged"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "allocations"
    made.mkdir()
    (made / STAGED).write_bytes(encode_allocation(ALLOCATION))
    return made


@pytest.fixture
def reader(directory: Path) -> Iterator[AllocationReader]:
    with AllocationReader(directory, owner=ME) as opened:
        yield opened


def test_record_that_could_not_be_opened_is_read_without_a_further_event(
    reader: AllocationReader, directory: Path
) -> None:
    with no_descriptors():
        (directory / STAGED).rename(directory / NAME)
        first = reader.refresh()
        unread = [str(broken.error) for broken in reader.unread]
        again = reader.refresh()

    assert first == {CLAIM_UID}
    assert again == frozenset()
    assert unread == [f"{NAME}: cannot be read: Too many open files"]
    assert reader.refresh() == {CLAIM_UID}
    assert reader.by_pod(POD_UID) == (ALLOCATION,)
    assert reader.unread == ()


def test_directory_that_could_not_be_opened_is_read_without_a_further_event(
    reader: AllocationReader, directory: Path, tmp_path: Path
) -> None:
    (directory / STAGED).rename(directory / NAME)
    reader.refresh()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "b.json").write_bytes(encode_allocation(allocation_of("b", "pod-b")))

    with no_descriptors():
        directory.rename(tmp_path / "old")
        (tmp_path / "new").rename(directory)
        for _ in range(2):
            with pytest.raises(OSError, match="Too many open files"):
                reader.refresh()
        records = reader.by_pod(POD_UID)

    assert records == (ALLOCATION,)
    assert reader.refresh() == {CLAIM_UID, "b"}
    assert [record.claim.uid for record in reader.records()] == ["b"]


def test_unopened_new_directory_causes_no_busy_loop(
    tmp_path: Path,
) -> None:
    with AllocationReader(tmp_path / "later", owner=ME) as reader:
        with no_descriptors():
            (tmp_path / "later").mkdir()
            for _ in range(3):
                with pytest.raises(OSError, match="Too many open files"):
                    reader.refresh()
            readable = select.select([reader], [], [], 0)[0]
        (tmp_path / "later" / NAME).write_bytes(encode_allocation(ALLOCATION))

        assert not readable
        assert reader.refresh() == {CLAIM_UID}


def test_quarantined_record_is_kept_without_free_descriptors(
    reader: AllocationReader, directory: Path
) -> None:
    (directory / "quarantine").mkdir()
    (directory / STAGED).rename(directory / NAME)
    reader.refresh()

    with no_descriptors():
        (directory / NAME).rename(directory / "quarantine" / f"{NAME}.1")
        reader.refresh()
        assert [broken.name for broken in reader.broken_of_pod(POD_UID)] == [NAME]

    reader.refresh()
    assert [broken.name for broken in reader.broken_of_pod(POD_UID)] == [f"quarantine/{NAME}.1"]
