"""The machine's hardware, read without the product's code: sysfs, iproute2 and pci.ids.

On the machine, `python3 -m tests.system.cluster_vm.hardware` prints, for each PCI function with a
network driver of the tests, the attributes that its device in a ResourceSlice must have, as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

PCI: Final = Path("/sys/bus/pci/drivers")
PCI_IDS: Final = "/usr/share/misc/pci.ids"
Facts = dict[str, object]


def functions() -> dict[str, Facts]:
    """Return the attributes of each function, by the name of its device."""
    links = {row["ifname"]: row for row in _json("ip", "-j", "addr")}
    rdma = {row["netdev"]: row["ifname"] for row in _json("rdma", "-j", "link")}
    return {
        "pci-" + path.name.translate(str.maketrans(":.", "--")): {
            **dict(_function(path)),
            **dict(_link(links[next((path / "net").iterdir()).name], rdma)),
        }
        for path in sorted(PCI.glob("igb*/0000:*"))
    }


def _function(path: Path) -> Iterator[tuple[str, object]]:
    def text(name: str) -> str:
        return (path / name).read_text().strip()

    vendor, device = text("vendor").removeprefix("0x"), text("device").removeprefix("0x")
    yield "dra.net/pciAddress", path.name
    yield "resource.kubernetes.io/pciBusID", path.name
    yield "resource.kubernetes.io/pcieRoot", path.resolve().parts[3]  # /sys/devices/ROOT/…
    yield "resource.kubernetes.io/numaNode", int(text("numa_node"))
    yield "dra.net/numaNode", int(text("numa_node"))
    yield "dra.net/driver", (path / "driver").resolve().name
    yield "dra.net/pciSubsystem", text("subsystem_device").removeprefix("0x")
    yield "dra.net/pciVendor", _words(f"/^{vendor} /p")
    yield "dra.net/pciDevice", _words(f"/^{vendor} /,/^[0-9a-f]/s/^\\t{device} /{device} /p")
    virtual = (path / "physfn").exists()
    yield "dra.net/isSriovVf", virtual or None
    yield "dra.net/sriov", not virtual
    yield "dra.net/sriovVfs", None if virtual else int(text("sriov_numvfs"))


def _link(row: Any, rdma: dict[str, str]) -> Iterator[tuple[str, object]]:
    yield "dra.net/ifName", row["ifname"]
    yield "dra.net/mac", row["address"]
    yield "dra.net/mtu", row["mtu"]
    yield "dra.net/state", row["operstate"].lower()
    cidrs = [
        f"{address['local']}/{address['prefixlen']}"
        for address in row["addr_info"]
        if address["family"] == "inet"
    ]
    yield "dra.net/ipv4", ",".join(cidrs) or None
    yield "dra.net/rdma", row["ifname"] in rdma
    yield "dra.net/rdmaDevice", rdma.get(row["ifname"])


@cache
def _words(script: str) -> str:
    """Return what follows an id in the database, in its 64 bytes."""
    done = subprocess.run(
        ("sed", "-n", script, PCI_IDS), check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()[0].partition(" ")[2].strip()[:64]


def _json(*command: str) -> list[dict[str, Any]]:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


if __name__ == "__main__":
    json.dump(functions(), sys.stdout)
