"""The claims of the examples, allocated on slices as the nodes' drivers publish them."""

from collections.abc import Sequence

import pytest

from dra_shim.cel import SelectorError
from dra_shim.resourceapi import (
    AllocatedResult,
    DeviceClass,
    Document,
    ResourceClaim,
    ResourceClaimTemplate,
    parse_document,
)
from dra_shim.scheduling.allocator import (
    AllocationError,
    NamedClaim,
    PoolSet,
    choose,
    with_allocated,
)
from dra_shim.scheduling.pod_claims import classes_of
from tests.dra_shim.scheduling.story_nodes import example, pool_set_with
from tests.fakes.gpus import gpu_class
from tests.fakes.machines import a4_highgpu, nd_h100, server

SCALE_OUT = example("scale-out/class.yaml", "scale-out/template.yaml")
INFINIBAND = example("aks-infiniband/class/infiniband.yaml", "aks-infiniband/rdma/templates.yaml")
NUMA = example("numa-training/class.yaml", "numa-training/templates.yaml")
GKE = {
    version: example(f"gke-nccl/{version}/class.yaml", f"gke-nccl/{version}/templates.yaml")
    for version in ("v1", "v1beta1")
}


def given(
    documents: Sequence[Document], template: str, node: PoolSet, pods: int = 1
) -> list[list[str]]:
    """Return the devices of each pod with a claim of this template, one pod after the other."""
    (found,) = [
        document
        for document in documents
        if isinstance(document, ResourceClaimTemplate) and document.name == template
    ]
    classes = classes_of([*documents, parse_document(gpu_class())])
    devices = []
    for pod in range(pods):
        grants = choose([NamedClaim(f"{pod}/{template}", found.spec)], classes, node, new_uid=str)
        node = with_allocated(
            node, [(f"pod {pod}", AllocatedResult(grant.device.id)) for grant in grants]
        )
        devices.append([grant.device.name for grant in grants])
    return devices


def test_scale_out_worker_has_a_gpu_and_the_nic_of_its_root() -> None:
    node = pool_set_with(server())

    assert given(SCALE_OUT, "1-gpu-1-nic", node, pods=2) == [
        ["gpu-0", "pci-0000-82-00-0"],
        ["gpu-1", "pci-0000-72-00-0"],
    ]
    assert len(given(SCALE_OUT, "1-gpu-1-nic", node, pods=8)) == 8
    with pytest.raises(AllocationError):
        given(SCALE_OUT, "1-gpu-1-nic", node, pods=9)


@pytest.mark.parametrize("name", ["database", "low-latency", "storage"])
def test_both_ends_of_an_example_beyond_gpus_have_a_nic(name: str) -> None:
    documents = example("beyond-gpus/class/class.yaml", f"beyond-gpus/{name}/claims.yaml")
    claims = [
        NamedClaim(document.name, document.spec)
        for document in documents
        if isinstance(document, ResourceClaim)
    ]

    grants = choose(claims, classes_of(documents), pool_set_with(server()), new_uid=str)

    assert len({grant.device for grant in grants}) == len(claims) == 2


def test_refusal_on_azure_shows_the_pcie_roots() -> None:
    with pytest.raises(AllocationError) as caught:
        given(SCALE_OUT, "1-gpu-1-nic", pool_set_with(nd_h100()))

    root = "fits; matchAttribute: resource.kubernetes.io/pcieRoot is"
    lines = [line.partition("device ")[2] for line in caught.value.lines]
    assert f'gpu-0: {root} "pci0001:00"' in lines
    assert f'pci-0101-00-00-0: {root} "pci0101:00"' in lines


@pytest.mark.parametrize(("template", "number"), [("1-infiniband", 1), ("all-infiniband", 8)])
def test_infiniband_gives_one_device_or_all(template: str, number: int) -> None:
    (devices,) = given(INFINIBAND, template, pool_set_with(nd_h100()))

    assert devices == [f"pci-{0x101 + i:04x}-00-00-0" for i in range(number)]


def test_ethernet_nic_is_no_infiniband_device() -> None:
    with pytest.raises(AllocationError):
        given(INFINIBAND, "1-infiniband", pool_set_with(server()))


@pytest.mark.parametrize(("case", "first"), [("aligned", 0x101), ("unaligned", 0x105)])
def test_numa_templates_give_four_gpus_and_the_four_nics_of_a_socket(case: str, first: int) -> None:
    (devices,) = given(NUMA, f"h100-4gpu-4nic-numa-{case}", pool_set_with(nd_h100()))

    assert devices == [
        *("gpu-0", "gpu-1", "gpu-2", "gpu-3"),
        *(f"pci-{first + i:04x}-00-00-0" for i in range(4)),
    ]


@pytest.mark.parametrize("slices", ["v1", "v1beta1"])
@pytest.mark.parametrize("claims", ["v1", "v1beta1"])
def test_gke_template_gives_two_gpus_and_two_nics_of_one_root(claims: str, slices: str) -> None:
    node = pool_set_with(a4_highgpu(), slices)

    assert given(GKE[claims], "2-gpu-nic-aligned", node) == [
        ["gpu-0", "gpu-1", "pci-0000-72-00-0", "pci-0000-82-00-0"]
    ]
    assert given(GKE[claims], "2-gpu", node) == [["gpu-0", "gpu-1"]]


def test_third_gpu_of_a_root_is_not_available() -> None:
    with pytest.raises(AllocationError) as caught:
        given(GKE["v1"], "2-gpu-nic-aligned", pool_set_with(a4_highgpu()), pods=2)

    assert "request gpu: needs 2 devices" in caught.value.lines[0]


def test_gpu_selector_without_a_driver_check_fails() -> None:
    unguarded = DeviceClass("gpu.nvidia.com")
    documents = [unguarded, *GKE["v1"]]
    (template,) = [
        document
        for document in documents
        if isinstance(document, ResourceClaimTemplate) and document.name == "2-gpu"
    ]

    with pytest.raises(SelectorError, match='the device has no "index"'):
        choose(
            [NamedClaim("a/b", template.spec)], classes_of(documents), pool_set_with(a4_highgpu()),
            new_uid=str,
        )  # fmt: skip
