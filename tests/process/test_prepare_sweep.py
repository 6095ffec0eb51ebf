"""Orphans: records that are dropped in the end, and those that must not be."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dra_shim.prepare import NotYetError, Sweeper, SweepFailed, Swept, UnavailableError
from dra_shim.prepare.sweep import ORPHAN_S, SWEEP_S
from dra_shim.settings import State
from dranet_nri.model import ObjectRef, Phase
from tests.fakes.cluster import Document
from tests.process.prepare_bench import OTHER_POD, POD, Bench, attach

REASON = "the claim does not exist any more"


class SweepBench(Bench):
    """A bench with a sweeper, whose time a test lets pass."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(State(tmp_path / "state", tmp_path / "run"))
        self.checkpoint = tmp_path / "dra_manager_state"
        self.sweeper = Sweeper(
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

    def sweep(self, *after_s: float) -> None:
        """Sweep, and again after so many seconds each."""
        asyncio.run(self.sweeper.sweep())
        for seconds in after_s:
            self.clock.pass_time(seconds)
            asyncio.run(self.sweeper.sweep())

    def lose(self) -> None:
        """Delete the claim behind everybody's back."""
        self.cluster.claims.clear()

    def is_kept(self) -> bool:
        return self.record(self.claim) is not None


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[SweepBench]:
    with closing(SweepBench(tmp_path)) as made:
        yield made


def test_a_record_of_a_claim_that_is_gone_is_dropped_after_ten_minutes(bench: SweepBench) -> None:
    bench.lose()

    bench.sweep(ORPHAN_S - 1)
    assert bench.is_kept()
    bench.sweep(1)

    assert not bench.is_kept()
    assert bench.notices == [Swept(bench.claim, POD, REASON)]


def test_a_record_of_a_claim_that_is_there_is_kept(bench: SweepBench) -> None:
    bench.sweep(ORPHAN_S, ORPHAN_S)

    assert bench.is_kept()
    assert bench.notices == []


def test_a_record_that_the_kubelet_knows_is_kept_and_the_server_not_asked(
    bench: SweepBench,
) -> None:
    bench.lose()
    known = json.dumps({"kind": "DRACheckpoint", "entries": [{"ClaimUID": "u1"}]})
    bench.checkpoint.write_text(json.dumps({"Data": known, "Checksum": 1}))
    bench.cluster.reads.clear()

    bench.sweep(ORPHAN_S, ORPHAN_S)

    assert bench.is_kept()
    assert bench.cluster.reads == []


def test_a_checkpoint_without_the_claim_proves_what_it_says(bench: SweepBench) -> None:
    bench.lose()
    bench.checkpoint.write_text('{"Data":"{}"}')

    bench.sweep(ORPHAN_S)

    assert not bench.is_kept()


@pytest.mark.parametrize("pod", [POD, OTHER_POD])
def test_a_record_whose_device_is_in_a_pod_is_kept(bench: SweepBench, pod: ObjectRef) -> None:
    bench.lose()
    attach(bench.state, bench.claim, pod, "a", Phase.ATTACHED)

    bench.sweep(ORPHAN_S, ORPHAN_S)

    assert bench.is_kept()


def test_a_record_whose_device_came_home_is_dropped(bench: SweepBench) -> None:
    bench.lose()
    attach(bench.state, bench.claim, POD, "a", Phase.HOME)

    bench.sweep(ORPHAN_S)

    assert not bench.is_kept()


def test_a_server_that_cannot_be_asked_begins_the_ten_minutes_anew(bench: SweepBench) -> None:
    bench.lose()
    bench.sweep(ORPHAN_S - 1)
    bench.cluster.failures = [UnavailableError("refused")]

    bench.sweep(1, ORPHAN_S - 1)

    assert bench.is_kept()
    assert bench.notices == []
    bench.sweep(1)
    assert not bench.is_kept()


def test_a_claim_that_was_seen_meanwhile_begins_the_ten_minutes_anew(bench: SweepBench) -> None:
    there = dict(bench.cluster.claims)
    bench.lose()
    bench.sweep(ORPHAN_S - 1)
    bench.cluster.claims = there
    bench.sweep()
    bench.lose()

    bench.sweep(1)

    assert bench.is_kept()


UNREADABLE: Document = {"metadata": {}}


@pytest.mark.parametrize("name", ["an-earlier", "the-last"])
def test_a_claim_that_cannot_be_read_keeps_its_own_record_alone(
    bench: SweepBench, name: str
) -> None:
    odd = bench.cluster.add(name, f"u-{name}", name)
    bench.prepare(odd)
    bench.notices.clear()
    bench.lose()
    bench.cluster.claims[name] = UNREADABLE

    bench.sweep(ORPHAN_S)

    assert not bench.is_kept()
    assert bench.record(odd) is not None
    told = [each.claim for each in bench.notices if isinstance(each, SweepFailed)]
    assert told == [odd, odd]


@pytest.mark.parametrize("cause", [UnavailableError("refused"), OSError(5, "Input/output error")])
def test_trouble_with_one_claim_does_not_begin_the_ten_minutes_of_another_anew(
    bench: SweepBench, cause: Exception
) -> None:
    odd = bench.cluster.add("an-earlier", "u0", "b")
    bench.prepare(odd)
    bench.lose()
    bench.sweep()
    bench.cluster.failures = [cause]

    bench.sweep(ORPHAN_S)

    assert not bench.is_kept()
    assert bench.record(odd) is not None


def test_a_server_that_refuses_is_asked_once_a_sweep(bench: SweepBench) -> None:
    bench.prepare(bench.cluster.add("another", "u2", "b"))
    bench.notices.clear()
    bench.cluster.reads.clear()
    refusal = NotYetError("may not get resourceclaims")
    bench.cluster.failures = [refusal, refusal]

    bench.sweep()

    assert bench.notices == [SweepFailed(refusal)]
    assert len(bench.cluster.reads) == 1


def test_a_record_of_which_nobody_knows_whether_a_pod_has_its_device_is_kept(
    bench: SweepBench,
) -> None:
    bench.lose()
    bench.state.attachments.mkdir(parents=True, exist_ok=True)
    record = bench.state.attachments / f"{bench.claim.uid}.json"
    record.write_text("{")
    bench.sweep(ORPHAN_S, ORPHAN_S)
    assert bench.is_kept()

    record.unlink()
    bench.sweep()
    assert bench.is_kept()
    bench.sweep(ORPHAN_S)
    assert not bench.is_kept()


def test_a_broken_record_that_the_plugin_moved_aside_keeps_nothing(bench: SweepBench) -> None:
    bench.lose()
    aside = bench.state.attachments / "quarantine"
    aside.mkdir(parents=True)
    (aside / f"{bench.claim.uid}.json.1").write_text("{")

    bench.sweep(ORPHAN_S)

    assert not bench.is_kept()


def test_what_goes_wrong_is_told_and_the_next_look_comes(bench: SweepBench) -> None:
    bench.lose()
    refusal = NotYetError("may not get resourceclaims")
    bench.cluster.failures = [refusal]

    async def run() -> None:
        task = asyncio.create_task(bench.sweeper.run())
        for _ in range(int(ORPHAN_S / SWEEP_S) + 2):
            await bench.clock.until_asleep(SWEEP_S)
            bench.clock.pass_time(SWEEP_S)
        await bench.clock.until_asleep(SWEEP_S)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(run())

    assert bench.notices == [SweepFailed(refusal), Swept(bench.claim, POD, REASON)]
