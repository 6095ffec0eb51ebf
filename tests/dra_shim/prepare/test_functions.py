"""A PF and its virtual functions exclude each other, also where the scheduler has no counters."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dra_shim.settings.common import StatePaths
from dranet_nri.model import ObjectRef, Phase
from tests.dra_shim.prepare.prepare_bench import POD, Bench, attach
from tests.fakes.cluster import result

pytestmark = pytest.mark.process


PF, VF, SECOND = (f"pci-0000-8a-00-{n}" for n in range(3))
ANOTHER = "pci-0000-8b-00-0"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with closing(Bench(StatePaths(tmp_path / "state", tmp_path / "run"))) as made:
        yield made


@pytest.mark.parametrize(("first", "second"), [(VF, PF), (PF, VF)], ids=["VF first", "PF first"])
def test_pf_and_vf_are_refused_while_the_other_is_in_a_pod(
    bench: Bench, first: str, second: str
) -> None:
    allocated = bench.cluster.add("allocated", "u1", first)
    other_claim = bench.cluster.add("wanted", "u2", second, pod="other", pod_uid="p2")
    assert bench.prepare(allocated)[0].error == ""
    attach(bench.state, allocated, POD, first, Phase.ATTACHED)

    assert bench.error(other_claim) == (
        f"device {second}: a PF and its functions exclude each other, and {first} is in use by "
        "claim ai/allocated of pod ai/train; delete one of the pods, or select by dra.net/isSriovVf"
    )
    assert bench.record(other_claim) is None

    attach(bench.state, allocated, POD, first, Phase.RESTORED)
    assert asyncio.run(bench.preparer.unprepare([allocated])) == {"u1": ""}
    assert bench.prepare(other_claim)[0].error == ""


@pytest.mark.parametrize(("first", "second"), [(VF, PF), (PF, VF)], ids=["VF first", "PF first"])
def test_restore_of_the_other_is_awaited(bench: Bench, first: str, second: str) -> None:
    old = bench.cluster.add("old", "u1", first, pod="ending", pod_uid="p1")
    claim = bench.cluster.add("wanted", "u2", second)
    attach(bench.state, old, ObjectRef("ai", "ending", "p1"), first, Phase.DETACHING)

    (answer,) = bench.prepare_until_timeout(claim)

    assert answer.error == (
        f"device {second}: a PF and its functions exclude each other, and {first} is in use by "
        "pod ai/ending, which has not released it (claim ai/old)"
    )
    attach(bench.state, old, ObjectRef("ai", "ending", "p1"), first, Phase.RESTORED)
    assert bench.prepare(claim)[0].error == ""


def test_vfs_and_other_cards_do_not_exclude_each_other(bench: Bench) -> None:
    for n, device in enumerate((VF, SECOND, ANOTHER)):
        claim = bench.cluster.add(f"c{n}", f"u{n}", device, pod=f"pod{n}", pod_uid=f"p{n}")
        assert bench.prepare(claim)[0].error == ""


def test_admin_access_claim_is_not_refused(bench: Bench) -> None:
    bench.prepare(bench.cluster.add("allocated", "u1", VF))
    watches = bench.cluster.add("watches", "u2", PF, pod="other", pod_uid="p2")
    devices = bench.cluster.claims["watches"]["status"]["allocation"]["devices"]
    devices["results"] = [result(PF, adminAccess=True)]

    assert bench.prepare(watches)[0].error == ""


def test_allocation_of_another_driver_is_adopted(bench: Bench) -> None:
    bench.prepare(bench.cluster.add("allocated", "u1", VF))
    running = bench.cluster.add("running", "u2", PF, pod="other", pod_uid="p2")

    answer = asyncio.run(bench.preparer.adopt([running], bench.cluster))

    assert answer["u2"].error == ""
    assert bench.record(running) is not None
