from dataclasses import replace

import pytest

from dranet_nri.inventory import (
    DEFAULT_FILTER,
    AzureHost,
    DefaultRoute,
    HostFacts,
    Inventory,
    NetDevice,
    PciFunction,
    RdmaDevice,
    RdmaPort,
    inventory_from_facts,
    merge_known,
)
from dranet_nri.inventory.attributes import GOES_FIRST
from dranet_nri.inventory.build import fault
from dranet_nri.model import Address, AttributeValue, Device, DeviceKey, Link

PF = "0000:8a:00.0"
VF = "0000:8a:00.1"


def function(address: str = PF, driver: str = "ice", **rest: object) -> PciFunction:
    return replace(PciFunction(address, 2, driver, parent=address), **rest)  # type: ignore[arg-type]


def nic(name: str, index: int, address: str = PF, **rest: object) -> NetDevice:
    link = Link(index, name, bus="pci", parent=address)
    return replace(NetDevice(link, pci=address), **rest)  # type: ignore[arg-type]


def virtual(name: str, index: int, kind: str = "dummy", **rest: object) -> NetDevice:
    link = replace(Link(index, name, kind=kind), **rest)  # type: ignore[arg-type]
    return NetDevice(link, virtual=True)


def names(inventory: Inventory) -> list[str]:
    return [device.name for device in inventory.devices]


def one(inventory: Inventory, name: str) -> Device:
    return next(device for device in inventory.devices if device.name == name)


def test_a_nic_is_one_device_with_the_facts_of_function_and_net_device() -> None:
    facts = HostFacts((function(),), (nic("eth1", 3),))

    (device,) = inventory_from_facts(facts).devices

    assert device.name == "pci-0000-8a-00-0"
    assert device.key == DeviceKey("pci", PF, "eth1", PF)
    assert device.attribute("dra.net/ifName") == "eth1"
    assert device.attribute("dra.net/pciAddress") == PF
    assert device.attribute("dra.net/rdma") is False
    assert list(device.attributes) == sorted(device.attributes)


def test_a_function_whose_net_device_is_in_a_pod_keeps_its_own_facts() -> None:
    facts = HostFacts((function(),))

    (device,) = inventory_from_facts(facts).devices

    assert device.key == DeviceKey("pci", PF, "", PF)
    assert device.attribute("dra.net/pciAddress") == PF
    assert device.attribute("dra.net/ifName") is None
    assert device.attribute("dra.net/virtual") is None
    assert device.attribute("dra.net/rdma") is False


def test_a_virtio_nic_is_known_by_its_virtio_device_also_while_it_is_away() -> None:
    virtio = function("0000:00:03.0", "virtio-pci", bus="virtio", parent="virtio1")
    there = nic("eth1", 3, "0000:00:03.0")
    there = replace(there, link=replace(there.link, bus="virtio", parent="virtio1"))

    home = inventory_from_facts(HostFacts((virtio,), (there,)))
    away = inventory_from_facts(HostFacts((virtio,)))

    assert home.devices[0].key == DeviceKey("virtio", "virtio1", "eth1", "0000:00:03.0")
    assert away.devices[0].key == DeviceKey("virtio", "virtio1", "", "0000:00:03.0")
    assert home.devices[0].name == away.devices[0].name == "pci-0000-00-03-0"


def test_virtual_links_are_published_under_their_own_names_in_order() -> None:
    facts = HostFacts(netdevs=(virtual("wg0", 2, "wireguard"), virtual("Dummy_1", 3)))

    inventory = inventory_from_facts(facts)

    assert names(inventory) == ["net-ir2w23lzl4yq", "wg0"]
    assert one(inventory, "wg0").key == DeviceKey("", "", "wg0")
    assert one(inventory, "wg0").attribute("dra.net/virtual") is True


def test_a_usb_nic_is_known_by_its_own_parent_and_not_by_the_usb_controller() -> None:
    usb = NetDevice(Link(2, "enx0", bus="usb", parent="2-1:1.0"), pci="0000:00:14.0")

    (device,) = inventory_from_facts(HostFacts(netdevs=(usb,))).devices

    assert device.key == DeviceKey("usb", "2-1:1.0", "enx0")
    assert device.attribute("dra.net/pciAddress") is None


def test_the_uplinks_function_is_excluded_with_the_interface_in_the_reason() -> None:
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


def test_the_uplinks_are_those_of_the_facts_at_hand() -> None:
    facts = HostFacts((function(), function(VF)), (nic("eth0", 2), nic("eth1", 3, VF)))

    first = replace(facts, default_routes=(DefaultRoute(4, 0, (2,)),))
    second = replace(facts, default_routes=(DefaultRoute(6, 0, (3,)),))

    assert names(inventory_from_facts(first)) == ["pci-0000-8a-00-1"]
    assert names(inventory_from_facts(second)) == ["pci-0000-8a-00-0"]


def test_an_excluded_virtual_link_says_why_without_repeating_its_name() -> None:
    facts = HostFacts(netdevs=(virtual("cni0", 2, "bridge"), virtual("lo", 1, "", loopback=True)))

    assert inventory_from_facts(facts).excluded == (
        ("cni0", "belongs to the bridge CNI plugin"),
        ("lo", "loopback"),
    )


def test_functions_for_userspace_or_without_driver_are_excluded() -> None:
    facts = HostFacts((function(driver=""), function(VF, "vfio-pci")))

    assert inventory_from_facts(facts) == Inventory(
        (),
        (
            ("pci-0000-8a-00-0", "no driver is bound"),
            ("pci-0000-8a-00-1", "bound to vfio-pci for userspace"),
        ),
    )


def test_a_physical_function_and_its_vfs_are_devices_of_their_own() -> None:
    facts = HostFacts(
        (function(vf_limit=4, vf_count=1), function(VF, "iavf", physical=PF)),
        (nic("eth1", 3), nic("eth1v0", 4, VF)),
    )

    inventory = inventory_from_facts(facts)

    assert one(inventory, "pci-0000-8a-00-0").attribute("dra.net/sriovVfs") == 1
    assert one(inventory, "pci-0000-8a-00-1").attribute("dra.net/isSriovVf") is True
    assert one(inventory, "pci-0000-8a-00-1").attribute("dra.net/sriov") is False


def test_representors_and_subfunctions_do_not_take_the_functions_name() -> None:
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

    assert one(inventory, "pci-0000-8a-00-0").key.name == "eth1"
    assert one(inventory, "eth1s0").key == DeviceKey("auxiliary", "mlx5_core.sf.2", "eth1s0", PF)
    assert one(inventory, "eth1s0").attribute("dra.net/sriov") is False
    assert inventory.excluded == (
        ("net-mv2gqmk7ga", "eth1_0: represents pf0vf0 in the NIC's embedded switch"),
    )


def test_a_child_interface_of_the_same_parent_is_a_device_of_its_own() -> None:
    child = nic("ib0-8001", 3)
    child = replace(child, link=replace(child.link, kind="ipoib", lower=4))
    facts = HostFacts((function(driver="mlx5_core"),), (child, nic("ib0", 4)))

    inventory = inventory_from_facts(facts)

    assert {device.name: device.key.name for device in inventory.devices} == {
        "pci-0000-8a-00-0": "ib0",
        "ib0-8001": "ib0-8001",
    }


def test_two_ports_of_a_function_are_two_devices_whichever_is_at_home() -> None:
    port_0, port_1 = nic("eth1", 3), nic("eth2", 2, dev_port=1)
    dual = function(driver="mlx4_core")

    both = inventory_from_facts(HostFacts((dual,), (port_0, port_1)))
    second_alone = inventory_from_facts(HostFacts((dual,), (port_1,)))

    assert {device.name: device.key.name for device in both.devices} == {
        "pci-0000-8a-00-0": "eth1",
        "pci-0000-8a-00-0-p1": "eth2",
    }
    assert one(second_alone, "pci-0000-8a-00-0-p1").key.name == "eth2"
    assert one(second_alone, "pci-0000-8a-00-0").key.name == ""


def test_a_single_port_may_have_any_number() -> None:
    facts = HostFacts((function(driver="sfc"),), (nic("eth1", 3, dev_port=1),))

    assert names(inventory_from_facts(facts)) == ["pci-0000-8a-00-0"]


def test_a_device_without_net_device_has_the_rdma_devices_of_its_function() -> None:
    rdma = RdmaDevice("erdma_0", "pci", PF, PF)
    facts = HostFacts((function(base_class=0, driver="erdma"),), rdma=(rdma,))

    (device,) = inventory_from_facts(facts).devices

    assert device.rdma_devices == ("erdma_0",)
    assert device.attribute("dra.net/rdmaDevice") == "erdma_0"
    assert device.key == DeviceKey("pci", PF, "", PF)


def test_a_function_with_two_rdma_devices_names_the_first_and_keeps_both() -> None:
    rdma = (RdmaDevice("mlx5_0", "pci", PF, PF), RdmaDevice("smi0", "pci", PF, PF))
    facts = HostFacts((function(driver="mlx5_core"),), (nic("ib0", 2),), rdma)

    (device,) = inventory_from_facts(facts).devices

    assert device.rdma_devices == ("mlx5_0", "smi0")
    assert device.attribute("dra.net/rdmaDevice") == "mlx5_0"


def test_a_sub_device_comes_after_its_device_whatever_its_name_and_is_none_of_its_own() -> None:
    port = RdmaPort(1, "ACTIVE", link_layer="InfiniBand")
    rdma = (
        RdmaDevice("a_smi", "pci", PF, PF, ports=(RdmaPort(1), RdmaPort(2)), part_of="mlx5_0"),
        RdmaDevice("mlx5_0", "pci", PF, PF, ports=(port,)),
    )
    facts = HostFacts((function(driver="mlx5_core"),), (), rdma)

    (device,) = inventory_from_facts(facts).devices

    assert device.rdma_devices == ("mlx5_0", "a_smi")
    assert device.attribute("dra.net/ibPortState") == "ACTIVE"
    assert device.attribute("dra.net/rdmaDeviceShared") is None


def test_two_ports_of_one_rdma_device_say_that_they_share_it() -> None:
    ports = (RdmaPort(1, "ACTIVE", "1", "InfiniBand"), RdmaPort(2, "DOWN", "2", "Ethernet"))
    rdma = RdmaDevice("mlx4_0", "pci", PF, PF, ports=ports, protocol="ib")
    facts = HostFacts(
        (function(driver="mlx4_core"),), (nic("ib0", 2), nic("eth2", 3, dev_port=1)), (rdma,)
    )

    first, second = inventory_from_facts(facts).devices

    names = ("rdmaPort", "ibPortState", "rdmaProtocol", "rdmaDeviceShared")
    assert [first.attribute(f"dra.net/{name}") for name in names] == [1, "ACTIVE", "ib", True]
    assert [second.attribute(f"dra.net/{name}") for name in names] == [2, "DOWN", "roce", True]


def test_a_port_that_the_node_keeps_shares_its_rdma_device_too() -> None:
    rdma = RdmaDevice("mlx4_0", "pci", PF, PF, ports=(RdmaPort(1), RdmaPort(2)))
    facts = HostFacts(
        (function(driver="mlx4_core"),),
        (nic("eth1", 2), nic("eth2", 3, dev_port=1)),
        (rdma,),
        (DefaultRoute(4, 0, (2,)),),
    )

    (device,) = inventory_from_facts(facts).devices

    assert device.name == "pci-0000-8a-00-0-p1"
    assert device.attribute("dra.net/rdmaDeviceShared") is True


def test_a_representor_takes_no_part_in_its_functions_rdma_device() -> None:
    facts = HostFacts(
        (function(driver="mlx5_core"),),
        (nic("eth1", 2, port_name="p0"), nic("eth1_0", 3, port_name="pf0vf0")),
        (RdmaDevice("mlx5_0", "pci", PF, PF),),
    )

    assert inventory_from_facts(facts).devices[0].attribute("dra.net/rdmaDeviceShared") is None


def test_an_rdma_device_with_a_name_that_no_record_takes_is_left_out_by_name() -> None:
    rdma = (RdmaDevice("two words", "pci", PF, PF), RdmaDevice("\udcff", "pci", PF, PF))
    reason = "an RDMA device whose name no record takes: rename it with rdma dev set"

    inventory = inventory_from_facts(HostFacts((function(),), rdma=rdma))

    assert inventory.devices[0].rdma_devices == ()
    assert inventory.excluded == (("\\udcff", reason), ("two words", reason))


def test_a_software_rdma_device_belongs_to_the_link_among_its_gids() -> None:
    rxe = RdmaDevice("rxe0", ports=(RdmaPort(1, link_layer="Ethernet", netdevs=("eth1",)),))
    facts = HostFacts((function(),), (nic("eth1", 2), virtual("dummy0", 3)), (rxe,))

    inventory = inventory_from_facts(facts)

    assert one(inventory, "pci-0000-8a-00-0").rdma_devices == ("rxe0",)
    assert one(inventory, "dummy0").rdma_devices == ()


def test_a_virtual_link_may_own_software_rdma_but_never_the_nics() -> None:
    port = RdmaPort(1, link_layer="Ethernet", netdevs=("eth1", "eth1.5"))
    rdma = (
        RdmaDevice("mlx5_0", "pci", PF, PF, ports=(port,)),
        RdmaDevice("rxe0", ports=(replace(port, netdevs=("eth1.5",)),)),
    )
    facts = HostFacts((function(),), (nic("eth1", 2), virtual("eth1.5", 3, "vlan")), rdma)

    inventory = inventory_from_facts(facts)

    assert one(inventory, "net-mv2gqmjogu").rdma_devices == ("rxe0",)
    assert one(inventory, "pci-0000-8a-00-0").rdma_devices == ("mlx5_0",)


def test_an_rdma_device_without_owner_is_left_out_by_name() -> None:
    inventory = inventory_from_facts(HostFacts(rdma=(RdmaDevice("siw0"),)))

    assert inventory == Inventory(
        (), (("siw0", "an RDMA device without a PCI function and without a net device here"),)
    )


def test_an_rdma_device_of_an_excluded_link_is_not_listed_twice() -> None:
    rdma = RdmaDevice("mlx5_0", "pci", PF, PF)
    routes = (DefaultRoute(4, 0, (2,)),)

    inventory = inventory_from_facts(HostFacts((function(),), (nic("eth0", 2),), (rdma,), routes))

    assert [name for name, _ in inventory.excluded] == ["pci-0000-8a-00-0"]


def test_two_links_that_encode_to_one_name_do_not_spoil_the_rest() -> None:
    facts = HostFacts(netdevs=(virtual("ETH0", 2), virtual("net-ivkeqma", 3), virtual("d0", 4)))

    inventory = inventory_from_facts(facts)

    assert names(inventory) == ["d0", "net-ivkeqma"]
    assert one(inventory, "net-ivkeqma").key.name == "ETH0"
    assert inventory.excluded == (("net-ivkeqma", "another device has the same name"),)


def fullest(*ports: RdmaPort) -> Device:
    rdma = RdmaDevice(
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
    child = replace(device, link=replace(device.link, index=3, name="child", lower=2))
    facts = HostFacts((full,), (device, child), (rdma,), (), 2)
    return one(inventory_from_facts(facts), "pci-0000-8a-00-0")


def test_the_fullest_device_stays_within_the_limit_with_every_name_of_dranets() -> None:
    device = fullest(
        RdmaPort(1, "ACTIVE", "1", "InfiniBand", (), "LinkUp", 1, 1, 1, "fe80", "0:0:0:3", (1,)),
        RdmaPort(2),
    )

    found = {name for name, _ in device.attributes}
    assert len(found) == 32
    assert sorted(found & set(GOES_FIRST)) == [
        "dra.net/ibLinkLayer",
        "dra.net/ibPortState",
        "dra.net/ibRateGbps",
        "dra.net/ibSubnetPrefix",
        "dra.net/rdmaDeviceShared",
        "dra.net/rdmaProtocol",
    ]
    assert len(found - set(GOES_FIRST)) == 26


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
def test_what_the_api_server_would_refuse_has_a_fault(name: str, count: int, reason: str) -> None:
    attributes = tuple((f"dra.net/a{number}", True) for number in range(count))

    assert fault(Device(name, DeviceKey("", "", "x"), attributes), {"taken": None}) == reason


def test_the_default_filter_is_the_one_dranet_users_know() -> None:
    assert DEFAULT_FILTER == (
        '!("dra.net/type" in attributes) || attributes["dra.net/type"].StringValue  != "veth"'
    )


KNOWN = Device(
    "pci-0000-8a-00-0",
    DeviceKey("pci", PF, "eth1", PF),
    (("dra.net/ifName", "eth1"), ("dra.net/pciAddress", PF), ("dra.net/rdma", True)),
    ("mlx5_0",),
)


def live(ifname: str, held: tuple[str, ...], /, **attributes: AttributeValue) -> Inventory:
    found = {f"dra.net/{name}": value for name, value in attributes.items()}
    key = DeviceKey("pci", PF, ifname, PF)
    return Inventory((Device(KNOWN.name, key, tuple(sorted(found.items())), held),))


def test_a_device_in_a_pod_keeps_the_facts_it_had() -> None:
    merged = merge_known(live("", (), pciAddress=PF, rdma=False, driver="mlx5_core"), (KNOWN,))

    (device,) = merged.devices
    assert device.key == KNOWN.key
    assert device.rdma_devices == ("mlx5_0",)
    assert device.attributes == (
        ("dra.net/driver", "mlx5_core"),
        ("dra.net/ifName", "eth1"),
        ("dra.net/pciAddress", PF),
        ("dra.net/rdma", True),
    )


def test_a_device_whose_rdma_device_alone_is_away_keeps_its_live_key() -> None:
    merged = merge_known(live("eth9", (), ifName="eth9", rdma=False), (KNOWN,))

    assert merged.devices[0].key.name == "eth9"
    assert merged.devices[0].rdma_devices == ("mlx5_0",)


def test_a_device_whose_net_device_alone_is_away_keeps_its_live_rdma_devices() -> None:
    merged = merge_known(live("", ("mlx5_7",), rdma=True), (KNOWN,))

    assert merged.devices[0].key.name == "eth1"
    assert merged.devices[0].rdma_devices == ("mlx5_7",)


def test_an_rdma_device_that_all_namespaces_share_is_described_as_it_is_now() -> None:
    known = replace(
        KNOWN, attributes=(*KNOWN.attributes, ("dra.net/ibPortState", "ACTIVE"), ("dra.net/x", 1))
    )
    before = live("", ("mlx5_0",), rdma=True, rdmaDevice="mlx5_0", driver="mlx5_core")

    (device,) = merge_known(before, (known,)).devices

    assert dict(device.attributes) == {
        "dra.net/driver": "mlx5_core",
        "dra.net/ifName": "eth1",
        "dra.net/pciAddress": PF,
        "dra.net/rdma": True,
        "dra.net/rdmaDevice": "mlx5_0",
        "dra.net/x": 1,
    }


def test_live_and_last_facts_together_stay_within_the_limit() -> None:
    many = {f"x{number:02}": number for number in range(31)}
    known = replace(KNOWN, attributes=(*KNOWN.attributes, ("dra.net/nodeGUID", "0:0:0:1")))

    (device,) = merge_known(live("", (), **many), (known,)).devices

    assert "dra.net/nodeGUID" not in dict(device.attributes)


def test_a_device_at_home_is_taken_as_seen() -> None:
    inventory = live("eth9", ("mlx5_3",), ifName="eth9")

    assert merge_known(inventory, (KNOWN,)) == inventory


def test_an_allocated_virtual_device_that_is_away_stays_listed() -> None:
    dummy = Device("dummy0", DeviceKey("", "", "dummy0"))

    merged = merge_known(live("eth1", ("mlx5_0",)), (dummy,))

    assert names(merged) == ["dummy0", "pci-0000-8a-00-0"]


def test_an_allocated_device_that_became_unsafe_stays_out() -> None:
    inventory = Inventory((), ((KNOWN.name, "eth1: enslaved to bond0"),))

    assert merge_known(inventory, (KNOWN,)) == inventory


IB = "0101:00:00.0"
ACCELERATED = "8a1b:00:02.0"
HYPER_V = NetDevice(Link(2, "eth0", mac="02:00:00:00:00:01", bus="vmbus", parent="f8615163"))


def test_on_hyper_v_a_vf_is_hidden_before_the_kernel_enslaves_it() -> None:
    early = nic("eth1", 3, ACCELERATED)
    early = replace(early, link=replace(early.link, mac=HYPER_V.link.mac))
    facts = HostFacts((function(ACCELERATED, "mlx5_core"),), (HYPER_V, early))

    inventory = inventory_from_facts(facts)

    assert names(inventory) == ["eth0"]
    assert inventory.excluded == (
        ("pci-8a1b-00-02-0", "eth1: the VF behind eth0: Hyper-V shows one NIC as two"),
    )


def test_on_hyper_v_only_infiniband_is_published_without_a_net_device() -> None:
    rdma = (
        RdmaDevice("mlx5_0", "pci", IB, IB, ports=(RdmaPort(1, link_layer="InfiniBand"),)),
        RdmaDevice(
            "mlx5_8",
            "pci",
            ACCELERATED,
            ACCELERATED,
            ports=(RdmaPort(1, link_layer="Ethernet", netdevs=("eth0",)),),
        ),
    )
    functions = (function(IB, "mlx5_core"), function(ACCELERATED, "mlx5_core"))

    azure = inventory_from_facts(HostFacts(functions, (HYPER_V,), rdma))
    elsewhere = inventory_from_facts(HostFacts(functions, (), rdma))

    assert names(azure) == ["eth0", "pci-0101-00-00-0"]
    assert one(azure, "eth0").rdma_devices == ()
    assert azure.excluded == (
        (
            "pci-8a1b-00-02-0",
            "Ethernet RDMA without its net device on Hyper-V: accelerated networking",
        ),
    )
    assert names(elsewhere) == ["pci-0101-00-00-0", "pci-8a1b-00-02-0"]


def test_on_hyper_v_a_function_without_driver_keeps_its_own_reason() -> None:
    rdma = RdmaDevice("m", "pci", PF, PF, ports=(RdmaPort(1, link_layer="Ethernet"),))
    facts = HostFacts((function(driver="vfio-pci"),), (HYPER_V,), (rdma,))

    assert inventory_from_facts(facts).excluded == (
        ("pci-0000-8a-00-0", "bound to vfio-pci for userspace"),
    )


V4 = AzureHost(vm_size="Standard_ND96asr_v4")


@pytest.mark.parametrize(
    ("told", "nodes", "published"),
    [
        pytest.param(-1, 4, 3, id="filled-in"),
        pytest.param(1, 4, 1, id="the-kernel-knows"),
        pytest.param(-1, 2, None, id="no-such-node"),
    ],
)
def test_the_table_of_an_azure_size_fills_in_what_the_kernel_does_not_tell(
    told: int, nodes: int, published: int | None
) -> None:
    nic_of_8 = function("0105:00:00.0", "mlx5_core", numa_node=told)

    (device,) = inventory_from_facts(HostFacts((nic_of_8,), numa_nodes=nodes, azure=V4)).devices

    assert device.attribute("resource.kubernetes.io/numaNode") == published
    assert device.attribute("azure.dra.net/gpuDomains") == "000b,000c"


def test_a_function_that_the_table_does_not_know_stays_as_it_is() -> None:
    (device,) = inventory_from_facts(HostFacts((function(),), azure=V4)).devices

    assert device.attribute("azure.dra.net/gpuDomains") is None
    assert device.attribute("resource.kubernetes.io/numaNode") is None
