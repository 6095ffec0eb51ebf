"""A node that cannot be looked at, for a while or for long, and looks that end and begin again."""

import asyncio
from errno import EINTR
from pathlib import Path

import pytest

from dra_shim.discovery import ScanFailed, ScanHung
from dra_shim.discovery.reporter import DOUBT_S
from dra_shim.discovery.schedule import FIRST_PAUSE_S, LONGEST_PAUSE_S, QUIET_S
from dranet_nri.errors import KernelError
from tests.dra_shim.discovery.node_bench import RESCAN_S, Bench, facts_with
from tests.dranet_nri.nri.stub.plugin_bench import finish

pytestmark = pytest.mark.process


TROUBLE = KernelError("dump links", EINTR, "changed under the reader")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_nothing_is_withdrawn_because_a_look_failed(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scene() -> None:
        async with bench.running():
            bench.host.error = TROUBLE
            bench.host.take_link("a")
            await bench.settle()

            assert bench.offers == [["a"]]
            assert bench.said(ScanFailed) == [ScanFailed(TROUBLE, FIRST_PAUSE_S)]
            assert (await bench.device("a")).name == "a"
            assert await bench.health() == {"a": True}

            bench.host.error = None
            await bench.rest(FIRST_PAUSE_S)

            assert bench.offers == [["a"], []]
            assert bench.host.looks == [True, False, True]

    finish(scene())


def test_after_long_trouble_nobody_knows_how_devices_are(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scene() -> None:
        async with bench.running():
            await bench.rest(RESCAN_S)
            bench.host.error = TROUBLE
            bench.host.announce()
            await bench.settle()
            start, pause_s = bench.clock(), FIRST_PAUSE_S
            while bench.clock() - start < DOUBT_S:
                assert await bench.health() == {"a": True}
                await bench.rest(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

            (report,) = (await bench.devices.health(None)).devices
            assert (report.healthy, report.message) == (
                None,
                f"the node cannot be scanned: {TROUBLE}",
            )
            assert bench.offers == [["a"], ["a"]]

            bench.host.error = None
            await bench.rest(pause_s)
            assert await bench.health() == {"a": True}

    finish(scene())


def test_trouble_at_the_start_offers_nothing_until_the_node_was_seen(bench: Bench) -> None:
    bench.host.add_nic("a")
    bench.host.error = OSError(24, "Too many open files")

    async def scene() -> None:
        task = asyncio.create_task(bench.devices.run())
        await bench.clock.until_asleep(FIRST_PAUSE_S)
        assert bench.offers == []

        bench.host.error = None
        await bench.rest(FIRST_PAUSE_S)

        assert bench.offers == [["a"]]
        task.cancel()
        await asyncio.wait({task})

    finish(scene())


def test_a_look_that_hangs_is_told_and_the_loop_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, hang_timeout_s=0.01)
    bench.host.add_nic("a")

    async def scene() -> None:
        async with bench.running():
            bench.host.may_look.clear()
            bench.host.announce()
            await bench.clock.until_asleep(QUIET_S)
            bench.clock.pass_time(QUIET_S)
            await bench.until(lambda: bool(bench.said(ScanHung)))

            assert bench.said(ScanHung)[0].seconds == 0.01
            assert (await bench.device("a")).name == "a"

    finish(scene())


def test_run_again_it_looks_at_everything_and_answers_who_asked_meanwhile(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scene() -> None:
        async with bench.running():
            pass
        asked = asyncio.create_task(bench.devices.devices(["b"]))
        bench.host.add_nic("b")
        await asyncio.sleep(0)
        async with bench.running():
            assert list(await asked) == ["b"]
            assert bench.offers[-1] == ["a", "b"]
            bench.host.add_nic("c")
            await bench.settle()

            assert bench.offers[-1] == ["a", "b", "c"]

    finish(scene())


def test_what_happened_while_it_did_not_run_is_seen_when_it_does(bench: Bench) -> None:
    async def scene() -> None:
        async with bench.running():
            pass
        bench.host.add_nic("a")
        async with bench.running():
            assert bench.offers == [[], ["a"]]
            assert bench.host.looks == [True, True]

    finish(scene())


def test_a_node_that_cannot_be_looked_at_is_an_answer_too(bench: Bench) -> None:
    async def scene() -> None:
        async with bench.running():
            bench.host.error = TROUBLE
            with pytest.raises(KernelError, match="changed under the reader"):
                await bench.devices.devices(["a"])

            assert bench.said(ScanFailed) == [ScanFailed(TROUBLE, FIRST_PAUSE_S)]
            bench.host.error = None
            bench.host.facts = facts_with("a")
            await bench.rest(FIRST_PAUSE_S)
            assert bench.offers[-1] == ["a"]

    finish(scene())
