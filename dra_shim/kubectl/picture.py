"""Topology of a node as an SVG picture: sockets, PCIe roots, GPUs, NICs, RDMA devices and rails.

A band is a socket (NUMA node), a box in the band a PCIe root, a tile in the box a device. The
colour of a tile is the device's state; the tile has the name of the pod that owns the device.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Final

from dra_shim.kubectl.cluster import ClusterNode, DeviceKind, DeviceState, PlacedDevice

_COLOURS: Final = {
    DeviceState.FREE: "#e8f5e9", DeviceState.ALLOCATED: "#bbdefb", DeviceState.UNHEALTHY: "#ffcdd2",
}  # fmt: skip
_BORDERS: Final = {DeviceKind.GPU: "#2e7d32", DeviceKind.NIC: "#1565c0"}
_COLUMNS: Final = 4  # PCIe roots side by side
_TILE: Final = (204, 58)  # width and height; all sizes are pixels
_GAP: Final = 8
_TITLE: Final = 24
_MAX_BOLD: Final = 22  # characters of the first line in a tile
_MAX_PLAIN: Final = 28  # characters of the other lines
_LETTER: Final = 10  # width of a letter in the title, at most on average


def draw_node(node: ClusterNode) -> str:
    """Return the picture as SVG text."""
    devices = [device for device in node.devices if device.kind is not DeviceKind.OTHER]
    sockets = [
        (numa, list(members))
        for numa, members in groupby(devices, key=lambda device: device.numa_node)
    ]
    most = max((len(set(map(_root_of, members))) for _, members in sockets), default=1)
    width = min(_COLUMNS, max(most, 2)) * (_TILE[0] + 3 * _GAP) + 5 * _GAP
    title = f"Node {node.name}"
    width = max(width, _LETTER * len(title) + 4 * _GAP)
    parts: list[str] = []
    y = 3 * _GAP + _TITLE
    for numa, members in sockets:
        drawn, height = _socket(numa, members, y, width)
        parts += drawn
        y += height + _GAP
    height = y + _TITLE + _GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            _text(2 * _GAP, 3 * _GAP + 6, title, 'font-size="16"'),
            *parts,
            *_legend(y + _GAP),
            "</svg>",
            "",
        ]
    )


def _socket(
    numa: int | None, devices: Sequence[PlacedDevice], top: int, width: int
) -> tuple[list[str], int]:
    """Return the elements of a band, and its height."""
    title = "NUMA node unknown" if numa is None else f"NUMA node {numa}"
    roots = [list(members) for _, members in groupby(devices, key=_root_of)]
    # Roots with GPUs come first, roots with only NICs below them.
    roots.sort(key=lambda members: all(device.kind is DeviceKind.NIC for device in members))
    parts: list[str] = []
    y = top + _TITLE + _GAP
    for start in range(0, len(roots), _COLUMNS):
        row = roots[start : start + _COLUMNS]
        rows = max(map(len, row))
        height = _TITLE + rows * (_TILE[1] + _GAP) + _GAP // 2
        for column, members in enumerate(row):
            x = 3 * _GAP + column * (_TILE[0] + 3 * _GAP)
            parts += _root(members, x, y, height)
        y += height + _GAP
    band = _box(_GAP, top, width - 2 * _GAP, y - top, "#fafafa", "#9e9e9e")
    return [band, _text(2 * _GAP + 4, top + 18, title, 'font-weight="bold"'), *parts], y - top


def _root_of(device: PlacedDevice) -> object:
    """Return the key of a device's box; a device without a root has its own box."""
    return device.root or device.id


def _root(devices: Sequence[PlacedDevice], x: int, y: int, height: int) -> Iterator[str]:
    yield _box(x, y, _TILE[0] + 2 * _GAP, height, "white", "#757575")
    root = devices[0].root
    yield _text(x + _GAP, y + 16, f"PCIe root {root}" if root else "PCIe root unknown")
    for row, device in enumerate(devices):
        yield from _tile(device, x + _GAP, y + _TITLE + row * (_TILE[1] + _GAP))


def _tile(device: PlacedDevice, x: int, y: int) -> Iterator[str]:
    lines = _lines(device)
    yield f"<g><title>{escape(chr(10).join(lines))}</title>"
    yield _box(x, y, *_TILE, _COLOURS[device.state], _BORDERS[device.kind])
    for row, line in enumerate(lines):
        most, style = (_MAX_PLAIN, 'font-size="11"') if row else (_MAX_BOLD, 'font-weight="bold"')
        yield _text(x + 6, y + 17 + 16 * row, _short(line, most), style)
    yield "</g>"


def _lines(device: PlacedDevice) -> tuple[str, str, str]:
    """Return three lines: kind and name, details, owners or state."""
    if device.kind is DeviceKind.GPU:
        first, second = f"GPU {device.name}", device.product or device.address
    else:
        rail = "" if device.rail is None else f", rail {device.rail}"
        first = f"NIC {device.name}"
        second = f"{device.rdma_device}{rail}" if device.rdma_device else "no RDMA device"
    state = ", ".join(device.consumers or device.taints) or str(device.state)
    return first, second, state


def _legend(y: int) -> Iterator[str]:
    for number, (state, colour) in enumerate(_COLOURS.items()):
        x = 2 * _GAP + number * 110
        yield _box(x, y, 14, 14, colour, "#757575")
        yield _text(x + 20, y + 12, str(state))


def _box(x: int, y: int, width: int, height: int, fill: str, stroke: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{fill}" '
        f'stroke="{stroke}"/>'
    )


def _text(x: int, y: int, text: str, style: str = "") -> str:
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'.replace(" >", ">")


def _short(text: str, most: int) -> str:
    """Return a text without its middle if it is long: names of pods differ at their ends."""
    end = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - end]}…{text[-end:]}"
