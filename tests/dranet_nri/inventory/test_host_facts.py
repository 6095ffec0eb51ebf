"""Facts of devices in pods, which are kept from the last scan on the host."""

from dataclasses import replace

from dranet_nri.inventory import Inventory, merge_recorded
from dranet_nri.model import AttributeValue, Device, DeviceKey
from tests.dranet_nri.inventory.parts import PF, names

RECORDED = Device(
    "pci-0000-8a-00-0",
    DeviceKey("pci", PF, "eth1", PF),
    (("dra.net/ifName", "eth1"), ("dra.net/pciAddress", PF), ("dra.net/rdma", True)),
    ("mlx5_0",),
)


def live(ifname: str, held: tuple[str, ...], /, **attributes: AttributeValue) -> Inventory:
    found = {f"dra.net/{name}": value for name, value in attributes.items()}
    key = DeviceKey("pci", PF, ifname, PF)
    return Inventory((Device(RECORDED.name, key, tuple(sorted(found.items())), held),))


def test_device_in_a_pod_keeps_its_earlier_facts() -> None:
    merged = merge_recorded(
        live("", (), pciAddress=PF, rdma=False, driver="mlx5_core"), (RECORDED,)
    )

    (device,) = merged.devices
    assert device.key == RECORDED.key
    assert device.rdma_devices == ("mlx5_0",)
    assert device.attributes == (
        ("dra.net/driver", "mlx5_core"),
        ("dra.net/ifName", "eth1"),
        ("dra.net/pciAddress", PF),
        ("dra.net/rdma", True),
    )


def test_device_with_only_its_rdma_device_in_a_pod_keeps_its_live_key() -> None:
    merged = merge_recorded(live("eth9", (), ifName="eth9", rdma=False), (RECORDED,))

    assert merged.devices[0].key.name == "eth9"
    assert merged.devices[0].rdma_devices == ("mlx5_0",)


def test_device_with_only_its_net_device_in_a_pod_keeps_its_live_rdma_devices() -> None:
    merged = merge_recorded(live("", ("mlx5_7",), rdma=True), (RECORDED,))

    assert merged.devices[0].key.name == "eth1"
    assert merged.devices[0].rdma_devices == ("mlx5_7",)


def test_shared_rdma_device_has_its_live_attributes() -> None:
    recorded = replace(
        RECORDED,
        attributes=(*RECORDED.attributes, ("dra.net/ibPortState", "ACTIVE"), ("dra.net/x", 1)),
    )
    before = live("", ("mlx5_0",), rdma=True, rdmaDevice="mlx5_0", driver="mlx5_core")

    (device,) = merge_recorded(before, (recorded,)).devices

    assert dict(device.attributes) == {
        "dra.net/driver": "mlx5_core",
        "dra.net/ifName": "eth1",
        "dra.net/pciAddress": PF,
        "dra.net/rdma": True,
        "dra.net/rdmaDevice": "mlx5_0",
        "dra.net/x": 1,
    }


def test_live_and_earlier_facts_stay_within_the_limit_together() -> None:
    many = {f"x{number:02}": number for number in range(31)}
    recorded = replace(RECORDED, attributes=(*RECORDED.attributes, ("dra.net/nodeGUID", "0:0:0:1")))

    (device,) = merge_recorded(live("", (), **many), (recorded,)).devices

    assert "dra.net/nodeGUID" not in dict(device.attributes)


def test_device_on_the_host_has_its_live_facts() -> None:
    inventory = live("eth9", ("mlx5_3",), ifName="eth9")

    assert merge_recorded(inventory, (RECORDED,)) == inventory


def test_allocated_virtual_device_in_a_pod_stays_listed() -> None:
    dummy = Device("dummy0", DeviceKey("", "", "dummy0"))

    merged = merge_recorded(live("eth1", ("mlx5_0",)), (dummy,))

    assert names(merged) == ["dummy0", "pci-0000-8a-00-0"]


def test_allocated_device_that_became_unsafe_is_excluded() -> None:
    inventory = Inventory((), ((RECORDED.name, "eth1: enslaved to bond0"),))

    assert merge_recorded(inventory, (RECORDED,)) == inventory


def test_allocated_device_that_lost_its_driver_stays_listed() -> None:
    inventory = Inventory(
        (),
        ((RECORDED.name, "no driver is bound"), ("mlx5_9", "without a function")),
        frozenset({RECORDED.name}),
    )

    merged = merge_recorded(inventory, (RECORDED,))

    assert merged.devices == (RECORDED,)
    assert merged.excluded == (("mlx5_9", "without a function"),)
    assert merge_recorded(inventory, ()) == inventory
