"""Reports on unusable records, and their blocking state."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dranet_nri.state.corrupt import CorruptSummary, of_allocations, of_attachments
from dranet_nri.state.reader import AllocationReader, AttachmentReader
from dranet_nri.state.record import VERSION
from dranet_nri.state.store import AllocationStore
from tests.dranet_nri.state.directories import ME, NAME, put_file, unreadable
from tests.dranet_nri.state.examples import ALLOCATION, CLAIM_UID, POD_UID
from tests.dranet_nri.state.invalid_records import GOOD, with_value
from tests.dranet_nri.state.state_directory import directory, reader, store

pytestmark = pytest.mark.process


__all__ = ["directory", "reader", "store"]

NEWER = with_value("version", value=VERSION + 1)
REMEDY = "remove it when its pod has ended and they are not needed"


@pytest.fixture
def attachments(directory: Path) -> Iterator[AttachmentReader]:
    """Return a reader of attachments, of a directory that is there."""
    directory.mkdir()
    with AttachmentReader(directory, owner=ME) as opened:
        yield opened


def only(reader: AllocationReader | AllocationStore) -> CorruptSummary:
    """Return the one record that cannot be used, from what is on disk now."""
    reader.rescan()
    (damage,) = of_allocations(reader)
    assert damage.claim_uid == CLAIM_UID
    return damage


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"{torn", "$: 5 bytes, not JSON"), (NEWER, f"$.version: {VERSION + 1}, this program reads")],
    ids=["torn", "newer"],
)
def test_broken_allocation_in_place_is_reported_with_file_and_remedy(
    reader: AllocationReader, directory: Path, data: bytes, reason: str
) -> None:
    put_file(directory, NAME, data)

    damage = only(reader)

    assert damage.broken.blocking
    assert damage.path == directory / NAME
    assert damage.text.startswith(f"cannot be used: {reason}")
    assert damage.text.endswith(
        f"({directory / NAME}); delete its pod, or run dra-shim release --claim-uid {CLAIM_UID}, "
        "which quarantines it"
    )


def test_quarantined_allocation_is_reported_with_file_and_pod(
    store: AllocationStore, reader: AllocationReader, directory: Path
) -> None:
    put_file(directory, NAME, GOOD[:-1])
    store.refresh()

    for index in (store, reader):
        damage = only(index)
        assert not damage.broken.blocking
        assert damage.path.read_bytes() == GOOD[:-1]
        assert damage.text.startswith(f"was quarantined, of the pod with UID {POD_UID}: $: ")
        assert damage.text.endswith(f"; bytes kept in {damage.path}; {REMEDY}")
    assert store.quarantined == {CLAIM_UID: directory / "quarantine" / f"{NAME}.1"}
    assert reader.broken_of_pod(POD_UID), "its pod may live, and is refused"


def test_bytes_without_a_pod_are_reported_without_one(
    store: AllocationStore, directory: Path
) -> None:
    put_file(directory, NAME, b"{torn")

    assert only(store).text.startswith("was quarantined: $: 5 bytes, not JSON")


def test_earlier_quarantined_record_is_not_attributed_to_a_later_store(
    directory: Path,
) -> None:
    directory.mkdir()
    put_file(directory, NAME, b"{torn")
    with AllocationStore(directory):
        pass

    with AllocationStore(directory) as later:
        assert not only(later).broken.in_place
        assert later.quarantined == {}


def test_unreadable_record_is_blocking_in_place_and_in_quarantine(
    store: AllocationStore, reader: AllocationReader, directory: Path
) -> None:
    store.put(ALLOCATION)
    with unreadable():
        here = only(reader)
    put_file(directory, NAME, b"{torn")
    store.refresh()
    with unreadable():
        aside = only(reader)

    assert here.broken.blocking
    assert f"cannot be read: Input/output error ({directory / NAME}); delete its pod" in here.text
    assert aside.broken.blocking
    assert aside.text.endswith(f"Input/output error; bytes kept in {aside.path}; {REMEDY}")


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        (b"{torn", "dranet-nri quarantines it when it runs"),
        (
            NEWER,
            "dranet-nri reads it as soon as possible, and gives the devices in it to no pod until"
            " then; if they are restored on the host, remove the file",
        ),
    ],
    ids=["torn", "newer"],
)
def test_broken_attachment_is_left_to_the_plugin(
    attachments: AttachmentReader, directory: Path, data: bytes, remedy: str
) -> None:
    put_file(directory, NAME, data)
    attachments.refresh()

    (damage,) = of_attachments(attachments)

    assert damage.broken.blocking
    assert damage.text.endswith(f"({directory / NAME}); {remedy}")
