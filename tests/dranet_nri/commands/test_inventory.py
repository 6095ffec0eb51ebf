"""The command inventory: its tables, its JSON, and the parser of the shim."""

import json
from dataclasses import replace

import pytest

from dra_shim.scheduling.inputs import parse_inventory
from dranet_nri.commands.inventory import print_inventory
from dranet_nri.inventory import Inventory, RdmaDeviceFacts, RdmaPortFacts
from dranet_nri.model import Device, DeviceKey, Version

pytestmark = pytest.mark.process


FULL = Inventory(
    (
        Device("dummy0", DeviceKey("", "", "dummy0"), (("dra.net/ifName", "dummy0"),)),
        Device(
            "pci-0000-8a-00-0",
            DeviceKey("pci", "0000:8a:00.0", "eth1", "0000:8a:00.0", 0),
            (
                ("dra.net/driver", "mlx5_core"),
                ("dra.net/firmware", Version("22.39.1002")),
                ("dra.net/ifName", "eth1"),
                ("dra.net/ipv4", "10.0.0.1/8"),
                ("dra.net/ipv6", "fd00::1/64"),
                ("dra.net/state", "up"),
                ("resource.kubernetes.io/numaNode", 1),
                ("resource.kubernetes.io/pcieRoot", "pci0000:89"),
            ),
            ("mlx5_0",),
        ),
    ),
    (("lo", "loopback"), ("pci-0000-00-03-0", "eth0: the node's default route goes through it")),
)


HCA = RdmaDeviceFacts(
    name="mlx5_0",
    pci="0000:8a:00.0",
    node_type="CA",
    node_guid="0c42:a103:0065:5a1e",
    ports=(
        RdmaPortFacts(
            1, "ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand", (), "LinkUp", 400, 26, 1,
            "fe80:0000:0000:0003", "0c42:a103:0065:5a1f", (0x8012, 0x7FFF),
        ),
        RdmaPortFacts(2),
    ),
    sys_image_guid="0c42:a103:0065:5a10",
    fw_version="28.39.1002",
    protocol="ib",
    index=3,
)  # fmt: skip


def test_table_output_has_devices_and_exclusion_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_inventory("table", FULL) == 0

    assert capsys.readouterr().out == (
        "DEVICE            INTERFACE  STATE  DRIVER     NUMA  PCIE ROOT   RDMA    ADDRESSES\n"
        "dummy0            dummy0     -      -          -     -           -       -\n"
        "pci-0000-8a-00-0  eth1       up     mlx5_core  1     pci0000:89  mlx5_0  "
        "10.0.0.1/8,fd00::1/64\n"
        "\n"
        "Not published:\n"
        "  lo                loopback\n"
        "  pci-0000-00-03-0  eth0: the node's default route goes through it\n"
    )


def test_empty_inventory_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    print_inventory("table", Inventory())

    assert capsys.readouterr().out == "No device is published.\n"


def test_json_output_has_every_attribute(capsys: pytest.CaptureFixture[str]) -> None:
    print_inventory("json", FULL)

    document = json.loads(capsys.readouterr().out)
    assert document["devices"][1]["attributes"]["dra.net/firmware"] == "22.39.1002"
    assert document["devices"][1]["attributes"]["resource.kubernetes.io/numaNode"] == 1
    assert document["devices"][1]["rdmaDevices"] == ["mlx5_0"]
    assert document["excluded"][0] == {"name": "lo", "reason": "loopback"}


def test_table_output_has_the_ports_of_rdma_devices(capsys: pytest.CaptureFixture[str]) -> None:
    print_inventory(
        "table", Inventory(), (RdmaDeviceFacts("efa_0", ports=(RdmaPortFacts(1),)), HCA)
    )

    assert capsys.readouterr().out == (
        "No device is published.\n"
        "\n"
        "RDMA    PORT  PROTOCOL  STATE   PHYSICAL  RATE                 SUBNET               LID"
        "  PKEYS\n"
        "efa_0   1     -         -       -         -                    -                    -  "
        "  -\n"
        "mlx5_0  1     ib        ACTIVE  LinkUp    400 Gb/sec (4X NDR)  fe80:0000:0000:0003  26 "
        "  0x8012,0x7fff\n"
        "mlx5_0  2     ib        -       -         -                    -                    -  "
        "  -\n"
    )


def test_json_output_has_every_fact_of_an_rdma_device(capsys: pytest.CaptureFixture[str]) -> None:
    print_inventory("json", Inventory(), (HCA,))

    (device,) = json.loads(capsys.readouterr().out)["rdma"]
    first, second = device.pop("ports")
    assert device == {
        "name": "mlx5_0",
        "index": 3,
        "nodeType": "CA",
        "protocol": "ib",
        "firmware": "28.39.1002",
        "nodeGUID": "0c42:a103:0065:5a1e",
        "sysImageGUID": "0c42:a103:0065:5a10",
        "partOf": "",
        "pci": "0000:8a:00.0",
    }
    assert first == {
        "number": 1,
        "state": "ACTIVE",
        "physState": "LinkUp",
        "linkLayer": "InfiniBand",
        "rate": "400 Gb/sec (4X NDR)",
        "rateGbps": 400,
        "lid": 26,
        "smLid": 1,
        "subnetPrefix": "fe80:0000:0000:0003",
        "portGUID": "0c42:a103:0065:5a1f",
        "pkeys": ["0x8012", "0x7fff"],
        "netdevs": [],
    }
    assert second["number"] == 2


def test_printed_inventory_is_parsed_by_the_shim(capsys: pytest.CaptureFixture[str]) -> None:
    plain = replace(FULL, devices=FULL.devices[:1])

    print_inventory("json", plain, (HCA,))

    assert parse_inventory(capsys.readouterr().out) == plain
