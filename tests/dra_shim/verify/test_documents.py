"""NICs and GPUs of a pod by its claims and the slices, and the template of its claims."""

from __future__ import annotations

import pytest

from dra_shim.resourceapi import parse_document
from dra_shim.verify.documents import Document, PodRequirements, template_document, worker_of
from dra_shim.verify.types import Fabric, WorkerPod

STANDARD = "resource.kubernetes.io"
NVIDIA, AMD = "gpu.nvidia.com", "gpu.amd.com"


POD: Document = {
    "metadata": {"name": "verify-0"},
    "spec": {"nodeName": "a"},
    "status": {"podIP": "10.0.0.1"},
}
RESULT = {"driver": "dra.net", "pool": "a", "device": "device"}


def slice_of(driver: str, node: str, attributes: Document) -> Document:
    """Return a slice of a node with one device."""
    devices = [{"name": "device", "attributes": attributes}]
    return {
        "spec": {"driver": driver, "nodeName": node, "pool": {"name": node}, "devices": devices}
    }


def worker_with(nic: Document, gpu: tuple[str, Document] | None = None) -> WorkerPod:
    """Return a pod on node a with a NIC, and a GPU of a driver.

    Args:
        nic: attributes of the NIC; node b has one at the same places on NUMA node 7.
        gpu: driver and attributes of the GPU.
    """
    elsewhere = {**nic, f"{STANDARD}/numaNode": {"int": 7}}
    slices = [slice_of("dra.net", "b", elsewhere), slice_of("dra.net", "a", nic)]
    if gpu:
        slices.append(slice_of(gpu[0], "a", gpu[1]))
    results = [RESULT, *([RESULT | {"driver": gpu[0]}] if gpu else [])]
    claim = {"status": {"allocation": {"devices": {"results": results}}}}
    return worker_of(POD, claim, slices)


@pytest.mark.parametrize(
    ("attributes", "card"),
    [
        pytest.param(
            {"sysImageGUID": {"string": "a"}, "pciAddress": {"string": "0000:3b:00.1"}}, "a",
            id="GUID of the card",
        ),
        pytest.param({"pciAddress": {"string": "0000:3b:00.1"}}, "0000:3b:00", id="PCI function"),
        pytest.param({}, "device", id="neither"),
    ],
)  # fmt: skip
def test_card_is_read_from_the_slice(attributes: Document, card: str) -> None:
    (nic,) = worker_with(attributes).nics

    assert nic.card == card


@pytest.mark.parametrize(
    ("nic", "gpu", "found"),
    [
        pytest.param({}, (AMD, {"numaNode": {"int": 1}}), (1,), id="the GPU driver's attribute"),
        pytest.param(
            {"numaNode": {"int": 0}, f"{STANDARD}/pcieRoot": {"string": "pci0000:15"}},
            (NVIDIA, {f"{STANDARD}/pcieRoot": {"string": "pci0000:15"}}), (0,),
            id="a NIC at the root",
        ),
        pytest.param(
            {"numaNode": {"int": 1}, "azure.dra.net/gpuDomains": {"string": "0003,0004"}},
            (NVIDIA, {f"{STANDARD}/pciBusID": {"string": "0004:00:00.0"}}), (1,),
            id="Azure's layout",
        ),
        pytest.param(
            {"numaNode": {"int": 1}}, (NVIDIA, {f"{STANDARD}/pcieRoot": {"string": "pci0000:15"}}),
            (), id="unknown",
        ),
    ],
)  # fmt: skip
def test_numa_node_of_a_gpu_is_that_of_its_place(
    nic: Document, gpu: tuple[str, Document], found: tuple[int, ...]
) -> None:
    assert worker_with(nic, gpu).gpu_numa_nodes == found


@pytest.mark.parametrize(
    ("protocol", "fabric"),
    [
        pytest.param({}, Fabric.EFA, id="none"),
        pytest.param({"rdmaProtocol": {"string": "roce"}}, Fabric.ROCE, id="roce"),
        pytest.param({"rdmaProtocol": {"string": "ib"}}, Fabric.INFINIBAND, id="ib"),
    ],
)
def test_fabric_is_that_of_the_rdma_protocol(protocol: Document, fabric: Fabric) -> None:
    (nic,) = worker_with({"rdmaDevice": {"string": "mlx5_0"}, **protocol}).nics

    assert nic.fabric is fabric
    assert worker_with(protocol).nics[0].fabric is Fabric.ETHERNET


@pytest.mark.parametrize(
    ("interfaces", "mtu"),
    [
        pytest.param([], 1500, id="slice"),
        pytest.param([{"mtu": 9000}], 9000, id="class"),
        pytest.param([{"mtu": 9000}, {"mtu": 4000}], 4000, id="claim after class"),
        pytest.param([{"addressing": "DHCP"}], 0, id="DHCP server"),
        pytest.param([{"addressing": "DHCP", "mtu": 9000}], 9000, id="DHCP and class"),
        pytest.param([{"mtu": 9000, "ofANewerDriver": 1}], 0, id="unknown field"),
    ],
)
def test_mtu_is_that_of_the_parameters_or_of_the_slice(
    interfaces: list[Document], mtu: int
) -> None:
    config = [
        {"source": source, "opaque": {"driver": "dra.net", "parameters": {"interface": interface}}}
        for source, interface in zip(["FromClass", "FromClaim"], interfaces, strict=False)
    ]
    others = [
        {"source": "FromClass", "opaque": {"driver": NVIDIA, "parameters": {"kind": "GpuConfig"}}},
        {
            "source": "FromClaim",
            "requests": ["other"],
            "opaque": {"driver": "dra.net", "parameters": {"interface": {"mtu": 1400}}},
        },
    ]
    allocated = {"results": [RESULT | {"request": "nic"}], "config": [*config, *others]}
    claim = {"status": {"allocation": {"devices": allocated}}}

    (nic,) = worker_of(POD, claim, [slice_of("dra.net", "a", {"mtu": {"int": 1500}})]).nics

    assert nic.mtu == mtu


def test_devices_of_slices_in_v1beta1_are_read() -> None:
    found = slice_of("dra.net", "a", {"rdmaDevice": {"string": "mlx5_0"}})
    (device,) = found["spec"]["devices"]
    device["basic"] = {"attributes": device.pop("attributes")}
    claim = {"status": {"allocation": {"devices": {"results": [RESULT]}}}}

    (nic,) = worker_of(POD, claim, [found]).nics

    assert nic.rdma == "mlx5_0"


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_template_has_the_form_of_its_version(version: str) -> None:
    requirements = PodRequirements("image", "nic.dra.net", 0, "gpu.nvidia.com", 8)
    api = f"resource.k8s.io/{version}"

    template = template_document(requirements, api)

    assert template["apiVersion"] == api
    parse_document(template)  # refuses fields of another version


def test_nic_with_a_taint_is_claimed_too() -> None:
    requirements = PodRequirements("image", "nic.dra.net", 0, "gpu.nvidia.com", 0)

    (request,) = template_document(requirements)["spec"]["spec"]["devices"]["requests"]

    assert request["exactly"]["tolerations"] == [{"operator": "Exists"}]


def test_first_numa_node_of_a_list_is_that_of_the_nic() -> None:
    (nic,) = worker_with({f"{STANDARD}/numaNode": {"ints": [1, 0]}}).nics

    assert nic.numa_node == 1
