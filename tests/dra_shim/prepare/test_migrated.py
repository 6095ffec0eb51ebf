"""Claims that another driver prepared, recorded while a kubelet goes on with its pods."""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from dra_shim.prepare import ClaimUnprepared, PrepareResult
from dra_shim.settings.common import StatePaths
from dranet_nri.model import Device, ObjectRef
from tests.dra_shim.prepare.prepare_bench import Bench
from tests.fakes.cluster import config, nic

pytestmark = pytest.mark.process


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with closing(Bench(StatePaths(tmp_path / "state", tmp_path / "run"))) as made:
        yield made


def adopt(bench: Bench, *claims: ObjectRef) -> dict[str, str]:
    """Return the errors by claim UID."""
    answers = asyncio.run(bench.preparer.adopt(claims, bench.cluster))
    return {uid: answer.error for uid, answer in answers.items()}


def test_claim_unprepared_after_the_list_gets_no_record(bench: Bench) -> None:
    ended = bench.cluster.add("ended", "u1", "a", pod="ending")
    other = bench.cluster.add("other", "u2", "b", pod="train", pod_uid="p2")

    with bench.preparer.adopting():
        asyncio.run(bench.preparer.unprepare([ended]))  # before anything is recorded

        assert adopt(bench, ended, other) == {"u2": ""}
        assert adopt(bench, ended) == {}, "as often as it is tried"
    assert bench.record(ended) is None
    assert bench.record(other) is not None
    assert [notice for notice in bench.notices if isinstance(notice, ClaimUnprepared)] == []


def test_unprepared_claim_can_be_prepared_again(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")

    with bench.preparer.adopting():
        asyncio.run(bench.preparer.unprepare([claim]))

        assert bench.prepare(claim)[0].error == ""
    assert bench.record(claim) is not None


def test_unprepare_before_the_list_has_no_effect(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    with bench.preparer.adopting():
        asyncio.run(bench.preparer.unprepare([claim]))
    asyncio.run(bench.preparer.unprepare([claim]))

    with bench.preparer.adopting():
        assert adopt(bench, claim) == {"u1": ""}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_claim_of_an_ended_pod_gets_no_record(bench: Bench, phase: str) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.cluster.pods["train"]["status"]["phase"] = phase

    assert adopt(bench, claim) == {}
    assert bench.record(claim) is None


def test_terminating_pod_keeps_its_devices(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    pod = bench.cluster.pods["train"]
    pod["status"]["phase"] = "Running"
    pod["metadata"]["deletionTimestamp"] = "2026-11-20T12:00:00Z"

    assert adopt(bench, claim) == {"u1": ""}
    assert bench.record(claim) is not None


def test_claim_unprepared_during_its_adoption_gets_no_record(bench: Bench) -> None:
    class Elsewhere:
        def __init__(self) -> None:
            self.started, self.resumed = asyncio.Event(), asyncio.Event()

        async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
            self.started.set()
            await self.resumed.wait()
            return {name: nic(name) for name in names}

    claim = bench.cluster.add("nics", "u1", "nowhere-1")
    other = bench.cluster.add("more", "u2", "nowhere-2")

    async def run() -> tuple[dict[str, PrepareResult], dict[str, str]]:
        source = Elsewhere()
        task = asyncio.create_task(bench.preparer.adopt([claim, other], source))
        await source.started.wait()
        unprepared = await bench.preparer.unprepare([claim])
        source.resumed.set()
        return await task, unprepared

    answers, unprepared = asyncio.run(run())

    assert unprepared == {"u1": ""}
    assert answers.keys() == {"u2"}
    assert bench.record(claim) is None
    assert not answers["u2"].error
    assert bench.record(other) is not None


def test_running_claim_with_a_repeated_address_is_not_refused(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a", "b")
    bench.cluster.claims["nics"]["status"]["allocation"]["devices"]["config"] = [
        config({"interface": {"addresses": ["192.0.2.10/24"]}})
    ]

    assert adopt(bench, claim) == {"u1": ""}
    assert bench.record(claim) is not None
