"""Command `status`: nodes, driver versions, and the devices of pods."""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from dra_shim.kubectl.cluster import (
    ClusterNode,
    DeviceKind,
    DeviceState,
    PlacedDevice,
    read_nodes,
)
from dra_shim.kubectl.source import ObjectSource, add_source_flags
from dranet_nri.component.output import (
    Style,
    Styles,
    add_output_flag,
    fields_of,
    print_lines,
    show_document,
    show_table,
)
from dranet_nri.model import DRIVER_NAME

EXAMPLES: Final = ("status", "status --output json", "status --from bundle/")
_NODES: Final = ("NODE", "DRIVER", "READY", "NICS", "FREE", "ALLOCATED", "UNHEALTHY", "GPUS")
_DEVICES: Final = ("NODE", "DEVICE", "INTERFACE", "RDMA", "STATE", "POD OR REASON")
STYLES: Final[Styles] = {
    "yes": Style.GOOD, "no": Style.BAD, DeviceState.ALLOCATED: Style.WARNING,
    DeviceState.UNHEALTHY: Style.BAD,
}  # fmt: skip


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_source_flags(parser)
    add_output_flag(parser)


def main(args: argparse.Namespace) -> int:
    """Print the nodes, then devices that are allocated or unhealthy.

    Returns:
        1 if a device is unhealthy or a driver is not ready, otherwise 0.

    Raises:
        DranetError: the cluster or the files cannot be read.
    """
    nodes = read_nodes(ObjectSource(args))
    bad = any(map(_is_bad, nodes))
    if show_document(args.output, lambda: {"nodes": [_document(node) for node in nodes]}):
        return 1 if bad else 0
    if not nodes:
        print_lines("no node publishes devices or runs the driver")
        return 0
    show_table([_NODES, *map(_node_row, nodes)], STYLES)
    rows = [row for node in nodes for row in _device_rows(node)]
    if rows:
        print_lines("")
        show_table([_DEVICES, *rows], STYLES)
    return 1 if bad else 0


def _is_bad(node: ClusterNode) -> bool:
    unhealthy = any(device.taints for device in _driver_devices(node.devices))
    return unhealthy or bool(node.version and not node.ready)


def _driver_devices(devices: Iterable[PlacedDevice]) -> list[PlacedDevice]:
    return [device for device in devices if device.id[0] == DRIVER_NAME]


def _node_row(node: ClusterNode) -> tuple[str, ...]:
    nics = _driver_devices(node.devices)
    states = Counter(device.state for device in nics)
    gpus = node.of_kind(DeviceKind.GPU)
    free = sum(gpu.state is DeviceState.FREE for gpu in gpus)
    return (
        node.name,
        node.version or "-",
        "-" if not node.version else "yes" if node.ready else "no",
        str(len(nics)),
        *(str(states[state]) for state in DeviceState),
        f"{free} of {len(gpus)} free" if gpus else "-",
    )


def _device_rows(node: ClusterNode) -> Iterator[tuple[str, ...]]:
    for device in _driver_devices(node.devices):
        for text in device.consumers or device.taints:
            yield (
                node.name, device.id[2], device.interface or "-", device.rdma_device or "-",
                str(device.state), text,
            )  # fmt: skip


def _document(node: ClusterNode) -> dict[str, object]:
    return {
        "name": node.name,
        "driverVersion": node.version,
        "ready": node.ready,
        "devices": [device_document(device) for device in node.devices],
    }


def device_document(device: PlacedDevice) -> dict[str, object]:
    """Return a device as plain JSON values."""
    fields = fields_of(device)
    fields.pop("id")
    driver, pool, name = device.id
    return {"driver": driver, "pool": pool, "device": name, **fields, "state": str(device.state)}
