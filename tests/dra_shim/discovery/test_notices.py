"""Notices of excluded devices: first report, changes, and devices that are only counted."""

from pathlib import Path

import pytest

from dra_shim.discovery import DevicesChanged, DeviceSelection, DevicesExcluded
from tests.dra_shim.discovery.node_bench import RESCAN_S, Bench
from tests.dranet_nri.nri.stub.plugin_bench import finish

pytestmark = pytest.mark.process


PF = "0000:8a:00.0"
PCI = "pci-0000-8a-00-0"
OTHER_PF = "0000:8b:00.0"
OTHER = "pci-0000-8b-00-0"
NO_VIRTUAL = '"dra.net/pciAddress" in attributes'  # as the default filter drops veths


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        (DeviceSelection(filter="", exclude=("x*", "eth*")), "dropped by --exclude eth*"),
        (DeviceSelection(filter="", include=("mlx5_*",)), "dropped by --include"),
        (DeviceSelection(filter="false"), "dropped by --filter"),
    ],
    ids=["exclude", "include", "filter"],
)
def test_hardware_dropped_by_a_flag_is_reported_once_by_the_first_scan(
    tmp_path: Path, choice: DeviceSelection, reason: str
) -> None:
    bench = Bench(tmp_path, choice)
    bench.host.add_nic("eth1", PF)
    bench.host.add_nic("eth2", OTHER_PF)

    async def scenario() -> None:
        async with bench.running():
            assert bench.notices == [DevicesExcluded(reason, (PCI, OTHER))]

            bench.host.announce()
            await bench.settle()
            await bench.rest(RESCAN_S)
            assert len(bench.notices) == 1

    finish(scenario())


def test_hardware_with_an_address_of_the_node_is_reported(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.host.add_nic("eth1", PF)
    bench.host.add_nic("eth2", OTHER_PF)
    bench.host.give("eth1", "10.0.0.5/24")
    bench.addresses.node_addresses = frozenset({"10.0.0.5"})

    async def scenario() -> None:
        async with bench.running():
            assert bench.notices_of(DevicesExcluded) == [
                DevicesExcluded("eth1: it has the Node's address 10.0.0.5", (PCI,))
            ]
            assert bench.published == [[OTHER]]

    finish(scenario())


def test_changed_reason_of_exclusion_is_reported(tmp_path: Path) -> None:
    bench = Bench(tmp_path, DeviceSelection(filter="", exclude=("eth1",)))
    bench.host.add_nic("eth1", PF)

    async def scenario() -> None:
        async with bench.running():
            bench.host.route_through("eth1")
            await bench.settle()

            uplink = DevicesExcluded("eth1: the node's default route goes through it", (PCI,))
            assert bench.notices_of(DevicesExcluded) == [
                DevicesExcluded("dropped by --exclude eth1", (PCI,)),
                uplink,
            ]

    finish(scenario())


def test_excluded_hardware_that_is_added_later_is_reported(tmp_path: Path) -> None:
    bench = Bench(tmp_path, DeviceSelection(filter="", exclude=("eth*",)))
    bench.host.add_nic("eth1", PF)

    async def scenario() -> None:
        async with bench.running():
            bench.host.add_nic("eth2", OTHER_PF)
            await bench.settle()

            cause = "dropped by --exclude eth*"
            assert bench.notices_of(DevicesExcluded) == [
                DevicesExcluded(cause, (PCI,)),
                DevicesExcluded(cause, (OTHER,)),
            ]

    finish(scenario())


def test_withdrawn_device_is_not_also_reported_as_excluded(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.host.add_nic("eth1", PF)

    async def scenario() -> None:
        async with bench.running():
            bench.host.route_through("eth1")
            await bench.settle()
            bench.host.announce()
            await bench.settle()

            cause = "eth1: the node's default route goes through it"
            assert bench.notices == [
                DevicesChanged(1, 0, (PCI,), ()),
                DevicesChanged(0, 0, (), ((PCI, cause),)),
            ]

    finish(scenario())


def test_excluded_virtual_devices_are_counted_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, DeviceSelection(filter=NO_VIRTUAL))
    for number in range(300):
        bench.host.add_nic(f"veth{number}")

    async def scenario() -> None:
        async with bench.running():
            assert bench.notices == [DevicesExcluded("dropped by --filter", (), virtual=300)]

            bench.host.add_nic("veth300")
            bench.host.take_link("veth0")
            await bench.settle()
            bench.host.add_nic("eth1", PF)
            await bench.settle()
            assert bench.notices[1:] == [DevicesChanged(1, 0, (PCI,), ())]

    finish(scenario())
