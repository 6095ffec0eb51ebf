"""The examples' manifests, as they are, on the real scheduler and nodes of the stories' kinds.

What the scheduler decides is asked of our own allocator as well.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dra_shim.cli import main
from tests.fakes.machines import Machine, a4_highgpu, hb_v4, nd_h100, server
from tests.system.cluster import mpi
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.second_opinion import chosen_devices, confirmed, our_refusals
from tests.system.cluster.site import EXAMPLES, Placed, Site, values

ROOT = "resource.kubernetes.io/pcieRoot"
NUMA = "resource.kubernetes.io/numaNode"
CANNOT = "cannot allocate all claims"


@pytest.fixture
def site(cluster: ControlPlane) -> Iterator[Site]:
    """Return a cluster without nodes; what the test makes of it is gone afterwards."""
    site = Site(cluster)
    yield site
    site.delete()


def decisions(site: Site, number: int, *namespaces: str) -> tuple[list[Placed], list[Placed]]:
    """Return the pods of the namespaces, so many each: as the scheduler has it, as we would."""
    pods = [pod for namespace in namespaces for pod in site.placed(namespace, number)]
    assert all(confirmed(site, pod) for pod in pods)
    return pods, chosen_devices(site, pods)


def refused(site: Site, number: int, namespace: str) -> list[str]:
    """Return the scheduler's words on pods without a node, whose claims we refuse as well."""
    reasons = site.refusal(namespace, number)
    pending = [
        claim for claim in site.claims(namespace) if "allocation" not in claim.get("status", {})
    ]
    assert len([*our_refusals(site, pending)]) == number
    return reasons


def is_pair(pod: Placed) -> bool:
    """Whether a pod has one GPU, and one RDMA NIC under the same PCIe root."""
    (gpu,), (nic,) = pod.of("gpu"), pod.of("nic")
    assert (gpu.driver, nic.driver) == ("gpu.nvidia.com", "dra.net")
    assert nic.attribute("dra.net/rdma") is True
    return gpu.attribute(ROOT) == nic.attribute(ROOT)


# --------------------------------------------------------------------------- scale out


def test_four_jobs_of_aligned_gpu_and_nic_pairs_fill_a_server(
    site: Site,
) -> None:
    (node,) = site.add(server())

    jobs = [site.namespace() for _ in range(4)]
    for namespace in jobs:
        site.apply("scale-out", namespace)

    for workers in decisions(site, 2, *jobs):
        assert all(map(is_pair, workers))
        assert {pod.node for pod in workers} == {node}
        assert len({slice_device.id for pod in workers for _, slice_device in pod.devices}) == 16
    late = site.namespace()
    site.apply("scale-out", late)
    assert all(CANNOT in event for event in refused(site, 2, late))


def test_explain_shows_the_devices_of_the_next_worker(
    site: Site, cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (node,) = site.add(server())
    namespace = site.namespace()
    site.apply("scale-out", namespace)
    given = {
        slice_device.name for pod in site.placed(namespace, 2) for _, slice_device in pod.devices
    }
    for what in ("resourceslices", "resourceclaims --all-namespaces", "deviceclass gpu.nvidia.com"):
        text = cluster.kubectl("get", *what.split(), "--output=yaml")
        (tmp_path / f"{what.split()[0]}.yaml").write_text(text)
    story = EXAMPLES / "scale-out"

    status = main(
        [
            *("explain", "--node", node, "--claim", str(story / "template.yaml")),
            *("--class", str(story / "class.yaml"), "--class", str(tmp_path / "deviceclass.yaml")),
            *("--slices", str(tmp_path / "resourceslices.yaml")),
            *("--claims", str(tmp_path / "resourceclaims.yaml")),
        ]
    )

    decision = capsys.readouterr().out.partition("decision: ")[2].splitlines()
    assert (status, decision[0]) == (0, "the claims can be met")
    gpu, nic = (line.rpartition("/")[2] for line in decision[1:3])
    assert gpu == min({f"gpu-{number}" for number in range(8)} - given)
    assert nic not in given


def test_workers_wait_if_no_nic_shares_a_pcie_root_with_a_gpu(site: Site) -> None:
    site.add(nd_h100())
    namespace = site.namespace()

    site.apply("scale-out", namespace)

    assert all(CANNOT in event for event in refused(site, 2, namespace))


# --------------------------------------------------------------------------- InfiniBand on AKS


@pytest.mark.parametrize("machine", [hb_v4(), nd_h100()], ids=lambda document: document.kind)
def test_rdma_test_has_an_infiniband_device_on_each_node(site: Site, machine: Machine) -> None:
    nodes = site.add(machine, machine)
    namespace = site.namespace()

    site.apply("aks-infiniband/rdma", namespace)

    for pods in decisions(site, 2, namespace):
        assert sorted(pod.node for pod in pods) == sorted(nodes)
        layers = [values(pod.of("hca"), "dra.net/ibLinkLayer") for pod in pods]
        assert layers == [["InfiniBand"], ["InfiniBand"]]


def test_rdma_test_schedules_one_pod_per_node(site: Site) -> None:
    site.add(hb_v4())
    namespace = site.namespace()

    site.apply("aks-infiniband/rdma", namespace)

    for (pod,) in decisions(site, 1, namespace):
        assert len(pod.of("hca")) == 1
    (reason,) = site.refusal(namespace)
    assert "anti-affinity" in reason


def test_ipoib_pods_have_own_devices_and_addresses(site: Site) -> None:
    site.add(hb_v4(), hb_v4())
    namespace = site.namespace()

    site.apply("aks-infiniband/ipoib", namespace)

    for pods in decisions(site, 2, namespace):
        assert len({slice_device.id for pod in pods for slice_device in pod.of("hca")}) == 2
    given = [config["opaque"]["parameters"] for config in _configs(site, namespace)]
    assert [device["interface"]["addresses"] for device in given] == [
        ["192.168.0.2/24"],
        ["192.168.0.1/24"],
    ]
    assert {device["interface"]["type"] for device in given} == {"IPoIB"}


def test_shared_device_serves_rdma_and_ipoib_pods(
    site: Site,
) -> None:
    readme = (EXAMPLES / "aks-infiniband" / "README.md").read_text()
    (flag,) = re.findall(r"^    --shared '(.*)'$", readme, re.MULTILINE)
    site.add(hb_v4(), hb_v4(), shared=flag)
    namespace = site.namespace()

    site.apply("aks-infiniband/rdma", namespace)
    site.apply("aks-infiniband/ipoib", namespace)

    for pods in decisions(site, 4, namespace):
        assert len({slice_device.id for pod in pods for slice_device in pod.of("hca")}) == 2
    results = [
        claim["status"]["allocation"]["devices"]["results"] for claim in site.claims(namespace)
    ]
    assert len({result["shareID"] for entry in results for result in entry}) == 4


# --------------------------------------------------------------------------- NUMA


@pytest.mark.parametrize(("case", "node"), [("aligned", 0), ("unaligned", 1)])
def test_training_has_four_gpus_of_node_0_and_nics_of_the_requested_node(
    site: Site, case: str, node: int
) -> None:
    mpi.install(site.api)
    site.add(nd_h100(), nd_h100())
    namespace = site.namespace()

    site.apply("numa-training", namespace)
    site.apply(f"numa-training/mpijob-{case}.yaml", namespace)
    workers = mpi.start_workers(site.api, namespace, f"mfu-{case}")

    scheduled, chosen = decisions(site, workers, namespace)
    assert len({pod.node for pod in scheduled}) == workers == 2
    for pod in (*scheduled, *chosen):
        assert values(pod.of("gpu"), NUMA) == [0] * 4
        assert values(pod.of("nic"), NUMA) == [node] * 4
        assert len({slice_device.id for _, slice_device in pod.devices}) == 8


def test_second_training_waits_for_the_gpus_of_the_first(site: Site) -> None:
    mpi.install(site.api)
    site.add(nd_h100(), nd_h100())
    first, second = site.namespace(), site.namespace()
    for namespace, case in ((first, "aligned"), (second, "unaligned")):
        site.apply("numa-training", namespace)
        site.apply(f"numa-training/mpijob-{case}.yaml", namespace)

    mpi.start_workers(site.api, first, "mfu-aligned")
    site.placed(first, 2)
    mpi.start_workers(site.api, second, "mfu-unaligned")

    assert all(CANNOT in event for event in refused(site, 2, second))


# --------------------------------------------------------------------------- GKE


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_pod_has_two_gpus_and_two_nics_of_one_root_on_the_same_rails(
    site: Site, version: str
) -> None:
    nodes = site.add(a4_highgpu(), a4_highgpu(), version=version)
    namespace = site.namespace()

    site.apply(f"gke-nccl/{version}", namespace)

    scheduled, chosen = decisions(site, 2, namespace)
    assert sorted(pod.node for pod in scheduled) == sorted(nodes)
    for pod in (*scheduled, *chosen):
        assert len({slice_device.attribute(ROOT) for _, slice_device in pod.devices}) == 1
        assert values(pod.of("gpu"), "gpu.nvidia.com/index") == [0, 1]
        assert sorted(map(str, values(pod.of("nic"), "dra.net/ifName"))) == [
            "gpu0rdma0",
            "gpu1rdma0",
        ]
    assert site.claims(namespace, version)[0]["status"] == site.claims(namespace)[0]["status"]


def test_third_pod_waits_for_two_gpus_of_one_root(site: Site) -> None:
    site.add(a4_highgpu(), a4_highgpu(), a4_highgpu())
    first, second = site.namespace(), site.namespace()
    site.apply("gke-nccl/v1", first)
    site.placed(first, 2)

    site.apply("gke-nccl/v1", second)

    for (pod,) in decisions(site, 1, second):
        assert len(pod.devices) == 4
    (reason,) = refused(site, 1, second)
    assert CANNOT in reason


# --------------------------------------------------------------------------- dranet's users


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("routes", [1]),
        ("advanced", [1]),
        ("rules", [1, 1, 2]),
        ("template", [1, 1]),
        ("count", [2]),
        ("two-claims", [2]),
    ],
)
def test_claims_in_dranets_style_are_allocated(site: Site, name: str, devices: list[int]) -> None:
    site.add(server())
    namespace = site.namespace()
    site.apply("dranet-style/class.yaml", namespace)

    site.apply(f"dranet-style/{name}.yaml", namespace)

    for pods in decisions(site, len(devices), namespace):
        given = {slice_device.id for pod in pods for _, slice_device in pod.devices}
        assert sorted(len(pod.devices) for pod in pods) == devices
        assert len(given) == sum(devices)
        assert {driver for driver, _, _ in given} == {"dra.net"}


def _configs(site: Site, namespace: str) -> list[Object]:
    """Return the parameters that the allocator copied into each claim, claims by name."""
    claims = sorted(site.claims(namespace), key=lambda claim: str(claim["metadata"]["name"]))
    return [
        config for claim in claims for config in claim["status"]["allocation"]["devices"]["config"]
    ]
