"""dranet_nri.state.store and reader: directories of records on a real file system."""

import itertools
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dranet_nri.component.files import DeferredFileSystem
from dranet_nri.errors import (
    InvalidValueError,
)
from dranet_nri.model import Phase
from dranet_nri.state.reader import AllocationReader, AttachmentReader
from dranet_nri.state.record import encode_allocation
from dranet_nri.state.store import AllocationStore, AttachmentStore
from tests.dranet_nri.state.directories import (
    ME,
    NAME,
    open_descriptors,
    put_file,
    removed_and_open,
)
from tests.dranet_nri.state.examples import (
    ALLOCATION,
    CLAIM_UID,
    POD_UID,
    allocation_of,
    attachment_of,
)
from tests.dranet_nri.state.failing import DeadFs, FailingFs
from tests.dranet_nri.state.state_directory import directory, reader, store

pytestmark = pytest.mark.process


__all__ = ["directory", "reader", "store"]


def test_reader_reads_the_records_of_the_store(
    store: AllocationStore, reader: AllocationReader
) -> None:
    store.put(ALLOCATION)

    assert reader.refresh() == {CLAIM_UID}
    assert reader.get(CLAIM_UID) == ALLOCATION
    assert reader.by_pod(POD_UID) == (ALLOCATION,)
    assert reader.records() == store.records() == (ALLOCATION,)
    assert not reader.broken


def test_new_record_frees_no_directory_entry(directory: Path) -> None:
    """A free entry delays the next move of a device, see DeferredFileSystem."""
    files = DeferredFileSystem()
    with AllocationStore(directory, fs=files) as store, files.freed_later():
        store.put(ALLOCATION)
        assert [path.name for path in directory.iterdir() if path.name != ".lock"] == [NAME]
        assert removed_and_open(directory) == 1, "the entry without a name, still open"

        store.put(ALLOCATION)
        assert removed_and_open(directory) == 2, "the replaced file as well"


def test_records_are_found_by_pod_in_the_order_of_claims(
    store: AllocationStore, reader: AllocationReader
) -> None:
    second, first, other = allocation_of("b"), allocation_of("a"), allocation_of("c", "pod-2")
    for record in (second, first, other):
        store.put(record)

    reader.refresh()

    assert reader.by_pod(POD_UID) == store.by_pod(POD_UID) == (first, second)
    assert reader.by_pod("pod-2") == (other,)
    assert reader.by_pod("pod-3") == ()


def test_claim_given_to_another_pod_is_removed_from_the_first(
    store: AllocationStore, reader: AllocationReader
) -> None:
    store.put(allocation_of("a", "pod-1"))
    reader.refresh()
    store.put(allocation_of("a", "pod-2"))

    reader.refresh()

    for index in (reader, store):
        assert index.by_pod("pod-1") == ()
        assert index.by_pod("pod-2") == (allocation_of("a", "pod-2"),)


def test_removed_record_is_removed_from_store_and_reader(
    store: AllocationStore, reader: AllocationReader, directory: Path
) -> None:
    store.put(ALLOCATION)
    reader.refresh()

    store.remove(CLAIM_UID)

    assert reader.refresh() == {CLAIM_UID}
    assert reader.records() == store.records() == reader.by_pod(POD_UID) == ()
    assert not (directory / NAME).exists()


def test_removed_directory_is_created_by_the_next_put(tmp_path: Path) -> None:
    directory = tmp_path / "lib" / "allocations"
    with AllocationStore(directory) as store, AllocationReader(directory, owner=ME) as reader:
        for number, removed in enumerate((directory, directory.parent)):
            store.put(allocation_of("a"))
            shutil.rmtree(removed)

            store.put(allocation_of("b", nonce=str(number)))

            assert directory.stat().st_mode & 0o777 == 0o750
            assert directory.parent.stat().st_mode & 0o777 == 0o755  # it has the metrics, too
            reader.refresh()
            assert reader.records() == store.records() == (allocation_of("b", nonce=str(number)),)
        shutil.rmtree(directory)
        store.remove("b")
        assert store.records() == ()


def test_sole_writer_writes_removed_records_again(tmp_path: Path) -> None:
    directory = tmp_path / "run" / "attachments"
    first, second = attachment_of("a"), attachment_of("b")
    with AttachmentStore(directory) as store:
        store.put(first)
        shutil.rmtree(directory.parent)
        store.put(second)
        (directory / "a.json").unlink()
        store.refresh()

        with AttachmentReader(directory, owner=ME) as reader:
            assert reader.records() == store.records() == (first, second)


def test_removed_record_that_cannot_be_written_again_is_kept_in_memory(tmp_path: Path) -> None:
    with AttachmentStore(tmp_path) as store:
        store.put(attachment_of("a"))
        store._fs = FailingFs(1)
        (tmp_path / "a.json").unlink()

        with pytest.raises(OSError, match="torn write"):
            store.refresh()
        assert store.records() == (attachment_of("a"),)
        store.refresh()

        assert (tmp_path / "a.json").exists()


def test_index_keeps_no_removed_pods(store: AllocationStore) -> None:
    for number in range(10):
        store.put(allocation_of("a", f"pod-{number}"))
    store.remove("a")

    assert not store._pods


def test_remove_of_a_missing_record_succeeds_and_of_a_path_is_refused(
    store: AllocationStore,
) -> None:
    store.remove("never-seen")

    with pytest.raises(InvalidValueError, match="must be 1 to 128"):
        store.remove("../allocations/x")


def test_invalid_record_is_not_written(store: AllocationStore, directory: Path) -> None:
    with pytest.raises(InvalidValueError, match=r"\$\.nonce"):
        store.put(replace(ALLOCATION, nonce="../x"))

    assert not (directory / NAME).exists()


def test_reopened_store_has_the_written_records(directory: Path) -> None:
    with AllocationStore(directory) as first:
        first.put(ALLOCATION)

    with AllocationStore(directory) as second:
        assert second.records() == (ALLOCATION,)


def test_attachments_have_their_own_store_and_reader(tmp_path: Path) -> None:
    attachment = attachment_of("a")
    with AttachmentStore(tmp_path) as store, AttachmentReader(tmp_path, owner=ME) as reader:
        store.put(attachment)
        store.put(replace(attachment, phase=Phase.DETACHING))
        reader.refresh()

        assert reader.get("a") == replace(attachment, phase=Phase.DETACHING)


def test_files_that_are_no_records_are_unchanged(directory: Path) -> None:
    directory.mkdir()
    for name in ("README", ".hidden.json", "facts.txt"):
        (directory / name).write_bytes(b"not ours")

    with AllocationStore(directory) as store:
        assert store.records() == ()
        assert not store.broken
    assert {path.name for path in directory.iterdir()} >= {"README", ".hidden.json", "facts.txt"}


def test_records_are_readable_by_the_group_and_staged_files_are_removed(directory: Path) -> None:
    directory.mkdir()
    (directory / ".x.json.new").write_bytes(b"half a rec")

    with AllocationStore(directory) as store:
        store.put(ALLOCATION)

    assert (directory / NAME).stat().st_mode & 0o777 == 0o640
    assert not (directory / ".x.json.new").exists()


OLD, NEW = allocation_of("a", nonce="old"), allocation_of("a", nonce="new")


def on_disk(directory: Path) -> tuple[object, ...]:
    with AllocationReader(directory, owner=ME) as reader:
        assert not reader.broken
        return reader.records()


def test_failed_put_leaves_the_old_or_the_new_record(directory: Path) -> None:
    for n in itertools.count(1):
        with AllocationStore(directory) as store:
            store.put(OLD)
            store._fs = FailingFs(n)
            try:
                store.put(NEW)
            except OSError:
                store.refresh()
                assert on_disk(directory) == store.records()
                assert store.records() in {(OLD,), (NEW,)}
                assert not [p for p in directory.iterdir() if p.name.endswith(".new")]
            else:
                break

    assert n == 4
    assert on_disk(directory) == (NEW,)


def test_put_after_a_crash_at_any_step_succeeds(directory: Path) -> None:
    for n in itertools.count(1):
        with AllocationStore(directory) as store:
            store.put(OLD)
            store._fs = DeadFs(n)
            try:
                store.put(NEW)
            except OSError:
                assert on_disk(directory) in {(OLD,), (NEW,)}
            else:
                break

    assert n == 4
    with AllocationStore(directory) as store:
        assert store.records() == (NEW,)
        assert {path.name for path in directory.iterdir()} == {"a.json", ".lock"}


def test_remove_can_be_repeated_after_any_failure(directory: Path) -> None:
    for n in itertools.count(1):
        with AllocationStore(directory) as store:
            store.put(OLD)
            store._fs = FailingFs(n)
            try:
                store.remove("a")
            except OSError:
                store.refresh()
                assert on_disk(directory) == store.records()
                store.remove("a")
                assert on_disk(directory) == store.records() == ()
            else:
                break

    assert n == 3
    assert on_disk(directory) == ()


def test_failed_quarantine_keeps_the_bytes(directory: Path) -> None:
    for n in itertools.count(1):
        with AllocationStore(directory) as store:
            put_file(directory, "a.json", b"broken %d" % n)
            fs = store._fs = FailingFs(n)

            store.refresh()

            quarantine = directory / "quarantine"
            places = [directory / "a.json", *(quarantine.iterdir() if quarantine.exists() else ())]
            contents = [path.read_bytes() for path in places if path.exists()]
            assert contents.count(b"broken %d" % n) == 1
            assert store.broken.keys() == {"a"}
            if not fs.broke:
                break

    assert n == 4, "rename and two syncs failed in turn"


def test_open_of_a_store_can_be_repeated_after_any_failure(tmp_path: Path) -> None:
    for n in itertools.count(1):
        directory = tmp_path / str(n) / "allocations"
        try:
            AllocationStore(directory, fs=FailingFs(n)).close()
        except OSError:
            AllocationStore(directory).close()
            assert directory.is_dir()
        else:
            break

    assert n == 3, "the sync of each made directory's parent failed in turn"


def test_closed_store_leaves_no_descriptor(directory: Path) -> None:
    before = open_descriptors()

    with AllocationStore(directory) as store:
        store.put(ALLOCATION)
        put_file(directory, "broken.json", b"")
        store.refresh()
        store.remove(CLAIM_UID)
    store.close()

    assert open_descriptors() == before


def test_written_bytes_are_those_of_the_encoder(store: AllocationStore, directory: Path) -> None:
    store.put(ALLOCATION)

    assert (directory / NAME).read_bytes() == encode_allocation(ALLOCATION)


def test_sole_writer_has_no_lock_file(tmp_path: Path) -> None:
    """Its events would wake the readers of each record twice more."""
    with AttachmentStore(tmp_path / "attachments") as attachments:
        attachments.put(attachment_of("a"))
        attachments.put(attachment_of("b"))
        attachments.remove("b")

    assert [path.name for path in (tmp_path / "attachments").iterdir()] == ["a.json"]
