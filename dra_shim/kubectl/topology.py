"""Command `topology`: distances between GPUs and NICs of a node, from its slices only."""

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dra_shim.kubectl.cluster import (
    ClusterNode,
    DeviceKind,
    PlacedDevice,
    node_named,
    read_nodes,
)
from dra_shim.kubectl.picture import draw_node
from dra_shim.kubectl.source import ObjectSource, add_source_flags
from dra_shim.kubectl.status import STYLES, device_document
from dranet_nri.component.output import (
    add_output_flag,
    naming,
    print_lines,
    show_document,
    show_table,
)

EXAMPLES: Final = (
    "topology node-a",
    "topology node-a --svg node-a.svg",
    "topology a --from saved/",
)
_LEGEND: Final = (
    "X     the device itself",
    "ROOT  same PCIe root",
    "NODE  same NUMA node, other PCIe root",
    "SYS   other NUMA node",
    "?     not in the slices",
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("node", metavar="NODE", help="the node")
    parser.add_argument("--svg", metavar="FILE", type=Path, help="also draw the node as a picture")
    add_source_flags(parser)
    add_output_flag(parser)


def main(args: argparse.Namespace) -> int:
    """Print the matrix of GPUs and NICs and the list of devices.

    Raises:
        DranetError: the cluster or the files cannot be read, or no such node has devices.
        OSError: the picture cannot be written.
    """
    node = node_named(read_nodes(ObjectSource(args)), args.node)
    if args.svg:
        with naming(str(args.svg)):
            args.svg.write_text(draw_node(node), "utf-8")
    if show_document(args.output, lambda: _document(node)):
        return 0
    devices = _shown(node)
    if not devices:
        print_lines(f"node {node.name} has no GPUs and no NICs with a PCI address")
        return 0
    labels = labels_of(devices)
    for part in _parts(labels):
        rows = [
            (label, *(relation(row, column) for column in devices[part]), _numa(row))
            for label, row in zip(labels, devices, strict=True)
        ]
        show_table([("", *labels[part], "NUMA"), *rows])
        print_lines("")
    print_lines(*_LEGEND, "")
    show_table([_COLUMNS, *map(_row, labels, devices)], STYLES)
    return 0


_COLUMNS: Final = ("", "DEVICE", "INTERFACE", "RDMA", "RAIL", "PCIE ROOT", "STATE", "POD OR REASON")


def _parts(labels: Sequence[str]) -> Iterator[slice]:
    """Yield the columns of the matrix in parts that fit the terminal; elsewhere all at once."""
    most = len(labels)
    if sys.stdout.isatty():
        width = len(max(labels, key=len)) + 2
        # A part has two more columns: the labels of the rows and the NUMA nodes.
        most = max(shutil.get_terminal_size().columns // width - 2, 1)
    for start in range(0, len(labels), most):
        yield slice(start, start + most)


def relation(first: PlacedDevice, second: PlacedDevice) -> str:
    """Return the distance of two devices: X, ROOT, NODE, SYS or ?; see the legend."""
    if first.id == second.id:
        return "X"
    if first.root and first.root == second.root:
        return "ROOT"
    if first.numa_node is None or second.numa_node is None:
        return "?"
    return "NODE" if first.numa_node == second.numa_node else "SYS"


def labels_of(devices: Sequence[PlacedDevice]) -> list[str]:
    """Return short names: GPU0, NIC0 and so on, in the order of the devices."""
    counts = dict.fromkeys(DeviceKind, 0)
    labels = []
    for device in devices:
        labels.append(f"{device.kind.upper()}{counts[device.kind]}")
        counts[device.kind] += 1
    return labels


def _shown(node: ClusterNode) -> list[PlacedDevice]:
    """Return the GPUs, then the NICs."""
    return [*node.of_kind(DeviceKind.GPU), *node.of_kind(DeviceKind.NIC)]


def _numa(device: PlacedDevice) -> str:
    return "?" if device.numa_node is None else str(device.numa_node)


def _row(label: str, device: PlacedDevice) -> tuple[str, ...]:
    rail = "-" if device.rail is None else str(device.rail)
    return (
        label, device.id[2], device.interface or "-", device.rdma_device or "-", rail,
        device.root or "-", str(device.state), ", ".join(device.consumers or device.taints) or "-",
    )  # fmt: skip


def _document(node: ClusterNode) -> dict[str, object]:
    devices = _shown(node)
    labels = labels_of(devices)
    return {
        "node": node.name,
        "devices": [
            {"label": label, **device_document(device)}
            for label, device in zip(labels, devices, strict=True)
        ],
        "relations": {
            label: {
                other: relation(row, column) for other, column in zip(labels, devices, strict=True)
            }
            for label, row in zip(labels, devices, strict=True)
        },
    }
