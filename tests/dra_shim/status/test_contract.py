"""The contract between the reporter and an API server, tested against the in-memory server.

tests/system/cluster/test_status_contract.py holds the same against a real server. Time passes when
a test says so, on both.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dra_shim.kubeapi import EVENT, version_of
from dra_shim.prepare import ClaimPrepared, PrepareFailed
from dra_shim.settings.common import StatePaths
from dra_shim.status import (
    ClaimGone,
    ClaimRefused,
    EventPosted,
    StatusApplied,
    StatusSyncFailed,
)
from dra_shim.status.summary import ENDED_DELAY_S
from dra_shim.status.workqueue import MIN_INTERVAL_S
from dranet_nri.model import ObjectRef, Phase
from tests.dra_shim.kubeapi.client_bench import FakeSubject, Subject
from tests.dra_shim.kubeapi.test_contract import allocated_claim, apply_status, device_status
from tests.dra_shim.status.status_bench import (
    POD,
    START,
    Bench,
    attached,
    conditions,
    entries,
    failed,
    given,
    ref_of,
    warned,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish

pytestmark = pytest.mark.process


STAMP = "2026-09-21T14:13:20Z"  # START


@pytest.fixture
def subject() -> Subject:
    """Return the server in memory."""
    return FakeSubject()


@asynccontextmanager
async def reporting(subject: Subject, directory: Path) -> AsyncIterator[Bench]:
    """Run a reporter on the records in a directory."""
    async with subject.client() as api:
        bench = Bench(api, StatePaths(directory / "state", directory / "run"))
        async with bench.running():
            yield bench


async def claim_with(bench: Bench, *devices: str) -> ObjectRef:
    """Create a claim of these devices of the driver and of a GPU whose driver wrote its status."""
    claim = await allocated_claim(bench.api, *devices)
    gpu = [device_status("gpu-0", "gpu.example.com")]
    await apply_status(bench.api, claim, "gpu.example.com", gpu)
    return ref_of(claim)


def own_pod() -> ObjectRef:
    """Return a pod of the test's own; nobody asks whether it exists."""
    return ObjectRef("default", "train", str(uuid4()))


def condition(kind: str, reason: str, message: str, **common: Any) -> dict[str, Any]:
    """Return a condition that is true."""
    return {"type": kind, "status": "True", "reason": reason, "message": message, **common}


def test_attached_claim_reports_all_devices(subject: Subject, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(subject, tmp_path) as bench:
            ref = await claim_with(bench, "nic-0", "nic-1")
            record = given(ref, "nic-0", "nic-1")
            bench.allocations.put(record)
            bench.attachments.put(attached(record))
            await bench.rest()
            applied = await bench.until_notice(StatusApplied)

            claim = await bench.claim(ref)
            assert applied == StatusApplied(ref, 2)
            assert list(entries(claim)) == ["nic-0", "nic-1"]
            generation = {"observedGeneration": claim["metadata"].get("generation")}
            common = {
                "lastTransitionTime": STAMP,
                **(generation if any(generation.values()) else {}),
            }
            assert entries(claim)["nic-1"] == {
                "driver": "dra.net",
                "pool": "node-1",
                "device": "nic-1",
                "conditions": [
                    condition("NetworkReady", "NetworkReady", "", **common),
                    condition(
                        "Ready", "NetworkDeviceReady", "in pod default/train as net1", **common
                    ),
                ],
                "networkData": {
                    "interfaceName": "net1",
                    "ips": ["10.1.0.6/24"],
                    "hardwareAddress": "02:00:00:00:00:01",
                },
            }
            assert list(entries(claim, "gpu.example.com")) == ["gpu-0"]

    finish(scenario())


def test_restart_causes_no_write(subject: Subject, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(subject, tmp_path) as bench:
            ref = await claim_with(bench, "nic-0")
            bench.allocations.put(given(ref, "nic-0"))
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            before = await bench.claim(ref)
        async with reporting(subject, tmp_path) as again:
            other = await claim_with(again, "nic-1")
            await again.rest()
            again.allocations.put(given(other, "nic-1"))
            again.attachments.put(attached(given(other, "nic-1")))
            await again.rest()
            applied = await again.until_notice(StatusApplied)

            assert applied.claim == other
            assert again.notices_of(StatusApplied) == [applied]
            assert version_of(await again.claim(ref)) == version_of(before)

    finish(scenario())


def test_failure_is_in_the_device_status_and_an_event(subject: Subject, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(subject, tmp_path) as bench:
            ref, pod = await claim_with(bench, "nic-0"), own_pod()
            record = given(ref, "nic-0", pod=pod)
            bench.allocations.put(record)
            bench.attachments.put(failed(record, "eth2: MTU 9000 is above 1500"))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            posted = await bench.until_notice(EventPosted)

            (entry,) = entries(await bench.claim(ref)).values()
            assert conditions(entry) == {
                "NetworkReady": ("False", "NetworkDeviceAttachFailed"),
                "Ready": ("False", "NetworkDeviceAttachFailed"),
            }
            assert entry["conditions"][0]["message"] == "eth2: MTU 9000 is above 1500"
            assert "networkData" not in entry
            event: Any = await bench.api.get(EVENT, posted.name, "default")
            subject_of = event["involvedObject"]
            assert {name: subject_of[name] for name in ("kind", "namespace", "name", "uid")} == {
                "kind": "Pod",
                "namespace": "default",
                "name": "train",
                "uid": pod.uid,
            }
            assert (event["type"], event["reason"], event["count"]) == (
                "Warning",
                "NetworkDeviceAttachFailed",
                1,
            )
            assert event["message"] == f"claim {ref.name}: eth2: MTU 9000 is above 1500"
            assert event["source"] == {"component": "dra.net", "host": "node-1"}
            assert event["lastTimestamp"] == STAMP

    finish(scenario())


def test_changed_condition_has_its_transition_time(subject: Subject, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(subject, tmp_path) as bench:
            ref = await claim_with(bench, "nic-0")
            record = given(ref, "nic-0", pod=own_pod())
            bench.allocations.put(record)
            bench.attachments.put(failed(record, "first"))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            bench.attachments.put(failed(record, "second", START + 1, 2))
            await bench.rest(MIN_INTERVAL_S)
            await bench.until_notice(StatusApplied, 2)
            same = entries(await bench.claim(ref))["nic-0"]
            bench.attachments.put(attached(record))
            await bench.rest(MIN_INTERVAL_S)
            await bench.until_notice(StatusApplied, 3)
            other = entries(await bench.claim(ref))["nic-0"]

            def conditions_of(entry: Any) -> set[tuple[str, str]]:
                return {
                    (item["status"], item["lastTransitionTime"]) for item in entry["conditions"]
                }

            assert same["conditions"][0]["message"] == "second"
            assert conditions_of(same) == {("False", STAMP)}
            assert conditions_of(other) == {("True", "2026-09-21T14:13:30Z")}

    finish(scenario())


def test_own_status_is_withdrawn_and_others_are_kept(subject: Subject, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(subject, tmp_path) as bench:
            ref = await claim_with(bench, "nic-0")
            bench.allocations.put(given(ref, "nic-0"))
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            bench.clock.pass_time(MIN_INTERVAL_S)
            bench.attachments.remove(ref.uid)
            bench.allocations.remove(ref.uid)
            await bench.rest(ENDED_DELAY_S)
            applied = await bench.until_notice(StatusApplied, 2)

            claim = await bench.claim(ref)
            assert applied.devices == 0
            assert entries(claim) == {}
            assert list(entries(claim, "gpu.example.com")) == ["gpu-0"]

    finish(scenario())


def test_restored_device_is_not_ready(subject: Subject, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(subject, tmp_path) as bench:
            ref = await claim_with(bench, "nic-0")
            bench.allocations.put(given(ref, "nic-0"))
            bench.attachments.put(attached(given(ref, "nic-0"), Phase.RESTORED))
            await bench.rest(ENDED_DELAY_S)
            await bench.until_notice(StatusApplied)

            (entry,) = entries(await bench.claim(ref)).values()
            assert set(conditions(entry).values()) == {("False", "NetworkDeviceDetached")}
            assert "networkData" not in entry

    finish(scenario())


def test_unallocated_device_is_ignored(subject: Subject, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(subject, tmp_path) as bench:
            ref = await claim_with(bench, "nic-0")
            record = given(ref, "nic-0", "nic-9")
            bench.allocations.put(record)
            bench.attachments.put(attached(record))
            await bench.rest()
            await bench.until_notice(StatusApplied)

            assert list(entries(await bench.claim(ref))) == ["nic-0"]

    finish(scenario())


def test_claim_with_the_same_name_is_not_changed(subject: Subject, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(subject, tmp_path) as bench:
            ref = await claim_with(bench, "nic-0")
            gone = replace(ref, uid="11111111-1111-1111-1111-111111111111")
            bench.allocations.put(given(gone, "nic-0"))
            bench.attachments.put(attached(given(gone, "nic-0")))
            await bench.rest()

            assert await bench.until_notice(ClaimGone) == ClaimGone(gone)
            assert entries(await bench.claim(ref)) == {}

    finish(scenario())


def test_claim_that_changed_after_prepare_is_read_again(subject: Subject, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(subject, tmp_path) as bench:
            ref = ref_of(await allocated_claim(bench.api, "nic-0"))
            before = await bench.claim(ref)
            gpu = [device_status("gpu-0", "gpu.example.com")]
            await apply_status(bench.api, before, "gpu.example.com", gpu)
            bench.reporter.notify(ClaimPrepared(ref, own_pod(), gated=True, document=before))
            bench.allocations.put(given(ref, "nic-0"))
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_notice(StatusApplied)

            claim = await bench.claim(ref)
            assert list(entries(claim)) == ["nic-0"]
            assert list(entries(claim, "gpu.example.com")) == ["gpu-0"]
            assert bench.notices_of(StatusSyncFailed) == []

    finish(scenario())


def test_status_of_dranet_is_replaced(subject: Subject, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(subject, tmp_path) as bench:
            claim = await allocated_claim(bench.api, "nic-0")
            previous = {**device_status("nic-0"), "networkData": {"interfaceName": "old0"}}
            await apply_status(bench.api, claim, "dra.net", [previous])
            ref = ref_of(claim)
            bench.allocations.put(given(ref, "nic-0"))
            bench.attachments.put(failed(given(ref, "nic-0", pod=POD), "no such device"))
            await bench.rest()
            await bench.until_notice(StatusApplied)

            (entry,) = entries(await bench.claim(ref)).values()
            assert conditions(entry)["Ready"] == ("False", "NetworkDeviceAttachFailed")
            assert "networkData" not in entry

    finish(scenario())


def test_status_of_any_record_is_valid(subject: Subject, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(subject, tmp_path) as bench:
            ref, pod = await claim_with(bench, "nic-0", "nic-1"), own_pod()
            record = given(ref, "nic-0", "nic-1", pod=pod)
            many = tuple(f"10.1.{index}.5/24" for index in range(40))
            unusual = ("::FFFF:10.0.0.1/120", "2001:DB8:0:0::5/64", "2001:db8::5/64", *many)
            made = warned(attached(record), "\x85 \u00e4\U0001f50c\n" * 2000)
            first = replace(made.devices[0], addresses=unusual, mac="AA:" * 31 + "AA")
            bench.allocations.put(record)
            bench.attachments.put(replace(made, devices=(first, *made.devices[1:])))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            await bench.until_notice(EventPosted)

            entry = entries(await bench.claim(ref))["nic-0"]
            assert bench.notices_of(ClaimRefused) == []
            assert entry["networkData"]["ips"] == ["2001:db8::5/64", *many[:15]]

    finish(scenario())


def test_repeated_event_is_counted(subject: Subject, tmp_path: Path) -> None:
    async def scenario() -> None:
        ref = ObjectRef("default", "fast", str(uuid4()))
        async with reporting(subject, tmp_path) as bench:
            bench.reporter.notify(PrepareFailed(ref, "device nic-0: this node has no such device"))
            first = await bench.until_notice(EventPosted)
            bench.clock.pass_time(60)
            bench.reporter.notify(PrepareFailed(ref, "device nic-0: this node has no such device"))
            await bench.until_notice(EventPosted, 2)
        async with reporting(subject, tmp_path) as again:
            again.clock.pass_time(120)
            again.reporter.notify(PrepareFailed(ref, "device nic-0: this node has no such device"))
            last = await again.until_notice(EventPosted)

            event: Any = await again.api.get(EVENT, last.name, "default")
            assert last.name == first.name
            assert (event["reason"], event["count"]) == ("ClaimPrepareFailed", 3)
            assert event["firstTimestamp"] == STAMP
            assert event["lastTimestamp"] == "2026-09-21T14:15:20Z"
            assert event["involvedObject"]["kind"] == "ResourceClaim"
            assert event["involvedObject"]["apiVersion"] == "resource.k8s.io/v1"

    finish(scenario())


def test_pod_without_a_gate_gets_one_event(subject: Subject, tmp_path: Path) -> None:
    async def scenario() -> None:
        ref, pod = ObjectRef("default", "fast", "c1"), own_pod()
        reasons: list[list[str]] = []
        for _ in range(2):
            async with reporting(subject, tmp_path) as bench:
                bench.reporter.notify(ClaimPrepared(ref, pod, gated=True))
                bench.reporter.notify(ClaimPrepared(ref, pod, gated=False))
                bench.reporter.notify(PrepareFailed(ref, str(uuid4())))
                while (
                    not (posted := bench.notices_of(EventPosted))
                    or posted[-1].reason == "ClaimNotGated"
                ):
                    await bench.until_notice(EventPosted, len(posted) + 1)
                reasons.append([event.reason for event in posted])
        assert reasons == [["ClaimNotGated", "ClaimPrepareFailed"], ["ClaimPrepareFailed"]]

    finish(scenario())
