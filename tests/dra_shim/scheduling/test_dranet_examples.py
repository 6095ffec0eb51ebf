"""Claims of the examples of kubernetes-sigs/dranet, on nodes as these clouds have them.

dranet_examples/ has manifests with the fields of its examples/. Its NVIDIA and training examples
are in manifests/examples, see test_stories.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from dra_shim.resourceapi import (
    Document,
    ResourceClaim,
    ResourceClaimTemplate,
    parse_document,
    parse_manifests,
)
from dra_shim.scheduling.allocator import AllocationError, NamedClaim, choose
from dra_shim.scheduling.pod_claims import classes_of
from tests.dra_shim.commands.shim_bench import Shim
from tests.dra_shim.scheduling.story_nodes import pool_set_with
from tests.fakes import cloud_machines
from tests.fakes.cloud_machines import CloudMachine
from tests.fakes.gpus import gpu_class

DIRECTORY: Final = Path(__file__).parent / "dranet_examples"
FILES: Final = sorted(path.stem for path in DIRECTORY.glob("*.yaml"))
GB200: Final = ["pci-0000-03-00-0", "pci-0000-03-00-1", "pci-0002-03-00-0", "pci-0002-03-00-1"]
INFINIBAND: Final = [f"pci-{0x101 + i:04x}-00-00-0" for i in range(8)]
ROWS: Final = [
    ("alibaba-erdma", "erdma", cloud_machines.erdma, ["pci-0000-00-07-0"]),
    ("eks-efa", "gpu-efa-unaligned", cloud_machines.efa, ["gpu-0", "pci-0000-10-1b-0"]),
    ("eks-efa", "gpu-efa-aligned", cloud_machines.efa, ["gpu-0", "pci-0000-10-1b-0"]),
    ("aks-gb300", "1nic-aligned", cloud_machines.gb300, ["gpu-0", INFINIBAND[0]]),
    ("aks-gb300", "1nic-unaligned", cloud_machines.gb300, ["gpu-0", INFINIBAND[2]]),
    ("aks-gb300", "2nic-aligned", cloud_machines.gb300, ["gpu-0", *INFINIBAND[:2]]),
    ("aks-gb300", "ib-same-fabric", cloud_machines.gb300, INFINIBAND[:1]),
    ("aks-mi300x", "4nic-same-numa", cloud_machines.mi300x, INFINIBAND[:4]),
    ("aks-mi300x", "4nic-cross-numa", cloud_machines.mi300x, INFINIBAND[4:]),
    ("aks-mi300x", "8nic-all", cloud_machines.mi300x, INFINIBAND),
    ("oke-gb200", "1nic-aligned", cloud_machines.gb200, ["gpu-0", GB200[0]]),
    ("oke-gb200", "1nic-unaligned", cloud_machines.gb200, ["gpu-0", "pci-0010-03-00-0"]),
    ("oke-gb200", "2nic-aligned", cloud_machines.gb200, ["gpu-0", *GB200[:2]]),
    ("oke-gb200", "4nic-aligned", cloud_machines.gb200, ["gpu-0", *GB200]),
    (
        "oke-gb200",
        "4gpu-8nic",
        cloud_machines.gb200,
        [
            *(f"gpu-{i}" for i in range(4)),
            *GB200,
            *(f"pci-001{i}-03-00-{port}" for i in (0, 2) for port in range(2)),
        ],
    ),
    ("oke-gb200", "2nic-aligned-local-block", cloud_machines.gb200, ["gpu-0", *GB200[:2]]),
    ("oke-gb200", "2nic-aligned-network-block", cloud_machines.gb200, ["gpu-0", *GB200[:2]]),
    ("oke-gb200", "2nic-aligned-gpu-fabric", cloud_machines.gb200, ["gpu-0", *GB200[:2]]),
    ("oke-h100", "1gpu-1nic", cloud_machines.oke_h100, ["gpu-0", "pci-0000-0c-00-0"]),
    ("gke-rdma", "rdma-net-template", cloud_machines.gke_rdma, ["pci-0000-4c-00-0"]),
    ("gke-rdma", "rdma-net-template-gib", cloud_machines.gke_rdma, ["pci-0000-1c-00-0"]),
    ("gke-mpi", "mpi-worker-rdma-nic-template", cloud_machines.gke_rdma, ["pci-0000-2c-00-0"]),
    ("gke-multinetwork", "dranet-network", cloud_machines.gke_multinetwork, ["pci-0000-00-06-0"]),
    (
        "gke-multinetwork",
        "phy-interfaces-template",
        cloud_machines.gke_multinetwork,
        ["pci-0000-00-06-0"],
    ),
]


def read(example: str) -> list[Document]:
    return list(parse_manifests((DIRECTORY / f"{example}.yaml").read_text()))


def claims(documents: list[Document]) -> dict[str, ResourceClaim | ResourceClaimTemplate]:
    kinds = (ResourceClaim, ResourceClaimTemplate)
    return {document.name: document for document in documents if isinstance(document, kinds)}


def allocated(documents: list[Document], name: str, machine: CloudMachine) -> list[str]:
    """Return the devices of a claim on a node of this kind."""
    classes = classes_of([*documents, parse_document(gpu_class())])
    claim = NamedClaim(f"default/{name}", claims(documents)[name].spec)
    grants = choose([claim], classes, pool_set_with(machine), new_uid=str)
    return [grant.device.name for grant in grants]


@pytest.mark.process
@pytest.mark.parametrize("example", FILES)
def test_example_is_valid(tmp_path: Path, example: str) -> None:
    done = Shim(tmp_path).run("validate", str(DIRECTORY / f"{example}.yaml"))

    assert done.returncode == 0
    assert all(line.startswith("warning: ") for line in done.stderr.splitlines())


def test_every_claim_of_the_examples_has_a_row() -> None:
    found = {(example, name) for example in FILES for name in claims(read(example))}

    assert found == {(example, name) for example, name, _, _ in ROWS}


@pytest.mark.parametrize(
    ("example", "name", "machine", "devices"), ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS]
)
def test_claim_is_allocated_on_nodes_of_its_cloud(
    example: str, name: str, machine: Callable[[], CloudMachine], devices: list[str]
) -> None:
    assert allocated(read(example), name, machine()) == devices


def test_claim_for_another_network_block_does_not_fit() -> None:
    other = cloud_machines.CloudMachine(
        cloud_machines.gb200().nics,
        cloud_machines.gb200().gpus,
        {f"oke.dra.net/{name}": "another" for name in cloud_machines.BLOCKS},
    )

    with pytest.raises(AllocationError):
        allocated(read("oke-gb200"), "2nic-aligned-local-block", other)
