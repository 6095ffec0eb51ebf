"""Claims with adminAccess, which several pods may have: they only look on."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dra_shim.prepare import ClaimPrepared, PreparedDevice, PrepareResult
from dra_shim.settings.common import StatePaths
from dranet_nri.model import ObjectRef
from tests.dra_shim.prepare.prepare_bench import POD, Bench, give_to_another
from tests.fakes.cluster import POOL, pod_document, result, user

pytestmark = pytest.mark.process


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Return a preparer with a node and a cluster of its own."""
    with closing(Bench(StatePaths(tmp_path / "state", tmp_path / "run"))) as made:
        yield made


def test_admin_access_claim_holds_no_device_and_has_no_gate(bench: Bench) -> None:
    give_to_another(bench.state, "a")
    claim = bench.cluster.add("nics", "u1", "a")
    bench.cluster.claims["nics"]["status"]["allocation"]["devices"]["results"] = [
        result("a", adminAccess=True)
    ]
    bench.cluster.pods["train"] = pod_document("train", "p1", {"n": "nics"}, {"main": []})

    assert bench.prepare(claim) == [PrepareResult((PreparedDevice("nic", POOL, "a"),))]
    assert bench.notices == [ClaimPrepared(claim, POD, gated=True)]


def test_admin_access_claim_keeps_its_recorded_pod(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    status = bench.cluster.claims["nics"]["status"]
    status["allocation"]["devices"]["results"] = [result("a", adminAccess=True)]
    before = bench.prepare(claim)
    bench.cluster.pods["more"] = pod_document("more", "p2", {"n": "nics"})
    status["reservedFor"].insert(0, user("more", "p2"))

    assert bench.prepare(claim) == before
    record = bench.record(claim)
    assert record is not None
    assert record.pod == POD


@pytest.mark.parametrize("recorded", [False, True], ids=["none on record", "the one on record"])
def test_ended_pod_does_not_block_admin_access(bench: Bench, *, recorded: bool) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    status = bench.cluster.claims["nics"]["status"]
    status["allocation"]["devices"]["results"] = [result("a", adminAccess=True)]
    if recorded:
        bench.prepare(claim)
    del bench.cluster.pods["train"]
    bench.cluster.pods["more"] = pod_document("more", "p2", {"n": "nics"})
    bench.cluster.pods["most"] = pod_document("most", "p3", {"n": "nics"})
    others = [user("more", "p2"), user("most", "p3")]
    status["reservedFor"] = (
        [*others, *status["reservedFor"]] if recorded else [*status["reservedFor"], *others]
    )

    (answer,) = bench.prepare(claim)

    assert answer == PrepareResult((PreparedDevice("nic", POOL, "a"),))
    record = bench.record(claim)
    assert record is not None
    assert record.pod == ObjectRef("ai", "more", "p2")
