"""Orphan collection when the API server answers with errors."""

import asyncio

import pytest

from dra_shim.prepare import NotYetError, OrphanRemoved, OrphanSearchFailed
from dra_shim.prepare.orphans import COLLECT_INTERVAL_S, ORPHAN_S
from tests.dra_shim.prepare.prepare_bench import POD
from tests.dra_shim.prepare.test_orphans import REASON, CollectorBench, bench

pytestmark = pytest.mark.process


__all__ = ["bench"]
REFUSAL = NotYetError("may not get resourceclaims")


def test_refusing_server_gets_one_request_per_collection(bench: CollectorBench) -> None:
    bench.prepare(bench.cluster.add("another", "u2", "b"))
    bench.notices.clear()
    bench.cluster.reads.clear()
    bench.cluster.failures = [REFUSAL, REFUSAL]

    bench.collect()

    assert bench.notices == [OrphanSearchFailed(REFUSAL)]
    assert len(bench.cluster.reads) == 1


def test_failed_collection_is_reported_and_repeated(bench: CollectorBench) -> None:
    bench.lose()
    bench.cluster.failures = [REFUSAL]

    async def run() -> None:
        task = asyncio.create_task(bench.collector.run())
        for _ in range(int(ORPHAN_S / COLLECT_INTERVAL_S) + 2):
            await bench.clock.until_asleep(COLLECT_INTERVAL_S)
            bench.clock.pass_time(COLLECT_INTERVAL_S)
        await bench.clock.until_asleep(COLLECT_INTERVAL_S)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(run())

    assert bench.notices == [OrphanSearchFailed(REFUSAL), OrphanRemoved(bench.claim, POD, REASON)]


def test_collection_that_fails_midway_proves_no_orphan(bench: CollectorBench) -> None:
    other = bench.cluster.add("another", "u2", "b")
    bench.prepare(other)
    bench.lose()
    bench.collect(ORPHAN_S - 1)
    bench.cluster.failures = [None, REFUSAL]

    bench.collect(0, 1)

    assert bench.has_record()
    assert bench.record(other) is not None
    bench.collect(ORPHAN_S - 1)
    assert not bench.has_record()
    assert bench.record(other) is None
