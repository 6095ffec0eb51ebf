"""Inventory from facts: device names, ownership, exclusions and their reasons."""

from dataclasses import replace

import pytest

from dranet_nri.inventory import (
    HostFacts,
    Inventory,
    NetDevice,
    RdmaDeviceFacts,
    RdmaPortFacts,
    inventory_from_facts,
    merge_recorded,
    pci_device_name,
    with_parents,
)
from dranet_nri.inventory.attributes import DROP_ORDER
from dranet_nri.inventory.build import why_invalid
from dranet_nri.model import DEFAULT_FILTER, Address, DefaultRoute, Device, DeviceKey, Link
from tests.dranet_nri.inventory.parts import PF, VF, function, names, nic, one, virtual


def test_nic_is_one_device_with_the_facts_of_function_and_net_device() -> None:
    facts = HostFacts((function(),), (nic("eth1", 3),))

    (device,) = inventory_from_facts(facts).devices

    assert device.name == "pci-0000-8a-00-0"
    assert device.key == DeviceKey("pci", PF, "eth1", PF, 0)
    assert device.attribute("dra.net/ifName") == "eth1"
    assert device.attribute("dra.net/pciAddress") == PF
    assert device.attribute("dra.net/rdma") is False
    assert list(device.attributes) == sorted(device.attributes)


def test_function_with_its_net_device_in_a_pod_keeps_its_own_facts() -> None:
    facts = HostFacts((function(),))

    (device,) = inventory_from_facts(facts).devices

    assert device.key == DeviceKey("pci", PF, "", PF)
    assert device.attribute("dra.net/pciAddress") == PF
    assert device.attribute("dra.net/ifName") is None
    assert device.attribute("dra.net/virtual") is None
    assert device.attribute("dra.net/rdma") is False


def test_virtio_nic_has_the_same_name_with_and_without_its_net_device() -> None:
    virtio = function("0000:00:03.0", "virtio-pci", bus="virtio", parent="virtio1")
    there = nic("eth1", 3, "0000:00:03.0")
    there = replace(there, link=replace(there.link, bus="virtio", parent="virtio1"))

    with_link = inventory_from_facts(HostFacts((virtio,), (there,)))
    without_link = inventory_from_facts(HostFacts((virtio,)))

    assert with_link.devices[0].key == DeviceKey("virtio", "virtio1", "eth1", "0000:00:03.0", 0)
    assert without_link.devices[0].key == DeviceKey("virtio", "virtio1", "", "0000:00:03.0")
    assert with_link.devices[0].name == without_link.devices[0].name == "pci-0000-00-03-0"


def test_virtual_links_are_published_in_order_of_their_names() -> None:
    facts = HostFacts(netdevs=(virtual("wg0", 2, "wireguard"), virtual("Dummy_1", 3)))

    inventory = inventory_from_facts(facts, include=("wg?",))

    assert names(inventory) == ["net-ir2w23lzl4yq", "wg0"]
    assert one(inventory, "wg0").key == DeviceKey("", "", "wg0")
    assert one(inventory, "wg0").attribute("dra.net/virtual") is True


def test_usb_nic_is_identified_by_its_own_parent() -> None:
    usb = NetDevice(Link(2, "enx0", bus="usb", parent="2-1:1.0"), pci="0000:00:14.0")

    (device,) = inventory_from_facts(HostFacts(netdevs=(usb,))).devices

    assert device.key == DeviceKey("usb", "2-1:1.0", "enx0", port=0)
    assert device.attribute("dra.net/pciAddress") is None


def test_function_of_the_uplink_is_excluded_with_the_interface_in_the_reason() -> None:
    facts = HostFacts(
        (function(), function(VF)),
        (nic("eth0", 2), nic("eth1", 3, VF)),
        default_routes=(DefaultRoute(4, 0, (2,)),),
    )

    inventory = inventory_from_facts(facts)

    assert names(inventory) == ["pci-0000-8a-00-1"]
    assert inventory.excluded == (
        ("pci-0000-8a-00-0", "eth0: the node's default route goes through it"),
    )


def test_uplinks_follow_the_current_facts() -> None:
    facts = HostFacts((function(), function(VF)), (nic("eth0", 2), nic("eth1", 3, VF)))

    first = replace(facts, default_routes=(DefaultRoute(4, 0, (2,)),))
    second = replace(facts, default_routes=(DefaultRoute(6, 0, (3,)),))

    assert names(inventory_from_facts(first)) == ["pci-0000-8a-00-1"]
    assert names(inventory_from_facts(second)) == ["pci-0000-8a-00-0"]


def test_nic_below_a_tunnel_of_the_node_is_excluded() -> None:
    tunnel = virtual("tun7", 9, "vxlan")
    tunnel = replace(tunnel, link=replace(tunnel.link, lower=3))
    facts = HostFacts((function(), function(VF)), (nic("eth0", 2), nic("eth1", 3, VF), tunnel))

    assert inventory_from_facts(facts).excluded == (
        ("pci-0000-8a-00-1", "eth1: carries tun7, which the kernel deletes when it leaves"),
    )


def test_reason_of_an_excluded_virtual_link_does_not_repeat_its_name() -> None:
    facts = HostFacts(netdevs=(virtual("cni0", 2, "bridge"), virtual("lo", 1, "", loopback=True)))

    assert inventory_from_facts(facts).excluded == (
        ("cni0", "belongs to the bridge CNI plugin"),
        ("lo", "loopback"),
    )


def test_functions_for_userspace_or_without_a_driver_are_excluded() -> None:
    facts = HostFacts((function(driver=""), function(VF, "vfio-pci")))

    assert inventory_from_facts(facts) == Inventory(
        (),
        (
            ("pci-0000-8a-00-0", "no driver is bound"),
            ("pci-0000-8a-00-1", "bound to vfio-pci for userspace"),
        ),
        frozenset({"pci-0000-8a-00-0", "pci-0000-8a-00-1"}),
    )


def test_physical_function_and_its_vfs_are_separate_devices() -> None:
    facts = HostFacts(
        (function(vf_limit=4, vf_count=1), function(VF, "iavf", physical=PF)),
        (nic("eth1", 3), nic("eth1v0", 4, VF)),
    )

    inventory = inventory_from_facts(facts)

    assert one(inventory, "pci-0000-8a-00-0").attribute("dra.net/sriovVfs") == 1
    assert one(inventory, "pci-0000-8a-00-1").attribute("dra.net/isSriovVf") is True
    assert one(inventory, "pci-0000-8a-00-1").attribute("dra.net/sriov") is False


def test_representors_and_subfunctions_do_not_get_the_name_of_the_function() -> None:
    subfunction = NetDevice(Link(5, "eth1s0", bus="auxiliary", parent="mlx5_core.sf.2"), pci=PF)
    facts = HostFacts(
        (function(driver="mlx5_core"),),
        (
            nic("eth1_0", 2, port_name="pf0vf0"),
            nic("eth1", 4, port_name="p0"),
            subfunction,
        ),
    )

    inventory = inventory_from_facts(facts)

    assert one(inventory, "eth1s0").key == DeviceKey("auxiliary", "mlx5_core.sf.2", "eth1s0", PF, 0)
    assert one(inventory, "eth1s0").attribute("dra.net/sriov") is False
    assert inventory.excluded == (
        ("net-mv2gqmk7ga", "eth1_0: represents pf0vf0 in the NIC's embedded switch"),
        ("pci-0000-8a-00-0", "eth1: carries eth1_0, a representor of the NIC's embedded switch"),
    )


def test_representors_numbered_by_an_old_kernel_are_excluded() -> None:
    facts = HostFacts(
        (function(driver="mlx5_core"),),
        (nic("eth1-0", 2, port_name="0"), nic("eth1", 4)),
    )

    inventory = inventory_from_facts(facts)

    assert inventory.excluded == (
        ("eth1-0", "represents pf0vf0 in the NIC's embedded switch"),
        ("pci-0000-8a-00-0", "eth1: carries eth1-0, a representor of the NIC's embedded switch"),
    )


def test_representors_exclude_no_other_nic() -> None:
    facts = HostFacts(
        (function(driver="mlx5_core"), function(VF, "mlx5_core", physical=PF)),
        (
            nic("eth1-0", 2, port_name="pf0vf0"),
            nic("eth1", 3, port_name="p0"),
            nic("eth1v0", 4, VF),
            virtual("dummy0", 5, "dummy"),
        ),
    )

    assert names(inventory_from_facts(facts)) == ["dummy0", "pci-0000-8a-00-1"]


def test_port_numbered_by_its_driver_is_published() -> None:
    facts = HostFacts((function(),), (nic("eth1", 2, port_name="0"),))

    assert one(inventory_from_facts(facts), "pci-0000-8a-00-0").key.name == "eth1"


def test_child_interface_of_the_same_parent_is_a_separate_device() -> None:
    child = nic("ib0-8001", 3)
    child = replace(child, link=replace(child.link, kind="ipoib", lower=4))
    facts = HostFacts((function(driver="mlx5_core"),), (child, nic("ib0", 4)))

    inventory = inventory_from_facts(facts)

    assert {device.name: device.key.name for device in inventory.devices} == {
        "pci-0000-8a-00-0": "ib0",
        "ib0-8001": "ib0-8001",
    }


def test_two_ports_of_a_function_keep_their_names_while_one_is_in_a_pod() -> None:
    port_0, port_1 = nic("eth1", 3), nic("eth2", 2, dev_port=1)
    dual = function(driver="mlx4_core")

    both = inventory_from_facts(HostFacts((dual,), (port_0, port_1)))
    second_alone = inventory_from_facts(HostFacts((dual,), (port_1,)))

    assert {device.name: (device.key.name, device.key.port) for device in both.devices} == {
        "pci-0000-8a-00-0": ("eth1", 0),
        "pci-0000-8a-00-0-p1": ("eth2", 1),
    }
    assert one(second_alone, "pci-0000-8a-00-0-p1").key.name == "eth2"
    assert one(second_alone, "pci-0000-8a-00-0").key.name == ""


def test_single_port_may_have_any_number() -> None:
    facts = HostFacts((function(driver="sfc"),), (nic("eth1", 3, dev_port=1),))

    assert names(inventory_from_facts(facts)) == ["pci-0000-8a-00-0"]


def test_device_without_a_net_device_has_the_rdma_devices_of_its_function() -> None:
    rdma = RdmaDeviceFacts("erdma_0", "pci", PF, PF)
    facts = HostFacts((function(driver="erdma"),), rdma=(rdma,))

    (device,) = inventory_from_facts(facts).devices

    assert device.rdma_devices == ("erdma_0",)
    assert device.attribute("dra.net/rdmaDevice") == "erdma_0"
    assert device.key == DeviceKey("pci", PF, "", PF)


def test_function_with_two_rdma_devices_publishes_the_first_and_keeps_both() -> None:
    rdma = (RdmaDeviceFacts("mlx5_0", "pci", PF, PF), RdmaDeviceFacts("smi0", "pci", PF, PF))
    facts = HostFacts((function(driver="mlx5_core"),), (nic("ib0", 2),), rdma)

    (device,) = inventory_from_facts(facts).devices

    assert device.rdma_devices == ("mlx5_0", "smi0")
    assert device.attribute("dra.net/rdmaDevice") == "mlx5_0"


def test_rdma_sub_device_follows_its_device_and_is_not_counted() -> None:
    port = RdmaPortFacts(1, "ACTIVE", link_layer="InfiniBand")
    rdma = (
        RdmaDeviceFacts(
            "a_smi", "pci", PF, PF, ports=(RdmaPortFacts(1), RdmaPortFacts(2)), part_of="mlx5_0"
        ),
        RdmaDeviceFacts("mlx5_0", "pci", PF, PF, ports=(port,)),
    )
    facts = HostFacts((function(driver="mlx5_core"),), (), rdma)

    (device,) = inventory_from_facts(facts).devices

    assert device.rdma_devices == ("mlx5_0", "a_smi")
    assert device.attribute("dra.net/ibPortState") == "ACTIVE"
    assert device.attribute("dra.net/rdmaDeviceShared") is None


def test_two_ports_of_one_rdma_device_are_marked_as_shared() -> None:
    ports = (
        RdmaPortFacts(1, "ACTIVE", "1", "InfiniBand"),
        RdmaPortFacts(2, "DOWN", "2", "Ethernet"),
    )
    rdma = RdmaDeviceFacts("mlx4_0", "pci", PF, PF, ports=ports, protocol="ib")
    facts = HostFacts(
        (function(driver="mlx4_core"),), (nic("ib0", 2), nic("eth2", 3, dev_port=1)), (rdma,)
    )

    first, second = inventory_from_facts(facts).devices

    names = ("rdmaPort", "ibPortState", "rdmaProtocol", "rdmaDeviceShared")
    assert [first.attribute(f"dra.net/{name}") for name in names] == [1, "ACTIVE", "ib", True]
    assert [second.attribute(f"dra.net/{name}") for name in names] == [2, "DOWN", "roce", True]


def test_port_beside_the_uplink_shares_its_rdma_device() -> None:
    rdma = RdmaDeviceFacts("mlx4_0", "pci", PF, PF, ports=(RdmaPortFacts(1), RdmaPortFacts(2)))
    facts = HostFacts(
        (function(driver="mlx4_core"),),
        (nic("eth1", 2), nic("eth2", 3, dev_port=1)),
        (rdma,),
        (DefaultRoute(4, 0, (2,)),),
    )

    (device,) = inventory_from_facts(facts).devices

    assert device.name == "pci-0000-8a-00-0-p1"
    assert device.attribute("dra.net/rdmaDeviceShared") is True


def test_representor_does_not_share_the_rdma_device_of_its_function() -> None:
    facts = HostFacts(
        (function(driver="mlx5_core"),),
        (nic("eth1", 2, port_name="p0"), nic("eth1_0", 3, port_name="pf0vf0")),
        (RdmaDeviceFacts("mlx5_0", "pci", PF, PF),),
    )

    (uplink,) = inventory_from_facts(facts, parents=("eth1",)).devices
    assert uplink.attribute("dra.net/rdmaDeviceShared") is None


def test_attributes_are_those_of_the_hardware_before_soft_roce() -> None:
    port = RdmaPortFacts(1, "ACTIVE", link_layer="Ethernet", netdevs=("eth1",))
    rdma = (
        RdmaDeviceFacts("a_rxe", ports=(replace(port, state="DOWN"),)),
        RdmaDeviceFacts("rocep8s0", "pci", PF, PF, ports=(port,)),
    )
    facts = HostFacts((function(driver="mlx5_core"),), (nic("eth1", 2),), rdma)

    (device,) = inventory_from_facts(facts).devices

    assert device.rdma_devices == ("rocep8s0", "a_rxe")
    assert device.attribute("dra.net/rdmaDevice") == "rocep8s0"
    assert device.attribute("dra.net/ibPortState") == "ACTIVE"


def test_rdma_device_with_an_invalid_name_is_excluded() -> None:
    rdma = (RdmaDeviceFacts("two words", "pci", PF, PF), RdmaDeviceFacts("\udcff", "pci", PF, PF))
    reason = "an RDMA device whose name no record takes: rename it with rdma dev set"

    inventory = inventory_from_facts(HostFacts((function(),), rdma=rdma))

    assert inventory.devices[0].rdma_devices == ()
    assert inventory.excluded == (("\\udcff", reason), ("two words", reason))


def test_software_rdma_device_belongs_to_the_link_in_its_gids() -> None:
    rxe = RdmaDeviceFacts(
        "rxe0", ports=(RdmaPortFacts(1, link_layer="Ethernet", netdevs=("eth1",)),)
    )
    facts = HostFacts((function(),), (nic("eth1", 2), virtual("dummy0", 3)), (rxe,))

    inventory = inventory_from_facts(facts)

    assert one(inventory, "pci-0000-8a-00-0").rdma_devices == ("rxe0",)
    assert one(inventory, "dummy0").rdma_devices == ()


def test_virtual_link_may_own_software_rdma_but_not_that_of_the_nic() -> None:
    port = RdmaPortFacts(1, link_layer="Ethernet", netdevs=("eth1", "eth1.5"))
    rdma = (
        RdmaDeviceFacts("mlx5_0", "pci", PF, PF, ports=(port,)),
        RdmaDeviceFacts("rxe0", ports=(replace(port, netdevs=("eth1.5",)),)),
    )
    facts = HostFacts((function(),), (nic("eth1", 2), virtual("eth1.5", 3, "vlan")), rdma)

    inventory = inventory_from_facts(facts)

    assert one(inventory, "net-mv2gqmjogu").rdma_devices == ("rxe0",)
    assert one(inventory, "pci-0000-8a-00-0").rdma_devices == ("mlx5_0",)


def test_rdma_device_without_an_owner_is_excluded() -> None:
    inventory = inventory_from_facts(HostFacts(rdma=(RdmaDeviceFacts("siw0"),)))

    assert inventory == Inventory(
        (), (("siw0", "an RDMA device without a PCI function and without a net device here"),)
    )


def test_rdma_device_of_an_excluded_link_is_listed_once() -> None:
    rdma = RdmaDeviceFacts("mlx5_0", "pci", PF, PF)
    routes = (DefaultRoute(4, 0, (2,)),)

    inventory = inventory_from_facts(HostFacts((function(),), (nic("eth0", 2),), (rdma,), routes))

    assert [name for name, _ in inventory.excluded] == ["pci-0000-8a-00-0"]


def test_second_link_with_the_same_encoded_name_is_excluded() -> None:
    facts = HostFacts(netdevs=(virtual("ETH0", 2), virtual("net-ivkeqma", 3), virtual("d0", 4)))

    inventory = inventory_from_facts(facts)

    assert names(inventory) == ["d0", "net-ivkeqma"]
    assert one(inventory, "net-ivkeqma").key.name == "ETH0"
    assert inventory.excluded == (("net-ivkeqma", "another device has the same name"),)


def fullest(*ports: RdmaPortFacts) -> Device:
    rdma = RdmaDeviceFacts(
        "mlx5_0", "pci", PF, PF, "CA", "0:0:0:1", ports, "0:0:0:2", "28.39.1002", "ib"
    )
    device = nic(
        "eth1",
        2,
        addresses=(Address("10.0.0.1/8"), Address("fd00::1/64")),
        speed_mbps=1,
        tc_filters=("a",),
        tcx_programs=("b",),
    )
    full = function(numa_node=0, root="pci0000:89", vf_limit=1, physical="0000:89:00.0")
    child = replace(device.link, index=3, name="child", kind="ipoib", lower=2)
    facts = HostFacts((full,), (device, replace(device, link=child, addresses=())), (rdma,), (), 2)
    return one(inventory_from_facts(facts), "pci-0000-8a-00-0")


def test_device_with_all_facts_stays_within_the_limit_with_all_dranet_names() -> None:
    device = fullest(
        RdmaPortFacts(
            1, "ACTIVE", "1", "InfiniBand", (), "LinkUp", 1, 1, 1, "fe80", "0:0:0:3", (1,)
        ),
        RdmaPortFacts(2),
    )

    found = {name for name, _ in device.attributes}
    assert len(found) == 32
    assert sorted(found & set(DROP_ORDER)) == [
        "dra.net/ibLinkLayer",
        "dra.net/ibRateGbps",
        "dra.net/ibSubnetPrefix",
        "dra.net/rdmaDeviceShared",
        "dra.net/rdmaProtocol",
    ]
    assert len(found - set(DROP_ORDER)) == 27


@pytest.mark.parametrize(
    ("name", "count", "reason"),
    [
        ("eth0", 32, ""),
        ("", 0, "the name '' is not a DNS label"),
        ("a" * 63, 0, ""),
        ("a" * 64, 0, f"the name '{'a' * 64}' is not a DNS label"),
        ("taken", 0, "another device has the same name"),
        ("eth0", 33, "33 attributes, the limit is 32"),
    ],
)
def test_device_that_the_api_server_rejects_is_reported(name: str, count: int, reason: str) -> None:
    attributes = tuple((f"dra.net/a{number}", True) for number in range(count))

    assert why_invalid(Device(name, DeviceKey("", "", "x"), attributes), {"taken": None}) == reason


def test_default_filter_is_that_of_dranet() -> None:
    assert DEFAULT_FILTER == (
        '!("dra.net/type" in attributes) || attributes["dra.net/type"].StringValue  != "veth"'
    )


BOND = virtual("bond0", 10, kind="bond", mtu=1500)
PORT = replace(nic("eth0", 2), link=replace(nic("eth0", 2).link, master=10))
OVER = replace(
    virtual("eth1.7", 4, kind="vlan", lower=3, up=True), addresses=(Address("10.7.0.1/24"),)
)
CARRIER = nic("eth1", 3, VF)
PARENTS = HostFacts(
    (function(), function(VF)),
    (PORT, CARRIER, OVER, BOND),
    default_routes=(DefaultRoute(4, 0, (10,)),),
)


def test_link_below_other_links_is_published_only_as_a_parent() -> None:
    inventory = inventory_from_facts(PARENTS)

    assert [device.name for device in inventory.parents] == [pci_device_name(VF)]
    assert pci_device_name(VF) in dict(inventory.excluded)
    offered = with_parents(inventory, {pci_device_name(VF), "bond0"})
    assert pci_device_name(VF) in names(offered)
    assert pci_device_name(VF) not in dict(offered.excluded)
    assert with_parents(inventory, set()) == inventory


def test_uplink_bond_is_published_as_a_parent_if_configured() -> None:
    inventory = inventory_from_facts(PARENTS, parents=("bond*",))

    bond = one(inventory, "bond0")
    assert bond.attribute("dra.net/childrenOnly") is True
    assert pci_device_name(PF) in dict(inventory.excluded)
    assert "bond0" in dict(inventory_from_facts(PARENTS).excluded)
    assert "bond0" not in [device.name for device in inventory_from_facts(PARENTS).parents]


def test_bond_as_a_parent_has_the_rdma_devices_of_its_ports() -> None:
    """RoCE LAG: one RDMA device, on the first function, for both ports."""
    second = replace(PORT, link=replace(PORT.link, index=5, parent=VF), pci=VF)
    lag = RdmaPortFacts(1, "ACTIVE", link_layer="Ethernet", netdevs=("eth0",))
    rdma = (
        RdmaDeviceFacts("mlx5_bond_0", "pci", PF, PF, ports=(lag,), protocol="roce"),
        RdmaDeviceFacts("mlx5_7", "pci", "0000:8a:00.2", "0000:8a:00.2"),
    )
    facts = replace(PARENTS, netdevs=(PORT, second, BOND), rdma=rdma)

    bond = one(inventory_from_facts(facts, parents=("bond*",)), "bond0")

    assert bond.rdma_devices == ("mlx5_bond_0",)
    assert bond.attribute("dra.net/rdmaProtocol") == "roce"
    assert bond.attribute("dra.net/rdmaDeviceShared") is None, "its ports are never published"


def test_parent_of_an_allocated_child_stays_listed() -> None:
    inventory = inventory_from_facts(PARENTS)
    (parent,) = inventory.parents

    assert parent in merge_recorded(inventory, (parent,)).devices


def test_link_with_unreadable_upper_links_is_no_parent() -> None:
    unreadable = replace(CARRIER, unreadable="mtu")
    facts = replace(PARENTS, netdevs=(PORT, unreadable, OVER, BOND))

    inventory = inventory_from_facts(facts, parents=("eth1",))

    assert "cannot be read" in dict(inventory.excluded)[pci_device_name(VF)]
    assert inventory.parents == ()
