"""The verb `inventory`: what this node has for pods, and what it keeps for itself and why."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from dranet_nri.facts.scan import scan
from dranet_nri.inventory import Inventory
from dranet_nri.model import AttributeValue, Device, Version

_COLUMNS = ("DEVICE", "INTERFACE", "STATE", "DRIVER", "NUMA", "PCIE ROOT", "RDMA", "ADDRESSES")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument("--sysfs", type=Path, default=Path("/sys"), help="mount of sysfs")
    parser.add_argument("--output", choices=("table", "json"), default="table", help="form")


def main(args: argparse.Namespace) -> int:
    """Scan the host and print what it has.

    Raises:
        KernelError: the kernel refused a dump.
    """
    return print_inventory(scan(args.sysfs), as_json=args.output == "json")


def print_inventory(inventory: Inventory, *, as_json: bool) -> int:
    """Print the inventory and return the exit code, always 0.

    Args:
        inventory: of this moment.
        as_json: one JSON document instead of the tables.
    """
    if as_json:
        print(json.dumps(_document(inventory), indent=2))
        return 0
    if inventory.devices:
        print(_table([_COLUMNS, *(_row(device) for device in inventory.devices)]))
    else:
        print("No device can be given to pods.")
    if inventory.excluded:
        print("\nKept for the node:")
        rows = [(f"  {name}", reason) for name, reason in inventory.excluded]
        print(_table(rows))
    return 0


def _document(inventory: Inventory) -> dict[str, object]:
    return {
        "devices": [
            {
                "name": device.name,
                "key": {
                    "bus": device.key.bus,
                    "parent": device.key.parent,
                    "name": device.key.name,
                    "pci": device.key.pci,
                },
                "attributes": {name: _plain(value) for name, value in device.attributes},
                "rdmaDevices": list(device.rdma_devices),
            }
            for device in inventory.devices
        ],
        "excluded": [{"name": name, "reason": reason} for name, reason in inventory.excluded],
    }


def _plain(value: AttributeValue) -> bool | int | str:
    return value.text if isinstance(value, Version) else value


def _row(device: Device) -> tuple[str, ...]:
    names = ("ipv4", "ipv6")
    found = (device.attribute(f"dra.net/{name}") for name in names)
    return (
        device.name,
        _shown(device, "dra.net/ifName"),
        _shown(device, "dra.net/state"),
        _shown(device, "dra.net/driver"),
        _shown(device, "resource.kubernetes.io/numaNode"),
        _shown(device, "resource.kubernetes.io/pcieRoot"),
        ",".join(device.rdma_devices) or "-",
        ",".join(str(value) for value in found if value) or "-",
    )


def _shown(device: Device, name: str) -> str:
    value = device.attribute(name)
    return "-" if value is None else str(value)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines)
