"""When a node's devices are looked at, and what is offered, known and told after each look."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from dra_shim.cel import SelectorError
from dra_shim.discovery import DeviceRecovered, DevicesChanged, DeviceSelection, DeviceUnhealthy
from dra_shim.discovery.schedule import LONGEST_S, QUIET_S
from dra_shim.pool import NO_CARRIER, NO_RDMA, HealthReport
from dranet_nri.component.files import KernelFileSystem
from dranet_nri.inventory import HostFacts, RdmaDeviceFacts, RdmaPortFacts
from dranet_nri.state import tcx
from tests.dra_shim.discovery.node_bench import RESCAN_S, Bench, facts_with
from tests.dra_shim.resourceslice.pools import function, nic
from tests.dranet_nri.nri.stub.plugin_bench import finish

pytestmark = pytest.mark.process


PF = "0000:8a:00.0"
PCI = "pci-0000-8a-00-0"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# --------------------------------------------------------------------------- when


def test_everything_is_offered_at_once_and_told_by_name(bench: Bench) -> None:
    bench.host.add_nic("a")
    bench.host.add_nic("b")

    async def scene() -> None:
        async with bench.running():
            assert bench.offers == [["a", "b"]]
            assert bench.host.looks == [True]
            assert bench.notices == [DevicesChanged(2, 0, ("a", "b"), ())]

    finish(scene())


def test_programs_that_the_plugin_tells_of_are_published(bench: Bench) -> None:
    bench.host.add_nic("a")
    bench.host.add_nic("b")
    (index, _) = [netdev.link.index for netdev in bench.host.facts.netdevs]
    bench.state.run.mkdir()

    async def scene() -> None:
        async with bench.running():
            assert dict((await bench.device("a")).attributes)["dra.net/ebpf"] is False
            seen = tcx.PrivilegedFacts({index: ("count",)})
            tcx.store(KernelFileSystem(), bench.state.run, tcx.encoded(seen))
            await bench.rest(RESCAN_S)
            told = dict((await bench.device("a")).attributes)
            assert (told["dra.net/ebpf"], told["dra.net/tcxProgramNames"]) == (True, "count")
            assert dict((await bench.device("b")).attributes)["dra.net/ebpf"] is False

    finish(scene())


def test_a_node_with_nothing_offers_nothing_instead_of_keeping_silent(bench: Bench) -> None:
    async def scene() -> None:
        async with bench.running():
            assert bench.offers == [[]]
            assert bench.notices == []

    finish(scene())


def test_news_are_looked_at_when_no_more_come(bench: Bench) -> None:
    async def scene() -> None:
        async with bench.running():
            bench.host.add_nic("a")
            await bench.clock.until_asleep(QUIET_S)
            bench.clock.pass_time(QUIET_S / 2)
            bench.host.add_nic("b")
            bench.clock.pass_time(QUIET_S / 2)
            await bench.clock.until_asleep(QUIET_S / 2)
            assert bench.offers == [[]]

            await bench.rest(QUIET_S / 2)

            assert bench.offers == [[], ["a", "b"]]
            assert bench.host.looks == [True, False]

    finish(scene())


def test_news_that_never_end_are_looked_at_all_the_same(bench: Bench) -> None:
    async def scene() -> None:
        async with bench.running():
            start = bench.clock()
            while len(bench.offers) == 1:
                bench.host.announce()
                await asyncio.sleep(0.002)
                bench.clock.pass_time(QUIET_S / 2)
                await asyncio.sleep(0.002)
            assert bench.clock() - start <= LONGEST_S + QUIET_S

    finish(scene())


def test_what_nobody_announced_is_found_after_a_minute(bench: Bench) -> None:
    async def scene() -> None:
        async with bench.running():
            bench.host.facts = facts_with("a")

            await bench.rest(RESCAN_S)

            assert bench.offers == [[], ["a"]]
            assert bench.host.looks == [True, True]

    finish(scene())


def test_what_is_announced_while_it_looks_is_looked_at_next(bench: Bench) -> None:
    async def scene() -> None:
        async with bench.running():
            bench.host.may_look.clear()
            bench.host.add_nic("a")
            await bench.clock.until_asleep(QUIET_S)
            bench.clock.pass_time(QUIET_S)
            await bench.until(lambda: len(bench.host.looks) == 2)
            bench.host.add_nic("b")
            bench.host.may_look.set()
            await bench.until(lambda: len(bench.offers) == 2)
            await bench.settle()

            assert bench.offers == [[], ["a"], ["a", "b"]]

    finish(scene())


def test_an_expression_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(SelectorError):
        Bench(tmp_path, DeviceSelection(filter="attributes["))


# --------------------------------------------------------------------------- what becomes different


def test_a_device_that_is_gone_is_withdrawn_and_told(bench: Bench) -> None:
    bench.host.add_nic("a")
    bench.host.add_nic("eth1", PF)

    async def scene() -> None:
        async with bench.running():
            bench.host.remove_function(PF)
            await bench.settle()

            assert bench.offers[-1] == ["a"]
            assert bench.notices[-1] == DevicesChanged(1, 0, (), ((PCI, "missing on the node"),))

    finish(scene())


def test_a_device_that_becomes_the_uplink_is_withdrawn_with_the_reason(bench: Bench) -> None:
    bench.host.add_nic("a")
    bench.host.add_nic("b")

    async def scene() -> None:
        async with bench.running():
            bench.host.route_through("a")
            await bench.settle()
            why = "the node's default route goes through it"
            assert bench.notices[-1] == DevicesChanged(1, 0, (), (("a", why),))

            bench.host.route_through("b")
            await bench.settle()
            assert bench.offers[-1] == ["a"]

    finish(scene())


def test_a_device_that_ails_is_tainted_until_it_recovers(bench: Bench) -> None:
    bench.host.add_nic("eth1", PF)
    plugged = bench.host.facts

    async def scene() -> None:
        async with bench.running():
            bench.host.unplug("eth1")
            await bench.settle()
            assert bench.ailing() == {PCI: NO_CARRIER}
            assert bench.said(DeviceUnhealthy) == [DeviceUnhealthy(PCI, NO_CARRIER)]

            bench.host.announce()
            await bench.settle()
            assert bench.said(DeviceUnhealthy) == [DeviceUnhealthy(PCI, NO_CARRIER)]

            bench.host.facts = plugged
            bench.host.announce()
            await bench.settle()
            assert bench.ailing() == {}
            assert bench.said(DeviceRecovered) == [DeviceRecovered(PCI)]

    finish(scene())


# --------------------------------------------------------------------------- Prepare asks


def test_a_device_that_is_known_costs_no_look(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scene() -> None:
        async with bench.running():
            found = await bench.devices.devices(["a"])

            assert list(found) == ["a"]
            assert bench.host.looks == [True]

    finish(scene())


def test_a_device_that_the_filter_dropped_since_it_was_allocated_is_known(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path, DeviceSelection(filter='attributes["dra.net/state"].StringValue != "down"')
    )
    bench.host.add_nic("a")
    (netdev,) = bench.host.facts.netdevs
    down = replace(netdev, link=replace(netdev.link, up=False, carrier=False, operstate="down"))

    async def scene() -> None:
        async with bench.running():
            assert bench.offers == [["a"]]
            bench.host.facts = replace(bench.host.facts, netdevs=(down,))
            await bench.rest(RESCAN_S)
            assert bench.offers[-1] == []

            assert list(await bench.devices.devices(["a"])) == ["a"]
            assert len(bench.host.looks) == 2, "known, so that it costs no look"

    finish(scene())


def test_for_a_name_that_is_not_known_everything_is_looked_at_once_more(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scene() -> None:
        async with bench.running():
            bench.host.facts = facts_with("late")

            found = await bench.devices.devices(["late", "never"])

            assert list(found) == ["late"]
            assert bench.host.looks == [True, True]
            assert bench.offers[-1] == ["late"]

    finish(scene())


def test_many_who_ask_at_once_share_a_look_that_begins_after_they_asked(bench: Bench) -> None:
    async def scene() -> None:
        async with bench.running():
            bench.host.may_look.clear()
            first = asyncio.create_task(bench.devices.devices(["a"]))
            await bench.until(lambda: len(bench.host.looks) == 2)
            later = [asyncio.create_task(bench.devices.devices(["a"])) for _ in range(10)]
            await asyncio.sleep(0)
            bench.host.add_nic("a")
            bench.host.may_look.set()

            assert [list(found) for found in await asyncio.gather(first, *later)][1:] == [
                ["a"]
            ] * 10
            assert bench.host.looks == [True, True, True]

    finish(scene())


def test_a_look_for_prepare_serves_as_the_one_that_was_due(bench: Bench) -> None:
    async def scene() -> None:
        async with bench.running():
            bench.host.may_look.clear()
            asked = asyncio.create_task(bench.devices.devices(["a"]))
            await bench.until(lambda: len(bench.host.looks) == 2)
            bench.clock.pass_time(RESCAN_S)
            await bench.until(lambda: not bench.clock.asleep())
            bench.host.may_look.set()
            await asked
            await bench.clock.until_asleep(RESCAN_S)

            assert bench.host.looks == [True, True]

    finish(scene())


def test_who_asks_before_it_runs_waits_for_the_first_look(bench: Bench) -> None:
    bench.host.add_nic("a")

    async def scene() -> None:
        asked = asyncio.create_task(bench.devices.devices(["a"]))
        await asyncio.sleep(0)
        async with bench.running():
            assert list(await asked) == ["a"]

    finish(scene())


# --------------------------------------------------------------------------- health


def test_health_is_said_at_once_and_again_only_when_it_is_another(bench: Bench) -> None:
    bench.host.add_nic("eth1", PF)

    async def scene() -> None:
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

    finish(scene())


@pytest.mark.parametrize("all_rdma", [True, False], ids=["shared", "exclusive"])
def test_a_function_whose_rdma_device_is_gone_is_kept_from_pods_until_it_is_back(
    bench: Bench, *, all_rdma: bool
) -> None:
    ports = (RdmaPortFacts(1, "ACTIVE", link_layer="Ethernet", netdevs=("eth1",)),)
    rdma = (RdmaDeviceFacts("mlx5_0", "pci", PF, PF, ports=ports),)
    whole = HostFacts((function(),), (nic("eth1"),), rdma, all_rdma=all_rdma)
    bench.host.facts = whole

    async def scene() -> None:
        async with bench.running():
            assert (await bench.device(PCI)).rdma_devices == ("mlx5_0",)
            assert bench.ailing() == {}
            bench.host.facts = replace(whole, rdma=())
            await bench.rest(RESCAN_S)
            assert bench.ailing() == {PCI: NO_RDMA}
            assert (await bench.device(PCI)).rdma_devices == ("mlx5_0",), "it is waited for"
            bench.host.facts = replace(whole, rdma=(replace(rdma[0], name="mlx5_5"),))
            await bench.rest(RESCAN_S)
            assert bench.ailing() == {}
            assert (await bench.device(PCI)).rdma_devices == ("mlx5_5",)

    finish(scene())


def test_a_function_that_never_had_rdma_is_not_missing_any(bench: Bench) -> None:
    bench.host.facts = HostFacts((function(),), (nic("eth1"),))

    async def scene() -> None:
        async with bench.running():
            await bench.rest(RESCAN_S)
            assert bench.ailing() == {}
            assert (await bench.device(PCI)).rdma_devices == ()

    finish(scene())
