"""RDMA facts from iproute2's `rdma` and from `dranet-nri inventory`, for comparison.

Typical use, with a deadline where something is on its way:

    shown, listed = shown_by_both()
    assert listed == shown
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from tests.box.target import NODE, ExecTarget, checked

Json = dict[str, object]
Facts = dict[str, object]  # "rxe0 protocol", "rxe0/1 state" -> value, in the words of `rdma`

# Words of iproute2 (rdma/dev.c, rdma/link.c) by those of sysfs, where they are not the same.
_PHYSICAL: Final = {
    "LinkUp": "LINK_UP",
    "PortConfigurationTraining": "ARMED",
    "LinkErrorRecovery": "LINK_ERROR_RECOVER",
    "Phy Test": "PHY_TEST",
}
_DEVICE: Final[Mapping[str, Callable[[Json], object]]] = {
    "ifindex": lambda own: own["index"],
    "node_type": lambda own: str(own["nodeType"]).lower().replace(" ", "_"),
    "protocol": lambda own: own["protocol"],
    "fw": lambda own: own["firmware"],
    "node_guid": lambda own: own["nodeGUID"],
    "sys_image_guid": lambda own: own["sysImageGUID"],
    "parent": lambda own: own["partOf"],
}
_PORT: Final[Mapping[str, Callable[[Json], object]]] = {
    "subnet_prefix": lambda own: own["subnetPrefix"],
    "lid": lambda own: own["lid"],
    "sm_lid": lambda own: own["smLid"],
    "state": lambda own: own["state"],
    "physical_state": lambda own: _PHYSICAL.get(
        str(own["physState"]), str(own["physState"]).upper()
    ),
    "netdev": lambda own: own["netdevs"],
}
_OF_RDMA_TOOL: Final = {
    "ifindex",
    "ifname",
    "port",
    "caps",
    "adaptive-moderation",
    "lmc",
    "netdev_index",
    "type",
}
_PUBLISHED: Final = {
    "dra.net/rdmaProtocol": "protocol",
    "dra.net/rdmaFirmware": "fw",
    "dra.net/nodeGUID": "node_guid",
    "dra.net/sysImageGUID": "sys_image_guid",
}


def shown_by_both(target: ExecTarget = NODE) -> tuple[Facts, Facts]:
    """Return what `rdma` shows of a target, and what `dranet-nri inventory` shows of it.

    The latter also has devices that `rdma` does not show. Attributes that are published of a
    claimable device must be those of its first RDMA device.

    Args:
        target: the node, or a namespace of it; the programs are run there.

    Raises:
        AssertionError: `rdma` shows a field that is neither compared nor known to be its own, or
            an attribute is not what we ourselves show of the RDMA device.
    """
    devices = json.loads(checked(target, "rdma", "-j", "-d", "dev"))
    links = json.loads(checked(target, "rdma", "-j", "-d", "link"))
    inventory = json.loads(checked(target, "dranet-nri", "inventory", "--output", "json"))
    our_devices = {rdma["name"]: rdma for rdma in inventory["rdma"]}
    our_ports = {
        f"{name}/{port['number']}": port
        for name, device in our_devices.items()
        for port in device["ports"]
    }
    kernel: Facts = {}
    published: Facts = {}
    for row in devices:
        _compare(row["ifname"], row, (our_devices, _DEVICE), (kernel, published))
    for row in links:
        _compare(f"{row['ifname']}/{row['port']}", row, (our_ports, _PORT), (kernel, published))
    published |= {name: "shown" for name in our_devices if f"{name} is" not in kernel}
    _check_published(inventory["devices"], our_devices)
    return kernel, published


def _compare(
    name: str,
    row: Json,
    here: tuple[Mapping[str, Json], Mapping[str, Callable[[Json], object]]],
    facts: tuple[Facts, Facts],
) -> None:
    objects, fields = here
    kernel, published = facts
    assert not row.keys() - fields.keys() - _OF_RDMA_TOOL, f"rdma shows more of {name}: {row}"
    kernel[f"{name} is"] = "shown"
    if name not in objects:
        return
    published[f"{name} is"] = "shown"
    for field, read in fields.items():
        if field in row:
            kernel[f"{name} {field}"] = [row[field]] if field == "netdev" else row[field]
            published[f"{name} {field}"] = read(objects[name])


def _check_published(devices: list[Json], rdma: Mapping[str, Json]) -> None:
    for device in devices:
        attributes, names = device["attributes"], device["rdmaDevices"]
        assert isinstance(attributes, dict)
        assert isinstance(names, list)
        if names:
            shown = rdma[names[0]]
            expected = {name: _DEVICE[field](shown) for name, field in _PUBLISHED.items()}
            found = {name: attributes.get(name, "") for name in _PUBLISHED}
            assert found == expected, f"attributes of {device['name']}"
