"""Failed and hanging scans of a node, and restarts of the discovery."""

import asyncio
from errno import EINTR
from pathlib import Path
from typing import NoReturn

import pytest

from dra_shim.discovery import ScanFailed, ScanHung
from dra_shim.discovery.reporter import UNKNOWN_HEALTH_S
from dra_shim.discovery.schedule import DEBOUNCE_S, FIRST_PAUSE_S, LONGEST_PAUSE_S
from dranet_nri.errors import KernelError
from tests.dra_shim.discovery.node_bench import RESCAN_S, Bench, facts_with
from tests.dranet_nri.nri.stub.plugin_bench import finish

pytestmark = pytest.mark.process


TROUBLE = KernelError("dump links", EINTR, "changed during the read")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_failed_scan_withdraws_no_device(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scenario() -> None:
        async with bench.running():
            bench.host.error = TROUBLE
            bench.host.take_link("a")
            await bench.settle()

            assert bench.published == [["a"]]
            assert bench.notices_of(ScanFailed) == [ScanFailed(TROUBLE, FIRST_PAUSE_S)]
            assert (await bench.device("a")).name == "a"
            assert await bench.health() == {"a": True}

            bench.host.error = None
            await bench.rest(FIRST_PAUSE_S)

            assert bench.published == [["a"], []]
            assert bench.host.scans == [True, False, True]

    finish(scenario())


def test_health_is_unknown_after_scans_fail_for_a_long_time(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scenario() -> None:
        async with bench.running():
            await bench.rest(RESCAN_S)
            bench.host.error = TROUBLE
            bench.host.announce()
            await bench.settle()
            start, pause_s = bench.clock(), FIRST_PAUSE_S
            while bench.clock() - start < UNKNOWN_HEALTH_S:
                assert await bench.health() == {"a": True}
                await bench.rest(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

            (report,) = (await bench.devices.health(None)).devices
            assert (report.healthy, report.message) == (
                None,
                f"the node cannot be scanned: {TROUBLE}",
            )
            assert bench.published == [["a"], ["a"]]

            bench.host.error = None
            await bench.rest(pause_s)
            assert await bench.health() == {"a": True}

    finish(scenario())


def test_devices_are_published_after_the_first_successful_scan(bench: Bench) -> None:
    bench.host.add_nic("a")
    bench.host.error = OSError(24, "Too many open files")

    async def scenario() -> None:
        task = asyncio.create_task(bench.devices.run())
        await bench.clock.until_asleep(FIRST_PAUSE_S)
        assert bench.published == []

        bench.host.error = None
        await bench.rest(FIRST_PAUSE_S)

        assert bench.published == [["a"]]
        task.cancel()
        await asyncio.wait({task})

    finish(scenario())


def test_hanging_scan_is_reported_and_lookups_continue(tmp_path: Path) -> None:
    bench = Bench(tmp_path, hang_timeout_s=0.01)
    bench.host.add_nic("a")

    async def scenario() -> None:
        async with bench.running():
            bench.host.may_scan.clear()
            bench.host.announce()
            await bench.clock.until_asleep(DEBOUNCE_S)
            bench.clock.pass_time(DEBOUNCE_S)
            await bench.until(lambda: bool(bench.notices_of(ScanHung)))

            assert bench.notices_of(ScanHung)[0].seconds == 0.01
            assert (await bench.device("a")).name == "a"

    finish(scenario())


def test_health_is_unknown_after_a_scan_hangs_for_a_long_time(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scenario() -> None:
        async with bench.running():
            bench.host.may_scan.clear()
            bench.clock.pass_time(RESCAN_S)
            await bench.until(lambda: len(bench.host.scans) == 2)
            bench.clock.pass_time(UNKNOWN_HEALTH_S - 1)
            assert await bench.health() == {"a": True}
            bench.clock.pass_time(1)
            assert await bench.health() == {"a": None}

            bench.host.may_scan.set()
            await bench.clock.until_asleep(RESCAN_S)
            assert await bench.health() == {"a": True}

    finish(scenario())


def test_health_is_unknown_while_no_events_can_be_received(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.host.add_nic("a")

    def refuse(*_: object) -> NoReturn:
        raise TROUBLE

    async def scenario() -> None:
        async with bench.running():
            pass
        monkeypatch.setattr(bench.host, "listening", refuse)
        for expected in (True, None):
            with pytest.raises(KernelError, match="changed during the read"):
                await bench.devices.run()
            assert await bench.health() == {"a": expected}
            bench.clock.pass_time(UNKNOWN_HEALTH_S)

    finish(scenario())


def test_health_stays_known_between_rare_scans(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scenario() -> None:
        async with bench.running():
            pass
        bench.clock.pass_time(2 * UNKNOWN_HEALTH_S)

        assert await bench.health() == {"a": True}

    finish(scenario())


def test_restart_scans_everything_and_answers_pending_lookups(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scenario() -> None:
        async with bench.running():
            pass
        lookup = asyncio.create_task(bench.devices.devices(["b"]))
        bench.host.add_nic("b")
        await asyncio.sleep(0)
        async with bench.running():
            assert list(await lookup) == ["b"]
            assert bench.published[-1] == ["a", "b"]
            bench.host.add_nic("c")
            await bench.settle()

            assert bench.published[-1] == ["a", "b", "c"]

    finish(scenario())


def test_change_while_stopped_is_found_after_a_restart(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            pass
        bench.host.add_nic("a")
        async with bench.running():
            assert bench.published == [[], ["a"]]
            assert bench.host.scans == [True, True]

    finish(scenario())


def test_lookup_fails_with_the_scan_error(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            bench.host.error = TROUBLE
            with pytest.raises(KernelError, match="changed during the read"):
                await bench.devices.devices(["a"])

            assert bench.notices_of(ScanFailed) == [ScanFailed(TROUBLE, FIRST_PAUSE_S)]
            bench.host.error = None
            bench.host.facts = facts_with("a")
            await bench.rest(FIRST_PAUSE_S)
            assert bench.published[-1] == ["a"]

    finish(scenario())
