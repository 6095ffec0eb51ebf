"""Command `inventory`: the node's devices for pods, those withheld, and the reasons."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dranet_nri.component.output import (
    add_output_flag,
    print_lines,
    show_document,
    show_table,
    table,
)
from dranet_nri.facts.scan import read_host
from dranet_nri.inventory import Inventory, RdmaDeviceFacts, RdmaPortFacts, inventory_from_facts
from dranet_nri.model import AttributeValue, Device, DeviceKey, Version

EXAMPLES: Final = (
    "inventory",
    "inventory --output json > inventory.json",
)
_COLUMNS = ("DEVICE", "INTERFACE", "STATE", "DRIVER", "NUMA", "PCIE ROOT", "RDMA", "ADDRESSES")
_RDMA_COLUMNS = ("RDMA", "PORT", "PROTOCOL", "STATE", "PHYSICAL", "RATE", "SUBNET", "LID", "PKEYS")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--sysfs", type=Path, default=Path("/sys"), help="mount of sysfs")
    add_output_flag(parser)
    parser.add_argument(
        "--azure-size", default="", metavar="SIZE",
        help="Azure VM size of this node, which determines NUMA nodes and GPUs of NICs; without "
        "the flag, they are derived from the GPUs, if the VM has any",
    )  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Scan the host and print its devices.

    Raises:
        KernelError: the kernel refused a dump.
        InvalidValueError: the VM size is unknown.
    """
    facts = read_host(args.sysfs, args.azure_size)
    inventory = inventory_from_facts(facts)
    return print_inventory(args.output, inventory, facts.rdma)


def print_inventory(form: str, inventory: Inventory, rdma: Sequence[RdmaDeviceFacts] = ()) -> int:
    """Print the inventory and return the exit code, always 0.

    Args:
        form: value of --output.
        inventory: the current inventory.
        rdma: all RDMA devices on the host.
    """
    if show_document(form, lambda: _document(inventory, rdma)):
        return 0
    if inventory.devices:
        show_table([_COLUMNS, *(_row(device) for device in inventory.devices)])
    else:
        print_lines("No device is published.")
    if rdma:
        rows = [
            _rdma_row(device, port)
            for device in sorted(rdma, key=lambda device: device.name)
            for port in device.ports
        ]
        print_lines("")
        show_table([_RDMA_COLUMNS, *rows])
    if inventory.excluded:
        rows = [(f"  {name}", reason) for name, reason in inventory.excluded]
        print_lines("", "Not published:", *table(rows))
    return 0


def _document(inventory: Inventory, rdma: Sequence[RdmaDeviceFacts]) -> dict[str, object]:
    return {
        "devices": [
            {
                "name": device.name,
                "key": _key(device.key),
                "attributes": {name: _plain(value) for name, value in device.attributes},
                "rdmaDevices": list(device.rdma_devices),
            }
            for device in inventory.devices
        ],
        "excluded": [{"name": name, "reason": reason} for name, reason in inventory.excluded],
        "rdma": [_rdma_document(device) for device in rdma],
    }


def _key(key: DeviceKey) -> dict[str, object]:
    port = {} if key.port is None else {"port": key.port}
    return {"bus": key.bus, "parent": key.parent, "name": key.name, "pci": key.pci, **port}


def _rdma_document(device: RdmaDeviceFacts) -> dict[str, object]:
    return {
        "name": device.name,
        "index": device.index,
        "nodeType": device.node_type,
        "protocol": device.protocol,
        "firmware": device.fw_version,
        "nodeGUID": device.node_guid,
        "sysImageGUID": device.sys_image_guid,
        "partOf": device.part_of,
        "pci": device.pci,
        "ports": [
            {
                "number": port.number,
                "state": port.state,
                "physState": port.phys_state,
                "linkLayer": port.link_layer,
                "rate": port.rate,
                "rateGbps": port.rate_gbps,
                "lid": port.lid,
                "smLid": port.sm_lid,
                "subnetPrefix": port.subnet_prefix,
                "portGUID": port.guid,
                "pkeys": [f"0x{pkey:04x}" for pkey in port.pkeys],
                "netdevs": list(port.netdevs),
            }
            for port in device.ports
        ],
    }


def _rdma_row(device: RdmaDeviceFacts, port: RdmaPortFacts) -> tuple[str, ...]:
    return (
        device.name,
        str(port.number),
        device.protocol or "-",
        port.state or "-",
        port.phys_state or "-",
        port.rate or "-",
        port.subnet_prefix or "-",
        str(port.lid or "-"),
        ",".join(f"0x{pkey:04x}" for pkey in port.pkeys) or "-",
    )


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
