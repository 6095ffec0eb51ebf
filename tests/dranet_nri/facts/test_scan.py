"""Scans of recorded sysfs trees: devices, exclusions, NUMA nodes."""

from pathlib import Path

import pytest

from dranet_nri.facts.links import HostLink
from dranet_nri.facts.scan import LinkCache, host_facts
from dranet_nri.inventory import Inventory, inventory_from_facts
from dranet_nri.model import Address, DefaultRoute, Device, Link
from tests.fakes.sysfs import FakeSysfs

pytestmark = pytest.mark.process


def inventory_of(
    root: Path,
    *links: Link,
    addresses: dict[int, tuple[Address, ...]] | None = None,
    uplink: int = 0,
) -> Inventory:
    routes = (DefaultRoute(4, 0, (uplink,)),) if uplink else ()
    observed = {link.index: HostLink(link) for link in links}
    return inventory_from_facts(host_facts(root, LinkCache(observed, addresses or {}), routes))


def by_name(inventory: Inventory) -> dict[str, Device]:
    return {device.name: device for device in inventory.devices}


def test_vfs_on_two_sockets_have_their_numa_node_and_root_complex(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path, numa_nodes=2)
    for node, bus, root in ((0, "3b", "pci0000:3a"), (1, "af", "pci0000:ae")):
        physical = f"0000:{bus}:00.0"
        host.pci(physical, root=root, numa=node, vf_limit=7, vf_count=1)
        host.pci(f"0000:{bus}:10.0", root=root, numa=node, driver="igbvf", physical=physical)
        host.net(f"pf{node}", ("pci", physical))
        host.net(f"vf{node}", ("pci", f"0000:{bus}:10.0"), speed=1000)
    places = (("pf0", "3b:00.0"), ("vf0", "3b:10.0"), ("pf1", "af:00.0"), ("vf1", "af:10.0"))
    links = [
        Link(index, name, carrier=True, bus="pci", parent=f"0000:{slot}")
        for index, (name, slot) in enumerate(places, start=2)
    ]

    devices = by_name(inventory_of(tmp_path, *links, uplink=2))

    assert list(devices) == ["pci-0000-3b-10-0", "pci-0000-af-00-0", "pci-0000-af-10-0"]
    vf = devices["pci-0000-af-10-0"]
    assert vf.attribute("resource.kubernetes.io/numaNode") == 1
    assert vf.attribute("dra.net/numaNode") == 1
    assert vf.attribute("resource.kubernetes.io/pcieRoot") == "pci0000:ae"
    assert vf.attribute("dra.net/isSriovVf") is True
    assert vf.attribute("dra.net/linkSpeed") == 1000
    assert vf.attribute("dra.net/virtual") is False
    assert devices["pci-0000-af-00-0"].attribute("dra.net/sriovVfs") == 1


def test_wireless_interface_is_excluded_by_kernels_that_do_not_report_it(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    for name, address in (("wlan0", "0000:00:04.0"), ("eth1", "0000:00:05.0")):
        host.pci(address)
        host.net(name, ("pci", address))
    (tmp_path / "class/net/wlan0/phy80211").symlink_to("../../ieee80211/phy0")

    inventory = inventory_of(
        tmp_path,
        Link(2, "wlan0", bus="pci", parent="0000:00:04.0"),
        Link(3, "eth1", bus="pci", parent="0000:00:05.0"),
    )

    assert list(by_name(inventory)) == ["pci-0000-00-05-0"]
    assert inventory.excluded == (
        ("pci-0000-00-04-0", "wlan0: the kernel does not let it leave its network namespace"),
    )


def test_virtio_nic_is_one_device_with_its_function(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci("0000:00:03.0", driver="virtio-pci", ids="1af4:1041:1100")
    host.child("virtio", "virtio1", ("pci", "0000:00:03.0"))
    link = Link(2, "eth1", bus="virtio", parent="virtio1")

    (device,) = inventory_of(tmp_path, link, addresses={2: (Address("192.0.2.1/24"),)}).devices

    assert device.name == "pci-0000-00-03-0"
    assert (device.key.bus, device.key.parent) == ("virtio", "virtio1")
    assert device.attribute("dra.net/ipv4") == "192.0.2.1/24"
    assert device.attribute("dra.net/driver") == "virtio-pci"
    assert device.attribute("dra.net/pciSubsystem") == "1100"


def test_rdma_only_devices_of_any_pci_class_are_published(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci("0000:00:05.0", base_class="00", driver="erdma", ids="1ded:107f:107f")
    host.rdma("erdma_0", ("pci", "0000:00:05.0"), layers=("Ethernet",), node_type="4: RNIC")
    host.pci("0101:00:00.0", driver="mlx5_core", ids="15b3:101e:0000", root="VMBUS:00/pci0101:00")
    host.rdma("mlx5_0", ("pci", "0101:00:00.0"))

    devices = by_name(inventory_of(tmp_path))

    assert list(devices) == ["pci-0000-00-05-0", "pci-0101-00-00-0"]
    assert devices["pci-0000-00-05-0"].rdma_devices == ("erdma_0",)
    assert devices["pci-0101-00-00-0"].attribute("dra.net/ibLinkLayer") == "InfiniBand"
    assert devices["pci-0101-00-00-0"].attribute("resource.kubernetes.io/pcieRoot") == "pci0101:00"


def test_vf_on_hyper_v_is_excluded_beside_its_synthetic_nic(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.device("vmbus", "f8615163-0001", "LNXSYSTM:00/VMBUS:00")
    host.pci("0002:00:02.0", driver="mlx5_core", root="LNXSYSTM:00/VMBUS:00/pci0002:00")
    synthetic = Link(2, "eth1", bus="vmbus", parent="f8615163-0001")
    behind = Link(3, "enP2s1", master=2, bus="pci", parent="0002:00:02.0")

    inventory = inventory_of(tmp_path, synthetic, behind)

    assert [device.name for device in inventory.devices] == ["eth1"]
    assert inventory.excluded == (
        ("pci-0002-00-02-0", "enP2s1: the VF behind eth1: Hyper-V shows one NIC as two"),
    )


def test_uplink_without_a_sysfs_entry_is_excluded(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci("0000:00:03.0", driver="virtio-pci")
    host.child("virtio", "virtio1", ("pci", "0000:00:03.0"))

    inventory = inventory_of(tmp_path, Link(2, "eth0", bus="virtio", parent="virtio1"), uplink=2)

    assert inventory.devices == ()


def test_net_device_on_another_function_gets_the_rdma_device(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci("0000:00:05.0", base_class="00", driver="erdma", ids="1ded:107f:107f")
    host.rdma(
        "erdma_0",
        ("pci", "0000:00:05.0"),
        layers=("Ethernet",),
        gids=("eth1",),
        node_type="4: RNIC",
    )
    host.pci("0000:00:06.0", driver="virtio-pci")
    host.child("virtio", "virtio3", ("pci", "0000:00:06.0"))

    devices = by_name(inventory_of(tmp_path, Link(2, "eth1", bus="virtio", parent="virtio3")))

    for device in devices.values():
        assert device.rdma_devices == ("erdma_0",)
        assert device.attribute("dra.net/rdmaProtocol") == "iw"
        assert device.attribute("dra.net/rdmaDeviceShared") is True
    assert list(devices) == ["pci-0000-00-05-0", "pci-0000-00-06-0"]


def test_efa_device_is_published_without_a_known_link_layer(
    tmp_path: Path,
) -> None:
    host = FakeSysfs(tmp_path)
    host.pci("0000:10:1b.0", driver="efa", ids="1d0f:efa1:efa1")
    host.rdma("efa_0", ("pci", "0000:10:1b.0"), layers=("Unknown",), node_type="7: unspecified")

    (device,) = inventory_of(tmp_path).devices

    assert device.name == "pci-0000-10-1b-0"
    assert device.attribute("dra.net/rdma") is True
    assert device.attribute("dra.net/ibLinkLayer") == "Unknown"
    assert device.attribute("dra.net/rdmaProtocol") is None


def test_near_numa_nodes_are_read_from_distances_and_sockets(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path, numa_nodes=3)
    for node, distances, cpus in (
        (0, "10 12 12", "0-1,8"),
        (1, "12 10 12", "2"),
        (2, "12 12 10", "4"),
    ):
        host.write(f"devices/system/node/node{node}/distance", distances)
        host.write(f"devices/system/node/node{node}/cpulist", cpus)
    for cpu, socket in ((0, 0), (2, 0), (4, 1)):
        host.write(f"devices/system/cpu/cpu{cpu}/topology/physical_package_id", str(socket))

    facts = host_facts(tmp_path, LinkCache(), ())

    assert (facts.numa_nodes, facts.numa_near) == (3, ((0, 1), (1, 0), (2,)))


def test_numa_node_without_cpus_has_no_socket_and_missing_numa_facts_are_accepted(
    tmp_path: Path,
) -> None:
    host = FakeSysfs(tmp_path, numa_nodes=2)
    for node, distances, cpus in ((0, "10 80", "0-3"), (1, "80 10", "")):
        host.write(f"devices/system/node/node{node}/distance", distances)
        host.write(f"devices/system/node/node{node}/cpulist", cpus)

    none = host_facts(tmp_path / "none", LinkCache(), ())

    assert host_facts(tmp_path, LinkCache(), ()).numa_near == ((0, 1), (1, 0))
    assert (none.numa_nodes, none.numa_near) == (1, ())
