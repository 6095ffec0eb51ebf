"""CDI ids of a claim: stable for as long as a kubelet caches them, and safe to reuse."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dra_shim.checkpoint.transaction import CheckpointTransaction
from dra_shim.prepare import PrepareSettings
from dra_shim.settings.common import StatePaths
from dranet_nri.model import Phase
from tests.dra_shim.prepare.prepare_bench import POD, Bench, attach, nonce_of
from tests.fakes.cluster import POOL

pytestmark = pytest.mark.process


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with closing(Bench(StatePaths(tmp_path / "state", tmp_path / "run"))) as made:
        yield made


def test_record_after_a_reboot_keeps_its_id(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    (before,) = bench.prepare(claim)
    with closing(Bench(bench.state, PrepareSettings(POOL, "boot2"))) as rebooted:
        rebooted.cluster.add("nics", "u1", "a")

        (after,) = rebooted.prepare(claim)

    assert after == before
    record = bench.record(claim)
    assert record is not None
    assert record.boot_id == "boot2"


def test_id_of_an_older_version_is_kept(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.prepare(claim)
    record = bench.record(claim)
    assert record is not None
    with CheckpointTransaction(bench.state) as transaction:
        transaction.record([replace(record, nonce="c0ffee", boot_id="boot0")])

    (answer,) = bench.prepare(claim)

    assert nonce_of(answer) == "c0ffee"


def test_claim_with_the_same_name_has_another_gate(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    (before,) = bench.prepare(claim)
    asyncio.run(bench.preparer.unprepare([claim]))
    namesake = bench.cluster.add("nics", "u2", "a")

    (after,) = bench.prepare(namesake)

    assert nonce_of(after) != nonce_of(before)


def test_next_pod_waits_for_the_closed_gate_of_the_last(
    bench: Bench,
) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.prepare(claim)
    attach(bench.state, claim, POD, "a", Phase.ATTACHED)
    asyncio.run(bench.preparer.unprepare([claim]))
    bench.cluster.add("nics", "u1", "b", pod="next", pod_uid="p2")  # allocated anew as well

    (waits,) = bench.prepare_until_timeout(claim)
    attach(bench.state, claim, POD, "a", Phase.RESTORED)  # closing the gate comes first
    (answer,) = bench.prepare(claim)

    assert waits.error == "claim ai/nics: pod ai/train has not released its devices"
    assert (answer.error, len(answer.devices)) == ("", 1)
