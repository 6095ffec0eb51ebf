"""Nodes of the stories as their drivers publish them, and the examples that are for them."""

from pathlib import Path
from typing import Final

from dra_shim.pool import driver_resources
from dra_shim.resourceapi import Document, ResourceSlice, parse_document, parse_manifests
from dra_shim.resourceslice.documents import SlicePool, new_document, spec_of
from dra_shim.resourceslice.layout import laid_out
from dra_shim.scheduling.allocator import PoolSet, pools_of
from tests.fakes.cloud_machines import CloudMachine
from tests.fakes.gpus import gpu_slice
from tests.fakes.machines import Machine

EXAMPLES: Final = Path(__file__).resolve().parents[3] / "manifests" / "examples"

_NODE: Final = "node-1"


def pool_set_with(machine: Machine | CloudMachine, version: str = "v1") -> PoolSet:
    """Return what a node of this kind has, after a round through slices in a version."""
    pool = SlicePool(_NODE, "n1", version)
    parts = laid_out(_NODE, driver_resources(_NODE, machine.devices), {})
    about = {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceSlice"}
    nic_slices = [
        {**about, **new_document(pool, part, spec_of(pool, part, 1, len(parts)))} for part in parts
    ]
    documents = [*nic_slices, gpu_slice(_NODE, machine.gpus, version=version)]
    slices = [parse_document(document) for document in documents]
    return PoolSet(
        pools_of(
            [
                resource_slice
                for resource_slice in slices
                if isinstance(resource_slice, ResourceSlice)
            ],
            _NODE,
        )
    )


def example(*names: str) -> list[Document]:
    """Return the documents of files of the examples."""
    return [
        manifest for name in names for manifest in parse_manifests((EXAMPLES / name).read_text())
    ]
