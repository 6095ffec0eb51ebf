"""Times of the scans of a node, and the devices, health and notices after each scan."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from dra_shim.cel import SelectorError
from dra_shim.discovery import DeviceRecovered, DevicesChanged, DeviceSelection, DeviceUnhealthy
from dra_shim.discovery.schedule import DEBOUNCE_S, MAX_DELAY_S
from dra_shim.pool import NO_CARRIER, NO_RDMA, HealthReport
from dranet_nri.component.files import FileSystem
from dranet_nri.inventory import HostFacts, RdmaDeviceFacts, RdmaPortFacts
from dranet_nri.state import privileged_facts
from dranet_nri.state.privileged_facts import PrivilegedFacts
from tests.dra_shim.discovery.node_bench import RESCAN_S, Bench, facts_with
from tests.dra_shim.resourceslice.pools import function, nic
from tests.dranet_nri.nri.stub.plugin_bench import finish

pytestmark = pytest.mark.process


PF = "0000:8a:00.0"
PCI = "pci-0000-8a-00-0"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# --------------------------------------------------------------------------- times of scans


def test_first_scan_publishes_and_reports_all_devices(bench: Bench) -> None:
    bench.host.add_nic("a")
    bench.host.add_nic("b")

    async def scenario() -> None:
        async with bench.running():
            assert bench.published == [["a", "b"]]
            assert bench.host.scans == [True]
            assert bench.notices == [DevicesChanged(2, 0, ("a", "b"), ())]

    finish(scenario())


def test_tcx_programs_from_the_plugins_file_are_published(bench: Bench) -> None:
    bench.host.add_nic("a")
    bench.host.add_nic("b")
    (index, _) = [netdev.link.index for netdev in bench.host.facts.netdevs]
    bench.state.run.mkdir()

    async def scenario() -> None:
        async with bench.running():
            assert dict((await bench.device("a")).attributes)["dra.net/ebpf"] is False
            facts = PrivilegedFacts({index: ("count",)})
            privileged_facts.store(FileSystem(), bench.state.run, privileged_facts.encoded(facts))
            await bench.rest(RESCAN_S)
            published = dict((await bench.device("a")).attributes)
            assert (published["dra.net/ebpf"], published["dra.net/tcxProgramNames"]) == (
                True,
                "count",
            )
            assert dict((await bench.device("b")).attributes)["dra.net/ebpf"] is False

            facts = PrivilegedFacts({index: ("other",)})
            privileged_facts.store(FileSystem(), bench.state.run, privileged_facts.encoded(facts))
            await bench.rest(RESCAN_S)
            published = dict((await bench.device("a")).attributes)
            assert published["dra.net/tcxProgramNames"] == "other", "the file is read again"

    finish(scenario())


def test_node_without_devices_publishes_an_empty_list(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            assert bench.published == [[]]
            assert bench.notices == []

    finish(scenario())


def test_scan_starts_after_a_quiet_period_without_events(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            bench.host.add_nic("a")
            await bench.clock.until_asleep(DEBOUNCE_S)
            bench.clock.pass_time(DEBOUNCE_S / 2)
            bench.host.add_nic("b")
            bench.clock.pass_time(DEBOUNCE_S / 2)
            await bench.clock.until_asleep(DEBOUNCE_S / 2)
            assert bench.published == [[]]

            await bench.rest(DEBOUNCE_S / 2)

            assert bench.published == [[], ["a", "b"]]
            assert bench.host.scans == [True, False]

    finish(scenario())


def test_scan_starts_within_the_limit_while_events_continue(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            for _ in range(round(2 * MAX_DELAY_S / DEBOUNCE_S) + 1):
                bench.host.announce()
                await asyncio.sleep(0.002)
                bench.clock.pass_time(DEBOUNCE_S / 2)
                await asyncio.sleep(0.002)

            # The clock stands still now; the scan runs on a thread and may take longer.
            await bench.until(lambda: len(bench.published) > 1)

    finish(scenario())


def test_change_without_an_event_is_found_by_the_periodic_scan(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            bench.host.facts = facts_with("a")

            await bench.rest(RESCAN_S)

            assert bench.published == [[], ["a"]]
            assert bench.host.scans == [True, True]

    finish(scenario())


def test_event_during_a_scan_triggers_another_scan(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            bench.host.may_scan.clear()
            bench.host.add_nic("a")
            await bench.clock.until_asleep(DEBOUNCE_S)
            bench.clock.pass_time(DEBOUNCE_S)
            await bench.until(lambda: len(bench.host.scans) == 2)
            bench.host.add_nic("b")
            bench.host.may_scan.set()
            await bench.until(lambda: len(bench.published) == 2)
            await bench.settle()

            assert bench.published == [[], ["a"], ["a", "b"]]

    finish(scenario())


def test_invalid_filter_is_refused_at_construction(tmp_path: Path) -> None:
    with pytest.raises(SelectorError):
        Bench(tmp_path, DeviceSelection(filter="attributes["))


# --------------------------------------------------------------------------- changes


def test_removed_device_is_withdrawn_and_reported(bench: Bench) -> None:
    bench.host.add_nic("a")
    bench.host.add_nic("eth1", PF)

    async def scenario() -> None:
        async with bench.running():
            bench.host.remove_function(PF)
            await bench.settle()

            assert bench.published[-1] == ["a"]
            assert bench.notices[-1] == DevicesChanged(1, 0, (), ((PCI, "missing on the node"),))

    finish(scenario())


def test_device_that_becomes_the_uplink_is_withdrawn_with_the_reason(bench: Bench) -> None:
    bench.host.add_nic("a")
    bench.host.add_nic("b")

    async def scenario() -> None:
        async with bench.running():
            bench.host.route_through("a")
            await bench.settle()
            reason = "the node's default route goes through it"
            assert bench.notices[-1] == DevicesChanged(1, 0, (), (("a", reason),))

            bench.host.route_through("b")
            await bench.settle()
            assert bench.published[-1] == ["a"]

    finish(scenario())


def test_unhealthy_device_is_tainted_until_it_recovers(bench: Bench) -> None:
    bench.host.add_nic("eth1", PF)
    plugged = bench.host.facts

    async def scenario() -> None:
        async with bench.running():
            bench.host.unplug("eth1")
            await bench.settle()
            assert bench.taints() == {PCI: NO_CARRIER}
            assert bench.notices_of(DeviceUnhealthy) == [DeviceUnhealthy(PCI, NO_CARRIER)]

            bench.host.announce()
            await bench.settle()
            assert bench.notices_of(DeviceUnhealthy) == [DeviceUnhealthy(PCI, NO_CARRIER)]

            bench.host.facts = plugged
            bench.host.announce()
            await bench.settle()
            assert bench.taints() == {}
            assert bench.notices_of(DeviceRecovered) == [DeviceRecovered(PCI)]

    finish(scenario())


# --------------------------------------------------------------------------- lookups by Prepare


def test_lookup_of_a_known_device_triggers_no_scan(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scenario() -> None:
        async with bench.running():
            found = await bench.devices.devices(["a"])

            assert list(found) == ["a"]
            assert bench.host.scans == [True]

    finish(scenario())


def test_device_dropped_by_the_filter_after_allocation_is_found_without_a_scan(
    tmp_path: Path,
) -> None:
    bench = Bench(
        tmp_path, DeviceSelection(filter='attributes["dra.net/state"].StringValue != "down"')
    )
    bench.host.add_nic("a")
    (netdev,) = bench.host.facts.netdevs
    down = replace(netdev, link=replace(netdev.link, up=False, carrier=False, operstate="down"))

    async def scenario() -> None:
        async with bench.running():
            assert bench.published == [["a"]]
            bench.host.facts = replace(bench.host.facts, netdevs=(down,))
            await bench.rest(RESCAN_S)
            assert bench.published[-1] == []

            assert list(await bench.devices.devices(["a"])) == ["a"]
            assert len(bench.host.scans) == 2, "a known device triggers no scan"

    finish(scenario())


def test_lookup_of_an_unknown_device_triggers_one_full_scan(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scenario() -> None:
        async with bench.running():
            bench.host.facts = facts_with("late")

            found = await bench.devices.devices(["late", "never"])

            assert list(found) == ["late"]
            assert bench.host.scans == [True, True]
            assert bench.published[-1] == ["late"]

    finish(scenario())


def test_concurrent_lookups_share_a_scan_that_begins_after_them(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            bench.host.may_scan.clear()
            first = asyncio.create_task(bench.devices.devices(["a"]))
            await bench.until(lambda: len(bench.host.scans) == 2)
            later = [asyncio.create_task(bench.devices.devices(["a"])) for _ in range(10)]
            await asyncio.sleep(0)
            bench.host.add_nic("a")
            bench.host.may_scan.set()

            assert [list(found) for found in await asyncio.gather(first, *later)][1:] == [
                ["a"]
            ] * 10
            assert bench.host.scans == [True, True, True]

    finish(scenario())


def test_scan_for_prepare_replaces_the_periodic_scan(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            bench.host.may_scan.clear()
            lookup = asyncio.create_task(bench.devices.devices(["a"]))
            await bench.until(lambda: len(bench.host.scans) == 2)
            bench.clock.pass_time(RESCAN_S)
            await bench.until(lambda: not bench.clock.asleep())
            bench.host.may_scan.set()
            await lookup
            await bench.clock.until_asleep(RESCAN_S)

            assert bench.host.scans == [True, True]

    finish(scenario())


def test_lookup_before_the_start_waits_for_the_first_scan(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scenario() -> None:
        lookup = asyncio.create_task(bench.devices.devices(["a"]))
        await asyncio.sleep(0)
        async with bench.running():
            assert list(await lookup) == ["a"]

    finish(scenario())


# --------------------------------------------------------------------------- health


def test_health_is_reported_at_once_and_then_only_after_a_change(bench: Bench) -> None:
    bench.host.add_nic("eth1", PF)

    async def scenario() -> None:
        assert await bench.devices.health(None) == HealthReport(0, ())
        async with bench.running():
            first = await bench.devices.health(0)
            assert [(device.pool, device.device, device.healthy) for device in first.devices] == [
                ("node-1", PCI, True)
            ]
            waiting = [asyncio.create_task(bench.devices.health(first.number)) for _ in range(3)]
            bench.host.announce()
            await bench.settle()
            assert (await bench.devices.health(None)) == first
            assert not any(task.done() for task in waiting)

            bench.host.unplug("eth1")
            await bench.settle()
            for pod in waiting:
                report = await pod
                assert report.number == first.number + 1
                assert report.devices[0].healthy is False

    finish(scenario())


@pytest.mark.parametrize("all_rdma", [True, False], ids=["shared", "exclusive"])
def test_function_with_missing_rdma_device_is_tainted_until_it_returns(
    bench: Bench, *, all_rdma: bool
) -> None:
    ports = (RdmaPortFacts(1, "ACTIVE", link_layer="Ethernet", netdevs=("eth1",)),)
    rdma = (RdmaDeviceFacts("mlx5_0", "pci", PF, PF, ports=ports),)
    whole = HostFacts((function(),), (nic("eth1"),), rdma, all_rdma=all_rdma)
    bench.host.facts = whole

    async def scenario() -> None:
        async with bench.running():
            assert (await bench.device(PCI)).rdma_devices == ("mlx5_0",)
            assert bench.taints() == {}
            bench.host.facts = replace(whole, rdma=())
            await bench.rest(RESCAN_S)
            assert bench.taints() == {PCI: NO_RDMA}
            assert (await bench.device(PCI)).rdma_devices == ("mlx5_0",), (
                "the device is expected back"
            )
            bench.host.facts = replace(whole, rdma=(replace(rdma[0], name="mlx5_5"),))
            await bench.rest(RESCAN_S)
            assert bench.taints() == {}
            assert (await bench.device(PCI)).rdma_devices == ("mlx5_5",)

    finish(scenario())


def test_function_without_rdma_is_not_tainted(bench: Bench) -> None:
    bench.host.facts = HostFacts((function(),), (nic("eth1"),))

    async def scenario() -> None:
        async with bench.running():
            await bench.rest(RESCAN_S)
            assert bench.taints() == {}
            assert (await bench.device(PCI)).rdma_devices == ()

    finish(scenario())
