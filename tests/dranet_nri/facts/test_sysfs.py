"""Facts of PCI functions and net devices in sysfs."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.facts.sysfs import NetParent, net_parent, numa_near, pci_addresses, pci_functions
from dranet_nri.inventory import PciFunction
from dranet_nri.linux.dirfd import DirFd
from dranet_nri.model import Link
from tests.dranet_nri.state.directories import no_descriptors
from tests.fakes.sysfs import FakeSysfs

pytestmark = pytest.mark.process


PF = "0000:8a:00.0"


def parent_of(root: Path, link: Link) -> NetParent:
    with DirFd(root) as folder:
        return net_parent(folder, link)


def test_facts_of_a_physical_function_and_a_vf_are_read(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path, numa_nodes=2)
    host.pci(
        PF,
        driver="mlx5_core",
        ids="15b3:1021:0240",
        root="pci0000:89",
        numa=1,
        vf_limit=8,
        vf_count=1,
    )
    host.pci("0000:8a:00.1", driver="mlx5_core", ids="15b3:101e:a2f0", numa=1, physical=PF)

    physical, virtual = pci_functions(tmp_path)

    assert physical == PciFunction(
        PF,
        "mlx5_core",
        numa_node=1,
        root="pci0000:89",
        subsystem="0240",
        vf_limit=8,
        vf_count=1,
        parent=PF,
    )
    assert (virtual.physical, virtual.vf_limit, virtual.subsystem) == (PF, 0, "a2f0")


def test_only_network_functions_and_requested_ones_are_returned(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci("0000:01:00.0", base_class="03", driver="nvidia")
    host.pci("0000:02:00.0", base_class="00", driver="erdma")
    host.pci("0000:03:00.0")

    functions = pci_functions(tmp_path, also=("0000:02:00.0", "0000:09:00.0"))

    assert [function.address for function in functions] == ["0000:02:00.0", "0000:03:00.0"]


def test_function_without_a_driver_or_with_invalid_files_is_read(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci(PF, driver="", root="platform/soc/pci0001:00")
    (tmp_path / "bus/pci/devices" / PF / "numa_node").write_text("none of your business\n")

    (function,) = pci_functions(tmp_path)

    assert (function.driver, function.numa_node, function.root) == ("", -1, "pci0001:00")


def test_function_with_an_invalid_modalias_is_omitted(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci(PF)
    (tmp_path / "bus/pci/devices" / PF / "modalias").write_text("of:Nethernet\n")

    assert pci_functions(tmp_path) == ()


def test_virtio_device_below_a_function_is_the_parent_of_its_net_device(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci("0000:00:03.0", driver="virtio-pci")
    host.child("virtio", "virtio12", ("pci", "0000:00:03.0"))
    host.pci("0000:00:04.0", driver="virtio-pci")

    with_child, without = pci_functions(tmp_path)

    assert (with_child.bus, with_child.parent) == ("virtio", "virtio12")
    assert (without.bus, without.parent) == ("pci", "0000:00:04.0")


def test_pci_names_are_looked_up_once_for_the_chosen_functions(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci("0000:01:00.0", base_class="03", ids="10de:2330:0000")
    host.pci("0000:02:00.0", ids="8086:10ED:0000")
    host.pci("0000:03:00.0", ids="1af4:1041:0000")
    requested: list[frozenset[tuple[str, str]]] = []

    def lookup(ids: frozenset[tuple[str, str]]) -> Mapping[tuple[str, str], tuple[str, str]]:
        requested.append(ids)
        return {("8086", "10ed"): ("Intel Corporation", "82599 Virtual Function")}

    known, unknown = pci_functions(tmp_path, names=lookup)

    assert requested == [{("8086", "10ed"), ("1af4", "1041")}]
    assert (known.vendor_name, known.device_name) == (
        "Intel Corporation",
        "82599 Virtual Function",
    )
    assert (unknown.vendor_name, unknown.device_name) == ("unknown", "unknown")


def test_host_without_pci_has_no_functions(tmp_path: Path) -> None:
    assert pci_functions(tmp_path / "nothing") == ()
    assert pci_addresses(tmp_path / "nothing") == frozenset()


def test_net_device_directly_below_a_function_has_it_as_parent(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci(PF)
    host.net("eth1", ("pci", PF), dev_port=1, speed=25000)

    link = Link(3, "eth1", carrier=True, bus="pci", parent=PF)

    assert parent_of(tmp_path, link) == NetParent(
        "pci", PF, PF, virtual=False, dev_port=1, speed_mbps=25000
    )


def test_unknown_speed_is_zero(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci(PF)
    host.net("eth1", ("pci", PF), speed=-1)
    host.net("eth2", ("pci", PF), speed=25000)

    no_speed = Link(3, "eth1", carrier=True, bus="pci", parent=PF)
    no_carrier = Link(4, "eth2", carrier=False, bus="pci", parent=PF)

    assert parent_of(tmp_path, no_speed).speed_mbps == 0
    assert parent_of(tmp_path, no_carrier).speed_mbps == 0


def test_net_device_below_virtio_has_its_function_without_a_sysfs_entry(
    tmp_path: Path,
) -> None:
    host = FakeSysfs(tmp_path)
    host.pci("0000:00:03.0", driver="virtio-pci")
    host.child("virtio", "virtio1", ("pci", "0000:00:03.0"))

    found = parent_of(tmp_path, Link(3, "eth1", bus="virtio", parent="virtio1"))

    assert (found.pci, found.virtual) == ("0000:00:03.0", False)


def test_parent_is_read_from_the_class_directory_without_netlink_information(
    tmp_path: Path,
) -> None:
    host = FakeSysfs(tmp_path)
    host.pci("0000:00:03.0", driver="virtio-pci")
    host.child("virtio", "virtio1", ("pci", "0000:00:03.0"))
    host.net("eth1", ("virtio", "virtio1"), mac="02:00:00:00:00:01")

    found = parent_of(tmp_path, Link(3, "eth1", mac="02:00:00:00:00:01"))

    assert (found.bus, found.parent, found.pci) == ("virtio", "virtio1", "0000:00:03.0")


def test_link_of_the_same_name_in_another_namespace_is_not_used(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci(PF)
    host.net("eth1", ("pci", PF), mac="02:00:00:00:00:01")

    assert parent_of(tmp_path, Link(3, "eth1", mac="02:00:00:00:00:02")) == NetParent(virtual=True)
    assert parent_of(tmp_path, Link(3, "eth1")) == NetParent(virtual=True)


def test_hyper_v_nic_has_a_parent_and_no_function(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.device("vmbus", "f8615163-0001", "LNXSYSTM:00/VMBUS:00")

    found = parent_of(tmp_path, Link(3, "eth1", bus="vmbus", parent="f8615163-0001"))

    assert (found.bus, found.parent, found.pci) == ("vmbus", "f8615163-0001", "")
    assert not found.virtual


def test_link_without_a_parent_is_virtual(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.net("dummy0", mac="02:00:00:00:00:01")

    assert parent_of(tmp_path, Link(3, "dummy0", mac="02:00:00:00:00:01")) == NetParent(
        virtual=True
    )
    assert parent_of(tmp_path, Link(4, "gone", mac="02:00:00:00:00:01")) == NetParent(virtual=True)


def test_link_below_a_virtual_parent_is_virtual(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.device("hwsim", "hwsim0", "virtual")

    assert parent_of(tmp_path, Link(3, "wlan0", bus="hwsim", parent="hwsim0")).virtual


@pytest.mark.parametrize("nodes", [1, 2, 8])
def test_numa_nodes_are_counted_by_their_directories(tmp_path: Path, nodes: int) -> None:
    FakeSysfs(tmp_path, numa_nodes=nodes)

    assert numa_near(tmp_path) == tuple((node,) for node in range(nodes))


def test_kernel_without_numa_has_no_near_nodes(tmp_path: Path) -> None:
    assert numa_near(tmp_path / "nothing") == ()


def test_unreadable_files_are_empty(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes").write_bytes(b"\xff\n")

    with DirFd(tmp_path) as folder:
        assert folder.text("folder") == ""  # reading a directory fails after opening it
        assert folder.text("missing") == ""
        assert folder.text("bytes") == "\ufffd"
        assert folder.target("folder") == ""
        assert folder.names("bytes") == []
        assert folder.number("missing", 7) == 7


def test_exhausted_descriptors_raise_an_error_instead_of_an_empty_host(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci(PF)

    with DirFd(tmp_path) as folder, no_descriptors():
        for read in (folder.names, folder.text, folder.number):
            with pytest.raises(KernelError, match="read sysfs: EMFILE"):
                read("bus/pci/devices")
        with pytest.raises(KernelError, match="read sysfs: EMFILE"):
            DirFd(tmp_path)
        assert folder.target(f"bus/pci/devices/{PF}")
