"""Device inventory: the node's publishable network devices, their names and attributes."""

from dranet_nri.inventory.attribute_names import ATTRIBUTE_NAMES, ATTRIBUTES, NUMA_NODE
from dranet_nri.inventory.attributes import MAX_ATTRIBUTES, within_budget
from dranet_nri.inventory.azure import parse_vm_size, placements
from dranet_nri.inventory.build import (
    Inventory,
    inventory_from_facts,
)
from dranet_nri.inventory.hazards import (
    HazardRules,
    hazards,
    parent_hazards,
    why_unpublished,
)
from dranet_nri.inventory.host_facts import (
    AzureHost,
    HostFacts,
    NetDevice,
    PciFunction,
    RdmaDeviceFacts,
    RdmaPortFacts,
)
from dranet_nri.inventory.memo import Memo
from dranet_nri.inventory.names import pci_device_name
from dranet_nri.inventory.numa import near_nodes
from dranet_nri.inventory.rdma_owner import own_rdma
from dranet_nri.inventory.recorded import merge_recorded, with_parents
from dranet_nri.inventory.uplinks import Uplinks, uplinks_of

__all__ = [
    "ATTRIBUTES",
    "ATTRIBUTE_NAMES",
    "MAX_ATTRIBUTES",
    "NUMA_NODE",
    "AzureHost",
    "HazardRules",
    "HostFacts",
    "Inventory",
    "Memo",
    "NetDevice",
    "PciFunction",
    "RdmaDeviceFacts",
    "RdmaPortFacts",
    "Uplinks",
    "hazards",
    "inventory_from_facts",
    "merge_recorded",
    "near_nodes",
    "own_rdma",
    "parent_hazards",
    "parse_vm_size",
    "pci_device_name",
    "placements",
    "uplinks_of",
    "why_unpublished",
    "with_parents",
    "within_budget",
]
