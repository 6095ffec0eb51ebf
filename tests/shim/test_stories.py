"""The claims of the four stories, on nodes as their drivers publish them."""

import pytest

from dra_shim.allocator import AllocationError, Supply, Wanted, choose, pools_of
from dra_shim.cel import SelectorError
from dra_shim.claims import ResourceClaimTemplate, parse_manifests
from dra_shim.podclaims import classes_of
from dra_shim.stock import node_of_slices, slices_among
from tests.shim.story_nodes import a4_highgpu, nd_h100

GPU_CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.nvidia.com"'}}]}
---
"""
SCALE_OUT = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: dranet}
spec: {selectors: [{cel: {expression: 'device.driver == "dra.net"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: worker}
spec:
  spec:
    devices:
      requests:
      - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}
      - name: nic
        exactly:
          deviceClassName: dranet
          selectors: [{cel: {expression: 'device.attributes["dra.net"].rdma'}}]
      constraints: [{matchAttribute: resource.kubernetes.io/pcieRoot}]
"""
INFINIBAND = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: infiniband}
spec:
  selectors:
  - cel: {expression: 'device.driver == "dra.net" && device.attributes["dra.net"].rdma == true'}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: ib}
spec: {spec: {devices: {requests: [{name: ib, exactly: {deviceClassName: infiniband, %s}}]}}}
"""
NUMA = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: dranet.net}
spec: {selectors: [{cel: {expression: device.driver == "dra.net"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: h100-4gpu-4nic}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
          count: 4
          selectors:
          - cel:
              expression: >-
                device.attributes["resource.kubernetes.io"]["pciBusID"] in
                ["0001:00:00.0", "0002:00:00.0", "0003:00:00.0", "0008:00:00.0"]
      - name: nic
        exactly:
          deviceClassName: dranet.net
          count: 4
          selectors:
          - cel:
              expression: >-
                device.attributes["dra.net"]["rdma"] == true &&
                device.attributes["dra.net"]["numaNode"] == %d
"""
GKE = """
apiVersion: resource.k8s.io/v1beta1
kind: DeviceClass
metadata: {name: dranet}
spec: {selectors: [{cel: {expression: device.driver == "dra.net"}}]}
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata: {name: 2-gpu-nic-aligned}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        deviceClassName: gpu.nvidia.com
        count: %d
        selectors: [{cel: {expression: 'device.attributes["gpu.nvidia.com"].index <= 2'}}]
      - name: nic
        deviceClassName: dranet
        count: %d
        selectors: [{cel: {expression: 'device.attributes["dra.net"].rdma == true'}}]
      constraints: [{matchAttribute: resource.kubernetes.io/pcieRoot}]
"""


def given(claims: str, node: str, pods: int = 1) -> list[list[str]]:
    """Return the devices of each pod's claims, all pods on one node."""
    documents = parse_manifests(GPU_CLASS + claims)
    templates = [each for each in documents if isinstance(each, ResourceClaimTemplate)]
    wanted = [
        Wanted(f"{pod}/{each.name}", each.spec) for pod in range(pods) for each in templates
    ]  # fmt: skip
    grants = choose(wanted, classes_of(documents), supply_of_node(node), new_uid=str)
    return [
        [grant.offer.name for grant in grants if grant.claim == claim]
        for claim in range(len(wanted))
    ]


def supply_of_node(text: str) -> Supply:
    slices = slices_among(parse_manifests(text))
    return Supply(pools_of(slices, node_of_slices(slices, "")))


def test_scale_out_gives_each_worker_a_gpu_and_the_nic_under_its_root() -> None:
    assert given(SCALE_OUT, a4_highgpu(), pods=2) == [
        ["gpu-0", "pci-0000-11-00-0"],
        ["gpu-1", "pci-0000-21-00-0"],
    ]
    assert len(given(SCALE_OUT, a4_highgpu(), pods=8)) == 8
    with pytest.raises(AllocationError):
        given(SCALE_OUT, a4_highgpu(), pods=9)


def test_on_azure_the_pcie_root_never_aligns_and_the_refusal_shows_the_roots() -> None:
    with pytest.raises(AllocationError) as caught:
        given(SCALE_OUT, nd_h100())

    root = "fits; matchAttribute: resource.kubernetes.io/pcieRoot is"
    lines = [line.partition("device ")[2] for line in caught.value.lines]
    assert f'gpu-0: {root} "pci0001:00"' in lines
    assert f'pci-0101-00-00-0: {root} "pci0101:00"' in lines


@pytest.mark.parametrize(("how", "number"), [("count: 1", 1), ("allocationMode: All", 8)])
def test_infiniband_gives_one_device_or_all(how: str, number: int) -> None:
    (devices,) = given(INFINIBAND % how, nd_h100())

    assert devices == [f"pci-{0x101 + i:04x}-00-00-0" for i in range(number)]


@pytest.mark.parametrize(("numa", "first"), [(0, 0x101), (1, 0x105)], ids=["aligned", "unaligned"])
def test_numa_templates_give_four_gpus_and_the_four_nics_of_a_socket(numa: int, first: int) -> None:
    (devices,) = given(NUMA % numa, nd_h100())

    assert devices == [
        *("gpu-0", "gpu-1", "gpu-2", "gpu-3"),
        *(f"pci-{first + i:04x}-00-00-0" for i in range(4)),
    ]


def test_the_gke_template_gives_two_gpus_and_the_two_nics_of_their_root() -> None:
    (devices,) = given(GKE % (2, 2), a4_highgpu())

    assert devices == ["gpu-0", "gpu-1", "pci-0000-11-00-0", "pci-0000-21-00-0"]


def test_three_gpus_do_not_fit_under_one_root() -> None:
    with pytest.raises(AllocationError) as caught:
        given(GKE % (3, 3), a4_highgpu())

    assert "request gpu: needs 3 devices, 2 of 16 can be had together" in caught.value.lines[0]


def test_a_gpu_selector_in_a_class_without_a_driver_guard_stops_the_scheduler() -> None:
    unguarded = GPU_CLASS.replace('device.driver == "gpu.nvidia.com"', "true")
    documents = parse_manifests(unguarded + GKE % (1, 1))
    (template,) = [each for each in documents if isinstance(each, ResourceClaimTemplate)]

    with pytest.raises(SelectorError, match='the device has no "index"'):
        choose(
            [Wanted("a/b", template.spec)], classes_of(documents), supply_of_node(a4_highgpu()),
            new_uid=str,
        )  # fmt: skip
