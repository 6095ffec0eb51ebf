"""Device inputs: a live scan, the output of `dranet-nri inventory --output json`, or slices."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dra_shim.pool import derived_key
from dra_shim.resourceapi import Document, ResourceSlice
from dranet_nri.config import Node, Violations, did_you_mean, load_json
from dranet_nri.config.json_cursor import given, items_of, required_text, text_of
from dranet_nri.errors import ConfigError
from dranet_nri.facts.scan import read_host
from dranet_nri.facts.sysfs import SYSFS
from dranet_nri.inventory import HostFacts, Inventory, inventory_from_facts
from dranet_nri.model import AttributeValue, Device, DeviceKey
from dranet_nri.model.api_names import parse_label

MAX_NAMES: Final = 10  # names in a message
MAX_PORT: Final = 0xFFFF  # dev_port is an unsigned short, linux/netdevice.h


def read_inventory(
    azure_size: str = "", *, sysfs_root: Path = SYSFS
) -> tuple[Inventory, HostFacts]:
    """Return the inventory of this node, with the facts it was built from.

    Args:
        azure_size: Azure VM size of this node, "" if unknown.
        sysfs_root: mount point of sysfs.

    Raises:
        KernelError: the kernel refused a dump.
        InvalidValueError: the size is unknown.
    """
    facts = read_host(sysfs_root, azure_size)
    return inventory_from_facts(facts), facts


def parse_inventory(text: str) -> Inventory:
    """Return the inventory from the output of `dranet-nri inventory --output json`.

    Raises:
        ConfigError: every violation of the document.
    """
    findings = Violations()
    fields = Node(load_json(text), "", findings).fields(("devices", "excluded", "rdma"))
    devices = [_device(item) for item in items_of(fields, "devices")]
    excluded = [
        (text_of(inner, "name"), text_of(inner, "reason"))
        for item in items_of(fields, "excluded")
        if (inner := item.fields(("name", "reason")))
    ]
    findings.raise_if_any()
    return Inventory(
        tuple(sorted(devices, key=lambda device: device.name)), tuple(sorted(excluded))
    )


def slices_among(documents: Sequence[Document]) -> tuple[ResourceSlice, ...]:
    """Return the ResourceSlices among documents."""
    return tuple(
        resource_slice for resource_slice in documents if isinstance(resource_slice, ResourceSlice)
    )


def node_of_slices(slices: Sequence[ResourceSlice], node: str) -> str:
    """Return the node of the slices, "" if they have none.

    Args:
        slices: the slices.
        node: value of --node, "" to use the only node of the slices.

    Raises:
        ConfigError: without --node there are several nodes, or no slice is for --node.
    """
    named = {resource_slice.node for resource_slice in slices} | {
        device.node for resource_slice in slices for device in resource_slice.devices
    }
    nodes = sorted(named - {""})
    if node:
        for_several = any(not resource_slice.node for resource_slice in slices)
        if nodes and node not in nodes and not for_several:
            hint = did_you_mean(node, nodes)
            raise ConfigError(
                [f"--node {node}: no slice is for it{hint}; there are {_shortened(nodes)}"]
            )
        return node
    if len(nodes) > 1:
        raise ConfigError(
            [f"the slices are for several nodes; choose with --node: {_shortened(nodes)}"]
        )
    return nodes[0] if nodes else ""


def _shortened(names: Sequence[str]) -> str:
    """Return names for a message, shortened for a large cluster."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def _device(node: Node) -> Device:
    fields = node.fields(("name", "attributes", "rdmaDevices", "key"))
    name = required_text(node, fields, "name", parse_label)
    attributes: dict[str, AttributeValue] = {}
    entries = fields["attributes"].entries() if "attributes" in fields else {}
    for attribute, entry in entries.items():
        if isinstance(entry.value, bool | int | str):
            attributes[attribute] = entry.value
        else:
            entry.report("must be a boolean, a whole number or a string")
    rdma = [item.text() or "" for item in items_of(fields, "rdmaDevices")]
    key = given(fields, "key", _key) or derived_key(attributes, name)
    return Device(name, key, tuple(sorted(attributes.items())), tuple(rdma))


def _key(node: Node) -> DeviceKey:
    names = ("bus", "parent", "name", "pci")
    fields = node.fields((*names, "port"))
    bus, parent, name, pci = (text_of(fields, name) for name in names)
    port = given(fields, "port", lambda found: found.integer(0, MAX_PORT))
    return DeviceKey(bus, parent, name, pci, port)
