"""Records that can't be written, can't be read, or are from another version or boot."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.box.attach import NO_SPEC, assert_restored, cdi_of, links_in, plugin, remove, start_pod
from tests.box.claims import allocate, release, shim
from tests.box.cri import ContainerSpec, Cri, CriError
from tests.box.nics import Nic, ip
from tests.box.plugin import ALLOCATIONS, ATTACHMENTS, Plugin
from tests.box.refusals import is_open, refused
from tests.box.trouble import (
    absent,
    assert_usable,
    claimed,
    record_of,
    recorded,
    reported,
    sure_of_addresses,
    until_forgotten,
    until_phase,
)
from tests.box.waiting import wait_until
from tests.unwritable import full, readonly

__all__ = ["absent", "plugin", "sure_of_addresses"]


# ------------------------------------------------------------------- no record can be written


@pytest.fixture
def small(absent: Plugin) -> Iterator[Plugin]:
    """Return the plugin, serving, with its records on a file system of their own."""
    ATTACHMENTS.mkdir(parents=True, exist_ok=True)
    mount = ("mount", "-t", "tmpfs", "-o", "size=64k", "records", str(ATTACHMENTS))
    subprocess.run(mount, check=True)
    absent.start()
    yield absent
    absent.stop()
    subprocess.run(("umount", str(ATTACHMENTS)), check=True)


UNWRITABLE = pytest.mark.parametrize(
    ("unwritable", "reason"),
    [
        (partial(full, ATTACHMENTS), "No space left on device"),
        (partial(readonly, ATTACHMENTS), "Read-only file system"),
    ],
    ids=["full", "read-only"],
)
Unwritable = Callable[[], AbstractContextManager[None]]


@UNWRITABLE
def test_unwritable_records_refuse_the_pod_with_the_reason(
    cri: Cri,
    small: Plugin,
    nics: tuple[Nic, ...],
    before: dict[str, object],
    unwritable: Unwritable,
    reason: str,
) -> None:
    claim = claimed("unwritten", nics[0])
    with unwritable():
        refused(cri, "unwritten", reason)
        assert_restored(before)
        assert not is_open("unwritten")

    pod = cri.run_pod("unwritten")

    container = cri.run_container(pod, spec=claim.spec())
    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    remove(cri, pod)
    assert_restored(before)


@UNWRITABLE
def test_unwritable_records_do_not_prevent_the_restore_of_an_ended_pod(
    cri: Cri,
    small: Plugin,
    nics: tuple[Nic, ...],
    before: dict[str, object],
    unwritable: Unwritable,
    reason: str,
) -> None:
    pod, _ = start_pod(cri, "ending", nics[:1])
    with unwritable():
        remove(cri, pod)
        assert_restored(before)
        assert not is_open("ending")
        assert reason in small.log()

    until_forgotten("ending")
    remove(cri, assert_usable(cri, "after", nics[0]))
    assert_restored(before)


# ------------------------------------------------------------------- no record can be read


def truncated(record: Path) -> bytes:
    """Return a truncated record."""
    content = record.read_bytes()
    return content[: len(content) * 9 // 10]


def garbled(record: Path) -> bytes:
    """Return a record that is no JSON."""
    return record.read_bytes().replace(b":", b";", 3).replace(b"{", b"[", 1)


def newer(record: Path) -> bytes:
    """Return the record of a later version of the program."""
    document = json.loads(record.read_bytes())
    return json.dumps(document | {"version": 99}).encode()


DAMAGE = pytest.mark.parametrize("damage", [truncated, garbled, newer])
Damage = Callable[[Path], bytes]


def replace_record(record: Path, content: bytes) -> None:
    """Put content in the record's place, in one step."""
    staged = record.with_name(".damaged")
    staged.write_bytes(content)
    staged.rename(record)


def exists_unchanged(record: Path, content: bytes) -> bool:
    """Whether the bytes are still there, in place or moved aside."""
    places = (record, *record.parent.glob(f"quarantine/{record.name}.*"))
    return any(place.exists() and place.read_bytes() == content for place in places)


@DAMAGE
def test_unreadable_allocation_refuses_only_its_pod_until_it_is_rewritten(
    cri: Cri,
    plugin: Plugin,
    nics: tuple[Nic, ...],
    before: dict[str, object],
    damage: Damage,
) -> None:
    claimed("torn", nics[0])
    record = ALLOCATIONS / "torn-claim-uid.json"
    content = damage(record)
    replace_record(record, content)

    refused(cri, "torn", r"its allocation record cannot be used: .*status, then delete the pod")

    other = assert_usable(cri, "intact", nics[1])
    shown, in_place = reported(), record.exists()
    assert in_place is (damage is newer), "the shim moved aside what no version can use"
    assert (shown.code, list(shown.broken)) == ((1, ["torn-claim-uid"]) if in_place else (0, []))
    assert list(shown.quarantined) == ([] if in_place else ["torn-claim-uid"])
    assert exists_unchanged(record, content)
    assert shim("release", "--claim-uid", "torn-claim-uid").exit_code == 0
    assert exists_unchanged(record, content)
    again = assert_usable(cri, "torn", nics[0])
    for pod in (again, other):
        remove(cri, pod)
    assert_restored(before)


@pytest.mark.parametrize("damage", [truncated, garbled])
def test_unreadable_attachment_after_a_restart_loses_no_nic(
    cri: Cri,
    plugin: Plugin,
    nics: tuple[Nic, ...],
    before: dict[str, object],
    damage: Damage,
) -> None:
    pod, container = start_pod(cri, "torn", nics[:1])
    other, _ = start_pod(cri, "intact", nics[1:2])
    plugin.kill()
    content = damage(record_of("torn"))
    replace_record(record_of("torn"), content)

    plugin.start()

    until_phase("torn", "attached")
    wait_until("the gate to open", lambda: is_open("torn"))
    assert exists_unchanged(record_of("torn"), content)
    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    remove(cri, pod)
    remove(cri, other)
    until_forgotten("torn")
    assert_restored(before)


def test_attachment_of_a_newer_version_refuses_its_pod_until_that_version_runs(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    pod, _ = start_pod(cri, "ahead", nics[:1])
    other, _ = start_pod(cri, "intact", nics[1:2])
    spec = ContainerSpec(cdi_devices=cdi_of("ahead"))
    plugin.kill()
    record = record_of("ahead")
    content, later = record.read_bytes(), newer(record)
    replace_record(record, later)

    plugin.start()

    wait_until("the gate to be closed", lambda: not is_open("ahead"))
    with pytest.raises(CriError, match=NO_SPEC):
        cri.create_container(pod, "again", spec)
    assert record.read_bytes() == later
    assert "this program reads up to" in reported().broken["ahead-claim-uid"]
    remove(cri, other)
    plugin.kill()
    replace_record(record, content)
    plugin.start()
    wait_until("the gate to be open", lambda: is_open("ahead"))
    remove(cri, pod)
    assert_restored(before)


def test_attachment_corrupted_at_run_time_is_rewritten(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    config = {"interface": {"name": "fast0", "mtu": 1300, "addresses": ["192.168.7.5/24"]}}
    claim = allocate("torn", nics[:1], "torn-uid", pod="torn", config=config)
    pod = cri.run_pod("torn")
    cri.run_container(pod, spec=claim.spec())
    content = garbled(record_of("torn"))
    replace_record(record_of("torn"), content)

    other = assert_usable(cri, "intact", nics[1])

    wait_until("it to be whole", lambda: "torn-claim-uid" not in reported().broken)
    assert recorded("torn")["phase"] == "attached"
    assert exists_unchanged(record_of("torn"), content)
    remove(cri, pod)
    remove(cri, other)
    assert_restored(before)


@pytest.mark.every_runtime
def test_nic_with_a_lost_record_is_restored_under_its_own_name(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    claim = allocate(
        "adopted", nics[:1], "adopted-uid", pod="adopted", config={"interface": {"name": "fast0"}}
    )
    pod = cri.run_pod("adopted")
    cri.run_container(pod, spec=claim.spec())
    plugin.kill()
    record_of("adopted").unlink()

    plugin.start()

    until_phase("adopted", "attached")
    remove(cri, pod)
    assert_restored(before)


def test_allocation_of_an_earlier_boot_is_refused_until_it_is_prepared_again(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    claimed("rebooted", nics[0])
    record = ALLOCATIONS / "rebooted-claim-uid.json"
    document = json.loads(record.read_bytes())
    document["bootId"] = "8a1f5b1c-0000-4000-8000-000000000000"
    replace_record(record, json.dumps(document).encode())

    refused(cri, "rebooted", "before the node was booted")

    assert nics[0].name in ip("-o", "link")
    pod = assert_usable(cri, "rebooted", nics[0])
    remove(cri, pod)
    release(pod.uid)
    assert_restored(before)
