"""Records on a repeated prepare, and orphaned records."""

from dataclasses import replace
from typing import Any

import pytest

from dra_shim.prepare.allocation import PrepareSettings, is_recorded, why_orphaned
from dra_shim.resourceapi import AllocatedClaim
from tests.dra_shim.prepare.claims import HCA, TERMS, claim, document, recorded
from tests.fakes.cluster import POOL, claim_document, result

SAME = claim(result("a", "nic/fast"), result("b", "look", adminAccess=True))


def test_record_of_the_same_devices_pod_and_boot_is_kept() -> None:
    assert is_recorded(recorded(SAME), SAME, "p1", TERMS)


def test_record_of_an_older_version_is_kept() -> None:
    consumed = {"dra.net/bandwidth": "20G"}
    allocated = claim(result("a", "nic/fast", shareID="5a", consumedCapacity=consumed))
    record = recorded(allocated, a=HCA)
    (device,) = record.devices
    older = replace(record, devices=(replace(device, subrequest="", consumed=()),))

    assert device.subrequest
    assert device.consumed
    assert is_recorded(older, allocated, "p1", TERMS)


@pytest.mark.parametrize(
    ("allocated", "pod_uid", "boot"),
    [
        (SAME, "p2", "boot1"),
        (SAME, "p1", "boot2"),
        (claim(result("a", "nic/fast")), "p1", "boot1"),
        (claim(result("a", "other"), result("b", "look", adminAccess=True)), "p1", "boot1"),
        (claim(result("c", "nic/fast"), result("b", "look", adminAccess=True)), "p1", "boot1"),
        (claim(result("a", "nic/fast"), result("b", "look")), "p1", "boot1"),
        (claim(result("a", "nic/slow"), result("b", "look", adminAccess=True)), "p1", "boot1"),
        (
            claim(result("a", "nic/fast", shareID="5a"), result("b", "look", adminAccess=True)),
            "p1",
            "boot1",
        ),
        (
            claim(result("a", "nic/fast", pool="p"), result("b", "look", adminAccess=True)),
            "p1",
            "boot1",
        ),
    ],
    ids=["pod", "boot", "fewer", "request", "device", "admin", "alternative", "share", "pool"],
)
def test_differing_record_is_not_kept(allocated: AllocatedClaim, pod_uid: str, boot: str) -> None:
    assert not is_recorded(recorded(SAME), allocated, pod_uid, PrepareSettings(POOL, boot))


# --------------------------------------------------------------------------- nobody's


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (document(result("a")), ""),
        (document(result("b"), result("a", "other")), ""),
        (None, "the claim does not exist any more"),
        (claim_document("nics", "u2", [], []), "there is another claim of that name (UID u2)"),
        ({**document(), "status": {}}, "the claim is not allocated any more"),
        (document(result("b")), "the claim has other devices now"),
        (document(result("a", pool="node-2")), "the claim has other devices now"),
    ],
)
def test_record_without_an_allocation_is_an_orphan(found: Any, reason: str) -> None:
    assert why_orphaned(recorded(claim(result("a"))), found) == reason


def test_record_with_an_allocated_device_is_no_orphan() -> None:
    assert why_orphaned(recorded(claim(result("a"), result("b"))), document(result("b"))) == ""
