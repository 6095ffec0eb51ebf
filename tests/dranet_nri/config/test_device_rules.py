"""Rules on a configuration that a device or its node does not support, and warnings."""

from dataclasses import replace

import pytest

from dranet_nri.config import (
    SHARED_MODE_WARNING,
    char_kinds,
    missing_warning,
    parse_network_config,
    violations_for_device,
    violations_for_mode,
    why_without_interface,
)
from dranet_nri.model import AttributeValue, CharKind, Device, DeviceKey, NetworkConfig, RdmaMode
from tests.dranet_nri.config.test_network import FULL

UVERBS, RDMA_CM, UMAD, ISSM = CharKind
ROCE = ("mlx5_0",)


def device(
    ifname: str = "", encapsulation: str = "ether", rdma_devices: tuple[str, ...] = ()
) -> Device:
    named: tuple[tuple[str, AttributeValue], ...] = (
        ("dra.net/encapsulation", encapsulation),
        ("dra.net/ifName", ifname),
    )
    return Device("nic", DeviceKey("pci", "0", ""), named if ifname else (), rdma_devices)


INFINIBAND_ONLY = device(rdma_devices=ROCE)
ETHERNET = device("eth1")
IB0 = device("ib0", "infiniband", ROCE)


@pytest.mark.parametrize(
    ("nic", "size", "other"),
    [(ETHERNET, 6, 20), (IB0, 20, 6)],
    ids=["ethernet", "infiniband"],
)
def test_link_layer_address_must_have_the_length_of_the_device_address(
    nic: Device, size: int, other: int
) -> None:
    right, wrong = (
        parse_network_config(
            {
                "interface": {"hardwareAddr": mac},
                "neighbors": [{"destination": "10.0.0.1", "hardwareAddr": mac}],
            }
        )
        for mac in (":".join(["02"] * size), ":".join(["02"] * other))
    )

    assert violations_for_device(right, nic) == ()
    lines = violations_for_device(wrong, nic)
    assert [line.split(":")[0] for line in lines] == [
        "interface.hardwareAddr",
        "neighbors[0].hardwareAddr",
    ]
    assert all(f"has {other} bytes, and those of the device" in line for line in lines)


@pytest.mark.parametrize(
    ("interface", "route", "reached"),
    [
        ({"addresses": ["10.9.0.5/24"]}, {"gateway": "10.9.0.1"}, True),
        ({"addresses": ["10.9.0.5/24"]}, {"gateway": "10.8.0.1"}, False),
        ({"addresses": ["10.9.0.5-10.9.0.9/24"]}, {"gateway": "10.9.0.1"}, True),
        ({"addresses": ["10.9.0.5-10.9.0.9/24"]}, {"gateway": "10.8.0.1"}, False),
        ({"addresses": ["fd00::5/64"]}, {"gateway": "10.8.0.1"}, False),
        ({"addresses": []}, {"gateway": "10.8.0.1"}, False),
        ({"addressing": "DHCP"}, {"gateway": "10.8.0.1"}, True),
        ({}, {"gateway": "10.8.0.1"}, True),
    ],
    ids=str,
)
def test_gateway_must_be_in_a_network_of_the_addresses(
    interface: dict[str, object],
    route: dict[str, object],
    reached: bool,  # noqa: FBT001
) -> None:
    config = parse_network_config(
        {"interface": interface, "routes": [{"destination": "0.0.0.0/0", **route}]}
    )

    assert violations_for_device(config, ETHERNET) == (
        ()
        if reached
        else (
            f'routes[0].gateway: "{route["gateway"]}": is in no network of interface.addresses; '
            "correct it, or add a route to it with scope 253",
        )
    )


def test_link_layer_address_is_accepted_on_a_device_of_unknown_kind() -> None:
    config = parse_network_config({"interface": {"hardwareAddr": "02:00:00:00:00:01"}})

    assert violations_for_device(config, device("tun0", "none")) == ()


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        (
            FULL,
            [
                *("interface.name", "interface.addresses", "interface.mtu"),
                *("interface.hardwareAddr", "interface.gsoMaxSize", "interface.groMaxSize"),
                *("interface.gsoIPv4MaxSize", "interface.groIPv4MaxSize", "interface.arpIgnore"),
                *("interface.arpAnnounce", "routes", "rules", "neighbors"),
            ],
        ),
        ({"interface": {"forwarding": True}}, ["interface.forwarding"]),
        ({"interface": {"addresses": []}}, []),
        ({"rdma": {"charDevices": ["umad"], "name": "hca"}}, []),
        ({}, []),
    ],
    ids=["everything", "forwarding", "no-addresses", "rdma", "nothing"],
)
def test_interface_configuration_is_refused_on_a_device_without_an_interface(
    document: object, paths: list[str]
) -> None:
    lines = violations_for_device(parse_network_config(document), INFINIBAND_ONLY)

    assert [line.split(":")[0] for line in lines] == paths
    rule = "not possible on a device with RDMA but no network interface; remove it"
    assert all(line.endswith(rule) for line in lines)


def test_interface_configuration_is_accepted_on_a_device_with_an_interface() -> None:
    assert violations_for_device(parse_network_config(FULL), ETHERNET) == ()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(IB0, (), id="an InfiniBand interface"),
        pytest.param(
            ETHERNET,
            (
                "interface.type: IPoIB needs an InfiniBand interface, and eth1 is ether; remove "
                'it, or select devices by attributes["dra.net"].encapsulation == "infiniband"',
            ),
            id="an Ethernet one",
        ),
        pytest.param(
            INFINIBAND_ONLY,
            (
                "interface.type: IPoIB needs the device's own IPoIB interface as parent, and "
                "there is none; load the module ib_ipoib on the node, or remove it",
            ),
            id="none",
        ),
    ],
)
def test_ipoib_child_requires_an_ipoib_parent(given: Device, expected: tuple[str, ...]) -> None:
    config = parse_network_config({"interface": {"type": "IPoIB"}})

    assert violations_for_device(config, given) == expected


@pytest.mark.parametrize(
    ("rdma", "given", "expected"),
    [
        pytest.param({"name": "hca", "charDevices": ["umad"]}, IB0, (), id="with RDMA"),
        pytest.param(
            {"name": "hca", "charDevices": ["umad"]},
            ETHERNET,
            (
                "rdma.charDevices: not possible on a device without RDMA; remove it",
                "rdma.name: not possible on a device without RDMA; remove it",
            ),
            id="without",
        ),
        pytest.param({"charDevices": []}, ETHERNET, (), id="no setting"),
        pytest.param(
            {"name": "hca"},
            device("ib0", "infiniband", ("mlx5_0", "smi0")),
            (
                "rdma.name: the device has 2 RDMA devices (mlx5_0, smi0), and a name fits one; "
                "remove it",
            ),
            id="one name for two",
        ),
    ],
)
def test_rdma_block_requires_an_rdma_device(
    rdma: object, given: Device, expected: tuple[str, ...]
) -> None:
    assert violations_for_device(parse_network_config({"rdma": rdma}), given) == expected


def test_ipoib_child_refuses_an_rdma_name() -> None:
    document = {"interface": {"type": "IPoIB"}, "rdma": {"name": "hca"}}

    assert violations_for_device(parse_network_config(document), IB0) == (
        "rdma.name: not possible with interface.type: IPoIB, which leaves the RDMA device on the "
        "host; remove it",
    )


NAMED = parse_network_config({"rdma": {"name": "hca0"}})


def test_rdma_name_is_refused_in_shared_mode() -> None:
    assert violations_for_mode(NAMED, RdmaMode.SHARED) == (
        'rdma.name: "hca0": not possible while the node shares its RDMA devices with all pods; '
        "remove it, or start the node with 'options ib_core netns_mode=0'",
    )


@pytest.mark.parametrize(
    ("config", "mode"),
    [(NAMED, RdmaMode.EXCLUSIVE), (NAMED, None), (NetworkConfig(), RdmaMode.SHARED)],
)
def test_other_configurations_are_accepted_in_every_mode(
    config: NetworkConfig, mode: RdmaMode | None
) -> None:
    assert violations_for_mode(config, mode) == ()


@pytest.mark.parametrize(
    ("name", "rdma_devices", "protocol", "without_interface"),
    [
        ("eth1", (), "", False),
        ("eth1", ROCE, "roce", False),
        ("", (), "", True),
        ("", ROCE, "ib", False),
        ("", ("efa_0",), "", False),
        ("", ROCE, "roce", True),
        ("", ("siw0",), "iw", True),
    ],
)
def test_device_without_its_interface_on_the_host_is_reported(
    name: str,
    rdma_devices: tuple[str, ...],
    protocol: str,
    without_interface: bool,  # noqa: FBT001 a column
) -> None:
    reported: tuple[tuple[str, AttributeValue], ...] = (("dra.net/rdmaProtocol", protocol),)
    found = Device("nic", DeviceKey("pci", "0", name), reported if protocol else (), rdma_devices)

    reason = why_without_interface(found)

    assert (
        reason.startswith("has no network interface on the host: ")
        if without_interface
        else not reason
    )


@pytest.mark.parametrize(
    ("rdma", "kinds"),
    [
        ({}, (UVERBS, RDMA_CM)),
        ({"charDevices": ["umad"]}, (UMAD,)),
        ({"charDevices": []}, ()),
    ],
    ids=["the operator's", "the claim's", "none"],
)
def test_char_devices_of_the_claim_override_the_default_kinds(
    rdma: object, kinds: tuple[CharKind, ...]
) -> None:
    config = parse_network_config({"rdma": rdma})

    assert char_kinds(config, (UVERBS, RDMA_CM)) == kinds


def test_warnings_name_the_missing_files_and_the_remedy() -> None:
    assert missing_warning("mlx5_0", (UMAD, ISSM)) == (
        "mlx5_0: no device file of kind umad (load module ib_umad), issm (load module ib_umad; "
        "only InfiniBand ports have it); the containers go without"
    )
    assert "isolates nothing" in SHARED_MODE_WARNING
    assert "netns_mode=0" in SHARED_MODE_WARNING


PARENT = replace(
    ETHERNET,
    attributes=(*ETHERNET.attributes, ("dra.net/mtu", 1500), ("dra.net/childrenOnly", True)),
)


@pytest.mark.parametrize(
    ("interface", "given", "expected"),
    [
        pytest.param({"type": "MACVLAN", "mtu": 1500}, PARENT, "", id="within its parent's MTU"),
        pytest.param({"type": "IPVLAN", "addresses": []}, PARENT, "", id="no addresses"),
        pytest.param(
            {"type": "IPVLAN"},
            PARENT,
            "interface.addresses: type IPVLAN inherits none from the host; give them, or []",
            id="addresses not given",
        ),
        pytest.param(
            {"type": "VLAN", "vlan": {"id": 7}, "mtu": 1501},
            PARENT,
            "interface.mtu: 1501: is above that of eth1, the parent (1500); lower it",
            id="above its parent's MTU",
        ),
        pytest.param(
            {"type": "MACVLAN"},
            IB0,
            "MACVLAN needs an Ethernet interface, and the device has ib0 (infiniband); remove it",
            id="InfiniBand",
        ),
        pytest.param(
            {"type": "MACVLAN"}, INFINIBAND_ONLY, "and the device has none; remove it", id="none"
        ),
        pytest.param(
            {},
            PARENT,
            "interface.type: eth1 stays on the host (--parent-interfaces); use IPVLAN, MACVLAN or",
            id="a parent that stays",
        ),
        pytest.param({}, ETHERNET, "", id="a device that moves"),
    ],
)
def test_child_requires_a_parent_of_a_suitable_kind(
    interface: object, given: Device, expected: str
) -> None:
    found = violations_for_device(parse_network_config({"interface": interface}), given)

    assert [expected in line for line in found] == ([True] if expected else [])
