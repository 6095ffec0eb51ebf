"""Both record directories behind one reader."""

import select
from functools import partial
from pathlib import Path

import pytest

from dranet_nri.errors import StateError
from dranet_nri.state.reader import AttachmentReader
from dranet_nri.state.records import NodeRecords
from dranet_nri.state.store import AllocationStore, AttachmentStore
from tests.dranet_nri.state.directories import open_descriptors, put_file, unreadable
from tests.dranet_nri.state.examples import allocation_of, attachment_of

pytestmark = pytest.mark.process


def test_change_in_either_directory_is_signalled_with_its_claim(tmp_path: Path) -> None:
    allocations, attachments = tmp_path / "allocations", tmp_path / "attachments"
    with (
        AllocationStore(allocations) as given,
        AttachmentStore(attachments) as attached,
        NodeRecords(allocations, attachments) as records,
    ):
        for write, uid in (
            (partial(given.put, allocation_of("uid-a")), "uid-a"),
            (partial(attached.put, attachment_of("uid-b")), "uid-b"),
        ):
            assert records.refresh() == frozenset()
            assert not select.select(records.filenos(), [], [], 0)[0]
            write()
            assert select.select(records.filenos(), [], [], 0)[0]
            assert records.refresh() == {uid}

        assert records.claim_uids() == {"uid-a", "uid-b"}


def test_broken_record_is_found_in_either_directory(tmp_path: Path) -> None:
    for name, uid in (("allocations", "uid-a"), ("attachments", "uid-b")):
        (tmp_path / name).mkdir()
        put_file(tmp_path / name, f"{uid}.json", b"no record")

    with NodeRecords(tmp_path / "allocations", tmp_path / "attachments") as records:
        assert records.is_broken("uid-a")
        assert records.is_broken("uid-b")
        assert not records.is_broken("uid-c")
        assert [summary.claim_uid for summary in records.corrupt()] == ["uid-a", "uid-b"]
        assert records.unread == ()


def test_unread_record_is_found_in_either_directory(tmp_path: Path) -> None:
    for name, uid in (("allocations", "uid-a"), ("attachments", "uid-b")):
        (tmp_path / name).mkdir()
        put_file(tmp_path / name, f"{uid}.json", b"no record")

    with (
        unreadable(),
        NodeRecords(tmp_path / "allocations", tmp_path / "attachments") as records,
    ):
        assert [record.name for record in records.unread] == ["uid-a.json", "uid-b.json"]


def test_failed_open_of_the_second_directory_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StateError("no inotify")

    before = open_descriptors()
    monkeypatch.setattr(AttachmentReader, "rescan", fail)

    with pytest.raises(StateError, match="no inotify"):
        NodeRecords(tmp_path / "allocations", tmp_path / "attachments")
    assert open_descriptors() == before


def test_readers_decode_the_same_bytes_once(tmp_path: Path) -> None:
    with (
        AttachmentStore(tmp_path) as attached,
        AttachmentReader(tmp_path, owner=None) as one,
        AttachmentReader(tmp_path, owner=None) as other,
    ):
        attached.put(attachment_of("uid-b"))
        one.refresh()
        other.refresh()

        assert one.get("uid-b") is other.get("uid-b") is not None


def test_store_decodes_the_same_bytes_again(tmp_path: Path) -> None:
    with AllocationStore(tmp_path) as own, AllocationStore(tmp_path) as of_another_process:
        of_another_process.put(allocation_of("uid-a"))
        own.refresh()
        before = own.get("uid-a")
        of_another_process.put(allocation_of("uid-a"))
        own.refresh()

        assert own.get("uid-a") == before
        assert own.get("uid-a") is not before
