import json

import pytest

from dranet_nri.commands.inventory import print_inventory
from dranet_nri.inventory import Inventory
from dranet_nri.model import Device, DeviceKey, Version

FULL = Inventory(
    (
        Device("dummy0", DeviceKey("", "", "dummy0"), (("dra.net/ifName", "dummy0"),)),
        Device(
            "pci-0000-8a-00-0",
            DeviceKey("pci", "0000:8a:00.0", "eth1", "0000:8a:00.0"),
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


def test_people_get_a_table_and_the_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_inventory(FULL, as_json=False) == 0

    assert capsys.readouterr().out == (
        "DEVICE            INTERFACE  STATE  DRIVER     NUMA  PCIE ROOT   RDMA    ADDRESSES\n"
        "dummy0            dummy0     -      -          -     -           -       -\n"
        "pci-0000-8a-00-0  eth1       up     mlx5_core  1     pci0000:89  mlx5_0  "
        "10.0.0.1/8,fd00::1/64\n"
        "\n"
        "Kept for the node:\n"
        "  lo                loopback\n"
        "  pci-0000-00-03-0  eth0: the node's default route goes through it\n"
    )


def test_an_empty_inventory_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_inventory(Inventory(), as_json=False)

    assert capsys.readouterr().out == "No device can be given to pods.\n"


def test_scripts_get_every_attribute_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_inventory(FULL, as_json=True)

    document = json.loads(capsys.readouterr().out)
    assert document["devices"][1]["attributes"]["dra.net/firmware"] == "22.39.1002"
    assert document["devices"][1]["attributes"]["resource.kubernetes.io/numaNode"] == 1
    assert document["devices"][1]["rdmaDevices"] == ["mlx5_0"]
    assert document["excluded"][0] == {"name": "lo", "reason": "loopback"}
