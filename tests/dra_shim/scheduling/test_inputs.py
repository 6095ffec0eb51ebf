"""The devices to allocate from: an inventory file, the records, dranet's filter."""

import pytest

from dra_shim.pool import DeviceUsage, node_inventory
from dra_shim.scheduling.inputs import parse_inventory
from dranet_nri.errors import ConfigError
from dranet_nri.inventory import Inventory
from dranet_nri.model import DEFAULT_FILTER, Device, DeviceKey

FILE = """{
  "devices": [
    {"name": "veth0", "attributes": {"dra.net/ifName": "veth0", "dra.net/type": "veth"}},
    {"name": "pci-0000-01-00-0", "rdmaDevices": ["mlx5_0"],
     "attributes": {"dra.net/ifName": "eth1", "dra.net/pciAddress": "0000:01:00.0",
                    "dra.net/mtu": 1500}},
    {"name": "net-abc", "key": {"bus": "virtio", "parent": "virtio0", "name": "ens4",
                                "port": 1}},
    {"name": "bare"}
  ],
  "excluded": [{"name": "lo", "reason": "loopback"}, {"name": "eth0", "reason": "uplink"}]
}"""


def test_printed_inventory_is_read_back_in_order() -> None:
    inventory = parse_inventory(FILE)

    assert inventory == Inventory(
        (
            Device("bare", DeviceKey("", "", "bare")),
            Device("net-abc", DeviceKey("virtio", "virtio0", "ens4", port=1)),
            Device(
                "pci-0000-01-00-0",
                DeviceKey("pci", "0000:01:00.0", "eth1", "0000:01:00.0"),
                (("dra.net/ifName", "eth1"), ("dra.net/mtu", 1500),
                 ("dra.net/pciAddress", "0000:01:00.0")),
                ("mlx5_0",),
            ),
            Device("veth0", DeviceKey("", "", "veth0"),
                   (("dra.net/ifName", "veth0"), ("dra.net/type", "veth"))),
        ),
        (("eth0", "uplink"), ("lo", "loopback")),
    )  # fmt: skip
    assert parse_inventory("{}") == Inventory()


def test_every_violation_of_an_inventory_file_is_reported() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_inventory(
            '{"devices": [{"name": "A", "attributes": {"x": [1]}}, {}], "exclude": [], '
            '"excluded": [{"name": 1}, {}, 3]}'
        )

    assert [line.split(": ")[0] for line in caught.value.violations] == [
        "devices[0].name",
        "devices[0].attributes.x",
        "devices[1]",
        "exclude",
        "excluded[0].name",
        "excluded[2]",
    ]


def test_filtered_devices_are_named_and_devices_in_pods_stay() -> None:
    in_pod = Device("dummy0", DeviceKey("", "", "dummy0"))

    node_devices = node_inventory(
        parse_inventory(FILE),
        [in_pod],
        DeviceUsage({"dummy0": "claim a/b of pod a/p"}),
        DEFAULT_FILTER,
    )

    assert [device.name for device in node_devices.devices] == [
        "bare", "dummy0", "net-abc", "pci-0000-01-00-0",
    ]  # fmt: skip
    assert node_devices.excluded == (
        ("eth0", "uplink"),
        ("lo", "loopback"),
        ("veth0", "dropped by --filter"),
    )


@pytest.mark.parametrize(
    ("shared", "in_use"),
    [
        pytest.param("", {"bare": "claim a/b of pod a/p"}, id="shared no longer"),
        pytest.param("true", {}, id="shared"),
    ],
)
def test_shared_device_is_not_allocated_exclusively(shared: str, in_use: dict[str, str]) -> None:
    uses = DeviceUsage(shares={"bare": "claim a/b of pod a/p"})

    node_devices = node_inventory(parse_inventory(FILE), [], uses, "", shared)

    assert node_devices.in_use == in_use
    assert ("bare" in node_devices.shared) is bool(shared)


@pytest.mark.parametrize("shared", ["", "true"])
def test_parent_device_is_offered_to_several_claims(
    shared: str,
) -> None:
    parent = Device("eth7", DeviceKey("", "", "eth7"))
    inventory = Inventory((), (("eth7", "carries eth7.5"),), parents=(parent,))

    node_devices = node_inventory(inventory, [], DeviceUsage(), "", shared)

    assert node_devices.devices == ((parent,) if shared else ())
    assert bool(node_devices.excluded) is not bool(shared)
