"""Attributes of devices: names, types, values, limits."""

import inspect
import re
from dataclasses import replace

import pytest

from dranet_nri.inventory import attributes as attributes_module
from dranet_nri.inventory.attribute_names import (
    ATTRIBUTE_NAMES,
    ATTRIBUTES,
    RDMA_NAMES,
    RDMA_SHARED,
)
from dranet_nri.inventory.attributes import (
    DROP_ORDER,
    MAX_ATTRIBUTES,
    azure_attributes,
    joined,
    netdev_attributes,
    pci_attributes,
    rdma_attributes,
    truncated,
    within_budget,
)
from dranet_nri.inventory.azure import Placement
from dranet_nri.inventory.host_facts import NetDevice, PciFunction, RdmaDeviceFacts, RdmaPortFacts
from dranet_nri.model import Address, AttributeValue, Link

FUNCTION = PciFunction(
    "0000:8a:00.0",
    "mlx5_core",
    numa_node=1,
    root="pci0000:89",
    subsystem="0240",
    vendor_name="Mellanox Technologies",
    device_name="MT2910 Family [ConnectX-7]",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x" * 64, "x" * 64),
        ("x" * 65, "x" * 64),
        ("x" * 63 + "é", "x" * 63),
        ("é" * 40, "é" * 32),
        ("x" + "日" * 30, "x" + "日" * 21),
        ("rail\udcff", "rail\ufffd"),
        ("x" * 63 + "\udcff", "x" * 63),
    ],
)
def test_text_is_truncated_at_a_character_within_64_bytes(text: str, expected: str) -> None:
    assert truncated(text) == expected


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], ""),
        (["b", "a", "b"], "a,b"),
        (["2001:db8::/64"] * 9, "2001:db8::/64"),
        (["a" * 31, "b" * 32], f"{'a' * 31},{'b' * 32}"),
        (["a" * 32, "b" * 32], "a" * 32),
        (["a" * 70, "b"], "a" * 64),
        (["b", "a\udcff", "a\ufffd"], "a\ufffd,b"),
    ],
)
def test_lists_are_sorted_and_truncated_at_a_whole_entry(items: list[str], expected: str) -> None:
    assert joined(items) == expected


def test_plain_nic_has_all_attributes_of_a_net_device() -> None:
    link = Link(2, "eth1", mac="02:00:00:00:00:01", mtu=9000, operstate="up", alias="left")

    assert dict(netdev_attributes(NetDevice(link), None)) == {
        "dra.net/ifName": "eth1",
        "dra.net/mac": "02:00:00:00:00:01",
        "dra.net/mtu": 9000,
        "dra.net/encapsulation": "ether",
        "dra.net/alias": "left",
        "dra.net/state": "up",
        "dra.net/type": "device",
        "dra.net/virtual": False,
        "dra.net/ebpf": False,
        "dra.net/sriov": False,
    }


@pytest.mark.parametrize(
    ("link", "name", "value"),
    [
        (Link(1, "x", kind="tun"), "dra.net/type", "tuntap"),
        (Link(1, "x", kind="veth"), "dra.net/type", "veth"),
        (Link(1, "x", arphrd=32), "dra.net/encapsulation", "infiniband"),
        (Link(1, "x", arphrd=65534), "dra.net/encapsulation", "none"),
        (Link(1, "x", arphrd=4242), "dra.net/encapsulation", "unknown4242"),
        (Link(1, "x", operstate="lowerlayerdown"), "dra.net/state", "lower-layer-down"),
        (Link(1, "x", operstate="notpresent"), "dra.net/state", "not-present"),
        (Link(1, "x", alias="é" * 100), "dra.net/alias", "é" * 32),
    ],
)
def test_link_attribute_values_are_those_of_dranet(link: Link, name: str, value: str) -> None:
    assert dict(netdev_attributes(NetDevice(link), None))[name] == value


def test_global_unicast_addresses_are_published_as_one_string_per_family() -> None:
    device = NetDevice(
        Link(2, "eth1"),
        addresses=tuple(
            Address(cidr)
            for cidr in (
                "192.0.2.9/24",
                "10.0.0.5/8",
                "127.0.0.2/8",
                "169.254.3.4/16",
                "224.0.0.9/32",
                "255.255.255.255/32",
                "0.0.0.0/32",
                "fe80::1/64",
                "fd00::5/64",
            )
        ),
    )

    found = dict(netdev_attributes(device, None))

    assert found["dra.net/ipv4"] == "10.0.0.5/8,192.0.2.9/24"
    assert found["dra.net/ipv6"] == "fd00::5/64"


def test_device_with_only_link_local_addresses_has_no_address_attribute() -> None:
    device = NetDevice(Link(2, "eth1"), addresses=(Address("fe80::1/64"),))

    assert not {"dra.net/ipv4", "dra.net/ipv6"} & dict(netdev_attributes(device, None)).keys()


def test_address_list_is_truncated_at_a_whole_address() -> None:
    cidrs = [f"2001:db8:0:1::{n:x}/64" for n in range(1, 9)]
    device = NetDevice(Link(2, "eth1"), addresses=tuple(Address(cidr) for cidr in cidrs))

    found = dict(netdev_attributes(device, None))

    assert found["dra.net/ipv6"] == "2001:db8:0:1::1/64,2001:db8:0:1::2/64,2001:db8:0:1::3/64"


def test_bpf_programs_are_published_sorted_and_set_the_flag() -> None:
    device = NetDevice(Link(2, "eth1"), tc_filters=("b", "a"), tcx_programs=("z", "y"))

    found = dict(netdev_attributes(device, None))

    assert found["dra.net/tcFilterNames"] == "a,b"
    assert found["dra.net/tcxProgramNames"] == "y,z"
    assert found["dra.net/ebpf"] is True


def test_single_kind_of_bpf_program_sets_the_flag() -> None:
    device = NetDevice(Link(2, "eth1"), tcx_programs=("only",))

    found = dict(netdev_attributes(device, None))

    assert found["dra.net/ebpf"] is True
    assert "dra.net/tcFilterNames" not in found


def test_known_speed_is_published() -> None:
    device = NetDevice(Link(2, "eth1"), speed_mbps=400000)

    assert dict(netdev_attributes(device, None))["dra.net/linkSpeed"] == 400000


def test_physical_function_has_its_number_of_vfs() -> None:
    function = PciFunction("0000:8a:00.0", "ice", vf_limit=8, vf_count=0)

    found = dict(netdev_attributes(NetDevice(Link(2, "eth1")), function))

    assert found["dra.net/sriov"] is True
    assert found["dra.net/sriovVfs"] == 0


def test_net_device_below_virtio_is_no_physical_function() -> None:
    function = PciFunction("0000:03:00.0", "virtio-pci", vf_limit=8, bus="virtio", parent="v1")

    found = dict(netdev_attributes(NetDevice(Link(2, "eth1")), function))

    assert found["dra.net/sriov"] is False
    assert "dra.net/sriovVfs" not in found


def test_pci_function_has_identity_and_location_attributes() -> None:
    assert dict(pci_attributes(FUNCTION, 2)) == {
        "dra.net/pciAddress": "0000:8a:00.0",
        "dra.net/pciVendor": "Mellanox Technologies",
        "dra.net/pciDevice": "MT2910 Family [ConnectX-7]",
        "dra.net/pciSubsystem": "0240",
        "dra.net/driver": "mlx5_core",
        "dra.net/numaNode": 1,
        "resource.kubernetes.io/numaNode": 1,
        "resource.kubernetes.io/pciBusID": "0000:8a:00.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:89",
    }


def test_host_with_one_numa_node_has_only_the_standard_numa_attribute() -> None:
    found = dict(pci_attributes(FUNCTION, 1))

    assert found["resource.kubernetes.io/numaNode"] == 1
    assert "dra.net/numaNode" not in found


def test_unknown_numa_node_and_root_are_not_published() -> None:
    found = dict(pci_attributes(PciFunction("0000:8a:00.0", "ice"), 2))

    assert not {name for name in found if name.endswith(("numaNode", "pcieRoot"))}
    assert found["dra.net/pciVendor"] == "unknown"


def test_pci_domain_of_more_than_four_digits_has_no_standard_attributes() -> None:
    found = dict(pci_attributes(PciFunction("10000:e1:00.0", "ice", root="pci10000:e0"), 2))

    assert found["dra.net/pciAddress"] == "10000:e1:00.0"
    assert not {name for name in found if name.startswith("resource.kubernetes.io/pci")}


def test_vf_flag_is_published_only_if_true() -> None:
    vf = PciFunction("0000:8a:00.2", "iavf", physical="0000:8a:00.0")

    assert dict(pci_attributes(vf, 2))["dra.net/isSriovVf"] is True
    assert "dra.net/isSriovVf" not in dict(pci_attributes(FUNCTION, 2))


def test_device_without_rdma_has_only_the_rdma_flag() -> None:
    assert dict(rdma_attributes((), "eth1", 0)) == {"dra.net/rdma": False}


INFINIBAND = RdmaPortFacts(
    1,
    "ACTIVE",
    "400 Gb/sec (4X NDR)",
    "InfiniBand",
    phys_state="LinkUp",
    rate_gbps=400,
    lid=7,
    sm_lid=1,
    subnet_prefix="fe80:0000:0000:0003",
    guid="0c42:a103:0065:5a1f",
    pkeys=(0x8012, 0x7FFF),
)
HCA = RdmaDeviceFacts(
    "mlx5_0",
    node_guid="0c42:a103:0065:5a1e",
    ports=(INFINIBAND,),
    sys_image_guid="0c42:a103:0065:5a10",
    fw_version="28.39.1002",
    protocol="ib",
)


def test_infiniband_device_has_port_and_fabric_attributes() -> None:
    assert dict(rdma_attributes((HCA,), "", 0)) == {
        "dra.net/rdma": True,
        "dra.net/rdmaDevice": "mlx5_0",
        "dra.net/rdmaProtocol": "ib",
        "dra.net/rdmaFirmware": "28.39.1002",
        "dra.net/nodeGUID": "0c42:a103:0065:5a1e",
        "dra.net/sysImageGUID": "0c42:a103:0065:5a10",
        "dra.net/portGUID": "0c42:a103:0065:5a1f",
        "dra.net/ibPortState": "ACTIVE",
        "dra.net/ibRate": "400 Gb/sec (4X NDR)",
        "dra.net/ibRateGbps": 400,
        "dra.net/ibLinkLayer": "InfiniBand",
        "dra.net/ibSubnetPrefix": "fe80:0000:0000:0003",
        "dra.net/ibSmLid": 1,
        "dra.net/ibPkeys": "0x7fff,0x8012",
    }


def test_every_rdma_attribute_is_in_the_list_of_rdma_names() -> None:
    two = replace(HCA, ports=(INFINIBAND, RdmaPortFacts(2)))

    assert {name for name, _ in rdma_attributes((two,), "", 0)} | {RDMA_SHARED} == RDMA_NAMES


def test_attribute_values_have_the_type_of_the_reference() -> None:
    two = replace(HCA, ports=(INFINIBAND, RdmaPortFacts(2)))
    published = {
        **dict(rdma_attributes((two,), "", 0)),
        **dict(netdev_attributes(NetDevice(Link(2, "eth1")), FUNCTION)),
        **dict(pci_attributes(FUNCTION, 2)),
    }

    assert len(published) > 25
    assert {name: type(value) for name, value in published.items()} == {
        name: ATTRIBUTES[name].type for name in published
    }


def test_every_attribute_in_the_source_is_allowed_in_selectors() -> None:
    source = inspect.getsource(attributes_module)
    named = set(re.findall(r'yield "([a-z.]+/\w+)"', source)) | {"dra.net/ipv4", "dra.net/ipv6"}

    assert len(named) > 20
    assert named | RDMA_NAMES <= ATTRIBUTE_NAMES


def test_zero_guid_is_not_published() -> None:
    zero = "0000:0000:0000:0000"
    blank = replace(
        HCA, node_guid=zero, sys_image_guid=zero, ports=(replace(INFINIBAND, guid=zero),)
    )

    assert not [name for name, _ in rdma_attributes((blank,), "", 0) if name.endswith("GUID")]


@pytest.mark.parametrize(
    ("reported", "layer", "protocol"),
    [
        ("ib", "InfiniBand", "ib"),
        ("roce", "Ethernet", "roce"),
        ("roce", "InfiniBand", "ib"),
        ("ib", "Ethernet", "roce"),
        ("iw", "Ethernet", "iw"),
        ("opa", "InfiniBand", "opa"),
        ("", "Unknown", None),
    ],
)
def test_rdma_protocol_is_that_of_the_port(reported: str, layer: str, protocol: str | None) -> None:
    device = RdmaDeviceFacts(
        "mlx4_0", ports=(RdmaPortFacts(1, link_layer=layer),), protocol=reported
    )

    assert dict(rdma_attributes((device,), "", 0)).get("dra.net/rdmaProtocol") == protocol


def test_pkey_list_is_truncated_to_the_limit() -> None:
    port = replace(INFINIBAND, pkeys=tuple(range(0x8000, 0x8080)))

    found = dict(rdma_attributes((replace(HCA, ports=(port,)),), "", 0))["dra.net/ibPkeys"]

    assert str(found).split(",") == [f"0x{pkey:04x}" for pkey in range(0x8000, 0x8009)]


def test_port_number_is_published_only_for_several_ports() -> None:
    two = replace(HCA, ports=(INFINIBAND, replace(INFINIBAND, number=2)))

    assert dict(rdma_attributes((two,), "", 1))["dra.net/rdmaPort"] == 2
    assert "dra.net/rdmaPort" not in dict(rdma_attributes((HCA,), "", 0))


def test_placement_has_the_domains_of_the_near_gpus() -> None:
    assert dict(azure_attributes(Placement(3, ("000b", "000c")))) == {
        "azure.dra.net/gpuDomains": "000b,000c"
    }


def test_attributes_within_the_limit_are_kept_and_sorted() -> None:
    many: dict[str, AttributeValue] = {f"dra.net/x{n:02}": n for n in range(30)}
    many |= {"dra.net/driver": "d", "dra.net/a": 1}

    assert within_budget(many) == tuple(sorted(many.items()))


def test_attributes_above_the_limit_are_dropped_in_order_of_priority() -> None:
    omitted_first: dict[str, AttributeValue] = dict.fromkeys(DROP_ORDER, True)
    others: dict[str, AttributeValue] = {f"dra.net/x{n:02}": n for n in range(26)}

    found = dict(within_budget(others | omitted_first))

    assert found == others | {name: omitted_first[name] for name in DROP_ORDER[-6:]}


def test_required_attributes_are_kept_above_the_limit() -> None:
    others = {f"dra.net/x{n:02}": n for n in range(MAX_ATTRIBUTES + 1)}

    assert dict(within_budget(others | {"dra.net/driver": "ice"})) == others


def test_rdma_device_without_facts_has_only_its_name() -> None:
    named = {"dra.net/rdma": True, "dra.net/rdmaDevice": "efa_0"}

    assert dict(rdma_attributes((RdmaDeviceFacts("efa_0"),), "", 0)) == named
    assert (
        dict(rdma_attributes((RdmaDeviceFacts("efa_0", ports=(RdmaPortFacts(1),)),), "", 0))
        == named
    )


@pytest.mark.parametrize(
    ("ifname", "dev_port", "state"),
    [
        pytest.param("eth1", 0, "DOWN", id="by-gid"),
        pytest.param("eth9", 1, "DOWN", id="by-number"),
        pytest.param("eth9", 7, "ACTIVE", id="first-otherwise"),
        pytest.param("", 0, "ACTIVE", id="without-net-device"),
    ],
)
def test_port_of_the_net_device_determines_the_port_attributes(
    ifname: str, dev_port: int, state: str
) -> None:
    device = RdmaDeviceFacts(
        "mlx4_0", ports=(RdmaPortFacts(1, "ACTIVE"), RdmaPortFacts(2, "DOWN", netdevs=("eth1",)))
    )

    assert dict(rdma_attributes((device,), ifname, dev_port))["dra.net/ibPortState"] == state
