"""Records that are dropped in the end, and those that must not be; pods that wait in vain."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dra_shim.prepare import (
    ApiUnavailableError,
    OrphanCollector,
    OrphanRemoved,
    OrphanSearchFailed,
    PodSuperseded,
)
from dra_shim.prepare.orphans import COLLECT_INTERVAL_S, ORPHAN_S
from dra_shim.settings.common import StatePaths
from dranet_nri.model import ObjectRef, Phase
from tests.dra_shim.prepare.prepare_bench import OTHER_POD, POD, Bench, attach
from tests.fakes.cluster import POOL, Document, claim_document, pod_document, result, user

pytestmark = pytest.mark.process


REASON = "the claim does not exist any more"
NEXT = ObjectRef("ai", "train-2", "p2")


class CollectorBench(Bench):
    """A bench with an orphan collector, whose time a test lets pass."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(StatePaths(tmp_path / "state", tmp_path / "run"))
        self.checkpoint = tmp_path / "dra_manager_state"
        self.collector = OrphanCollector(
            self.cluster,
            self.preparer,
            self.checkpoint,
            self.notices.append,
            clock=self.clock,
            sleep=self.clock.sleep,
        )
        self.claim = self.cluster.add("nics", "u1", "a")
        self.prepare(self.claim)
        self.notices.clear()

    def collect(self, *after_s: float) -> None:
        """Collect orphans, and again after so many seconds each."""
        asyncio.run(self.collector.collect())
        for seconds in after_s:
            self.clock.pass_time(seconds)
            asyncio.run(self.collector.collect())

    def lose(self) -> None:
        """Delete the claim behind everybody's back."""
        self.cluster.claims.clear()

    def remember(self, *pods: ObjectRef) -> None:
        """Let the kubelet have the claim for these pods in its checkpoint."""
        entry = {"ClaimUID": self.claim.uid, "PodUIDs": {pod.uid: {} for pod in pods}}
        checkpoint = json.dumps({"kind": "DRACheckpoint", "ClaimInfoStateList": [entry]})
        self.checkpoint.write_text(json.dumps({"Data": checkpoint, "Checksum": 1}))

    def hand_on(self, node: str = POOL) -> Document:
        """End the pod and reserve the claim for the next one on a node; return the next pod."""
        self.cluster.claims["nics"]["status"]["reservedFor"] = [user(NEXT.name, NEXT.uid)]
        following = pod_document(NEXT.name, NEXT.uid, {"net": "nics"}, nodeName=node)
        self.cluster.pods = {NEXT.name: following}
        return following

    def has_record(self) -> bool:
        return self.record(self.claim) is not None


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[CollectorBench]:
    with closing(CollectorBench(tmp_path)) as made:
        yield made


def test_record_of_a_deleted_claim_is_dropped_after_ten_minutes(bench: CollectorBench) -> None:
    bench.lose()

    bench.collect(ORPHAN_S - 1)
    assert bench.has_record()
    bench.collect(1)

    assert not bench.has_record()
    assert bench.notices == [OrphanRemoved(bench.claim, POD, REASON)]


def test_record_of_an_existing_claim_is_kept(bench: CollectorBench) -> None:
    bench.collect(ORPHAN_S, ORPHAN_S)

    assert bench.has_record()
    assert bench.notices == []


def test_record_in_the_kubelet_checkpoint_is_kept(
    bench: CollectorBench,
) -> None:
    bench.lose()
    bench.remember(POD)
    bench.cluster.reads.clear()

    bench.collect(ORPHAN_S, ORPHAN_S)

    assert bench.has_record()
    assert bench.cluster.reads == []


def test_checkpoint_without_the_claim_is_trusted(bench: CollectorBench) -> None:
    bench.lose()
    bench.checkpoint.write_text('{"Data":"{}"}')

    bench.collect(ORPHAN_S)

    assert not bench.has_record()


@pytest.mark.parametrize("pod", [POD, OTHER_POD])
def test_record_with_a_device_in_a_pod_is_kept(bench: CollectorBench, pod: ObjectRef) -> None:
    bench.lose()
    attach(bench.state, bench.claim, pod, "a", Phase.ATTACHED)

    bench.collect(ORPHAN_S, ORPHAN_S)

    assert bench.has_record()


def test_record_with_a_restored_device_is_dropped(bench: CollectorBench) -> None:
    bench.lose()
    attach(bench.state, bench.claim, POD, "a", Phase.RESTORED)

    bench.collect(ORPHAN_S)

    assert not bench.has_record()


def test_unavailable_server_restarts_the_ten_minutes(bench: CollectorBench) -> None:
    bench.lose()
    bench.collect(ORPHAN_S - 1)
    bench.cluster.failures = [ApiUnavailableError("refused")]

    bench.collect(1, ORPHAN_S - 1)

    assert bench.has_record()
    assert bench.notices == []
    bench.collect(1)
    assert not bench.has_record()


def test_claim_found_again_restarts_the_ten_minutes(bench: CollectorBench) -> None:
    there = dict(bench.cluster.claims)
    bench.lose()
    bench.collect(ORPHAN_S - 1)
    bench.cluster.claims = there
    bench.collect()
    bench.lose()

    bench.collect(1)

    assert bench.has_record()


UNREADABLE: Document = {"metadata": {}}


@pytest.mark.parametrize("name", ["an-earlier", "the-last"])
def test_unreadable_claim_keeps_only_its_record(bench: CollectorBench, name: str) -> None:
    failing = bench.cluster.add(name, f"u-{name}", name)
    bench.prepare(failing)
    bench.notices.clear()
    bench.lose()
    bench.cluster.claims[name] = UNREADABLE

    bench.collect(ORPHAN_S)

    assert not bench.has_record()
    assert bench.record(failing) is not None
    failed_claims = [
        notice.claim for notice in bench.notices if isinstance(notice, OrphanSearchFailed)
    ]
    assert failed_claims == [failing, failing]


@pytest.mark.parametrize(
    "cause", [ApiUnavailableError("refused"), OSError(5, "Input/output error")]
)
def test_error_of_a_claim_does_not_restart_the_time_of_others(
    bench: CollectorBench, cause: Exception
) -> None:
    failing = bench.cluster.add("an-earlier", "u0", "b")
    bench.prepare(failing)
    bench.lose()
    bench.collect()
    bench.cluster.failures = [cause]

    bench.collect(ORPHAN_S)

    assert not bench.has_record()
    assert bench.record(failing) is not None


def test_record_with_an_unknown_device_location_is_kept(
    bench: CollectorBench,
) -> None:
    bench.lose()
    bench.state.attachments.mkdir(parents=True, exist_ok=True)
    record = bench.state.attachments / f"{bench.claim.uid}.json"
    record.write_text("{")
    bench.collect(ORPHAN_S, ORPHAN_S)
    assert bench.has_record()

    record.unlink()
    bench.collect()
    assert bench.has_record()
    bench.collect(ORPHAN_S)
    assert not bench.has_record()


def test_quarantined_record_keeps_nothing(bench: CollectorBench) -> None:
    bench.lose()
    aside = bench.state.attachments / "quarantine"
    aside.mkdir(parents=True)
    (aside / f"{bench.claim.uid}.json.1").write_text("{")

    bench.collect(ORPHAN_S)

    assert not bench.has_record()


# --------------------------------------------------------------------------- pods in vain


@pytest.mark.parametrize("phase", [Phase.RESTORED, None])
@pytest.mark.parametrize("checkpoint", [(), (NEXT,)])
def test_pod_blocked_by_the_claim_of_another_is_reported_once(
    bench: CollectorBench, phase: Phase | None, checkpoint: tuple[ObjectRef, ...]
) -> None:
    if phase is not None:
        attach(bench.state, bench.claim, POD, "a", phase)
    if checkpoint:
        bench.remember(*checkpoint)
    bench.hand_on()

    bench.collect(*[COLLECT_INTERVAL_S] * 8)

    assert bench.notices == [PodSuperseded(bench.claim, POD, (NEXT,))]
    assert bench.has_record()


def test_pod_blocked_by_a_share_is_reported(bench: CollectorBench) -> None:
    shared = ObjectRef("ai", "shared", "u2")
    results = [result("hca", shareID="s1")]
    bench.cluster.nics.add("hca")
    bench.cluster.claims["shared"] = claim_document("shared", "u2", results, [user("train", "p1")])
    bench.cluster.pods["train"] = pod_document("train", "p1", {"nics": "nics", "x": "shared"})
    bench.prepare(shared)
    bench.notices.clear()
    bench.cluster.claims["shared"]["status"]["reservedFor"] = [user(NEXT.name, NEXT.uid)]
    bench.cluster.pods[NEXT.name] = pod_document(
        NEXT.name, NEXT.uid, {"x": "shared"}, nodeName=POOL
    )

    bench.collect()

    assert bench.notices == [PodSuperseded(shared, POD, (NEXT,))]


def test_admin_access_claim_blocks_no_pod(bench: CollectorBench) -> None:
    only = [result("a", adminAccess=True)]
    admin_claim = ObjectRef("ai", "seen", "u2")
    bench.cluster.claims["seen"] = claim_document("seen", "u2", only, [user("train", "p1")])
    bench.cluster.pods["train"] = pod_document("train", "p1", {"nics": "nics", "x": "seen"})
    bench.prepare(admin_claim)
    bench.notices.clear()
    bench.cluster.claims["seen"]["status"]["reservedFor"] = [user(NEXT.name, NEXT.uid)]
    bench.cluster.pods[NEXT.name] = pod_document(NEXT.name, NEXT.uid, {"x": "seen"}, nodeName=POOL)

    bench.collect()

    assert bench.notices == []


def test_device_in_the_earlier_pod_blocks_no_pod(bench: CollectorBench) -> None:
    attach(bench.state, bench.claim, POD, "a", Phase.ATTACHED)
    bench.hand_on()

    bench.collect()

    assert bench.notices == []


def test_pod_in_the_kubelet_checkpoint_blocks_no_pod(bench: CollectorBench) -> None:
    bench.remember(POD, NEXT)
    bench.hand_on()

    bench.collect()

    assert bench.notices == []


def test_reservation_for_the_earlier_pod_blocks_no_pod(bench: CollectorBench) -> None:
    bench.hand_on()
    users = [user(POD.name, POD.uid), user(NEXT.name, NEXT.uid)]
    bench.cluster.claims["nics"]["status"]["reservedFor"] = users

    bench.collect()

    assert bench.notices == []


def test_pod_of_another_node_is_not_reported(bench: CollectorBench) -> None:
    bench.hand_on(node="node-2")

    bench.collect()

    assert bench.notices == []


def test_report_is_withdrawn_when_the_pod_ends(bench: CollectorBench) -> None:
    following = bench.hand_on()
    bench.collect()
    following["metadata"]["deletionTimestamp"] = "2026-09-21T14:13:20Z"

    bench.collect(COLLECT_INTERVAL_S)

    assert bench.notices == [
        PodSuperseded(bench.claim, POD, (NEXT,)),
        PodSuperseded(bench.claim, POD, ()),
    ]


def test_unavailable_server_withdraws_no_report(bench: CollectorBench) -> None:
    bench.hand_on()
    bench.collect()
    bench.cluster.failures = [ApiUnavailableError("refused")]

    bench.collect(COLLECT_INTERVAL_S, COLLECT_INTERVAL_S)

    assert bench.notices == [PodSuperseded(bench.claim, POD, (NEXT,))]


def test_pod_that_gets_the_claim_can_block_the_next(bench: CollectorBench) -> None:
    bench.hand_on()
    bench.collect()
    bench.prepare(bench.claim)
    bench.notices.clear()
    last = ObjectRef("ai", "train-3", "p3")
    bench.cluster.claims["nics"]["status"]["reservedFor"] = [user(last.name, last.uid)]
    bench.cluster.pods = {
        last.name: pod_document(last.name, last.uid, {"net": "nics"}, nodeName=POOL)
    }

    bench.collect()

    assert bench.notices == [PodSuperseded(bench.claim, NEXT, (last,))]


def test_record_of_the_next_pod_in_the_checkpoint_is_kept(bench: CollectorBench) -> None:
    bench.remember(NEXT)
    bench.lose()

    bench.collect(ORPHAN_S, ORPHAN_S)

    assert bench.has_record()
