"""Hardware of the virtual machine that the tests require."""

from pathlib import Path

import pytest

from tests.box.smoke import (
    test_cdi_device_without_a_spec_is_refused_until_one_appears,
    test_host_network_pod_has_no_namespace_of_its_own,
    test_pod_lives_and_ends_with_its_own_network,
    test_pods_survive_a_runtime_that_is_killed,
    test_runtime_listens_for_plugins,
)
from tests.box.waiting import wait_until

__all__ = [
    "test_cdi_device_without_a_spec_is_refused_until_one_appears",
    "test_host_network_pod_has_no_namespace_of_its_own",
    "test_pod_lives_and_ends_with_its_own_network",
    "test_pods_survive_a_runtime_that_is_killed",
    "test_runtime_listens_for_plugins",
]

pytestmark = pytest.mark.emulated

IGB = Path("/sys/bus/pci/drivers/igb")


def physical_functions() -> tuple[Path, ...]:
    """Return the PCI devices of the SR-IOV capable NICs, by address."""
    return tuple(sorted(IGB.glob("0000:*")))


def test_eight_nics_are_on_two_numa_nodes() -> None:
    nodes = [int((nic / "numa_node").read_text()) for nic in physical_functions()]

    assert nodes == [0, 0, 0, 0, 1, 1, 1, 1]


def test_uplink_has_the_default_route() -> None:
    routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]

    uplinks = [route[0] for route in routes if route[1] == "00000000"]

    assert len(uplinks) == 1
    address = Path("/sys/class/net", uplinks[0], "address").read_text()
    assert address.strip() == "52:54:00:00:0f:01"


@pytest.mark.parametrize("index", [0, 7], ids=["node-0", "node-1"])
def test_virtual_functions_are_created_and_removed(index: int) -> None:
    nic = physical_functions()[index]

    (nic / "sriov_numvfs").write_text("2")
    wait_until("the VFs to have netdevs", lambda: len(list(nic.glob("virtfn*/net/*"))) == 2)
    nodes = [(function / "numa_node").read_text() for function in nic.glob("virtfn*")]
    (nic / "sriov_numvfs").write_text("0")

    assert nodes == [(nic / "numa_node").read_text()] * 2
    assert list(nic.glob("virtfn*")) == []
