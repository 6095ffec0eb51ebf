"""The mock GPU driver beside the shim: a claim with a GPU and a NIC."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from dra_shim.kubeapi import SLICE
from dra_shim.kubeletplugin import sockets_of
from dranet_nri.cdi.names import METADATA_ROOT
from dranet_nri.model import ObjectRef
from tests.box.gpu_driver import GpuDriver, kubelet_plugin, publish_gpus
from tests.dra_shim.kubeapi.client_bench import talking
from tests.dra_shim.kubeletplugin.kubelet_bench import Node, short_directory
from tests.fakes.cluster import claim_document, pod_document, result, user
from tests.fakes.gpus import EXAMPLE, NVIDIA
from tests.fakes.kubelet import PrepareError, cdi_devices
from tests.fakes.machines import server

pytestmark = pytest.mark.process


__all__ = ["short_directory"]

BOTH = ObjectRef("ai", "both", "u1")


@pytest.fixture
def node(short_directory: Path) -> Iterator[Node]:
    """Return a node with our shim; a claim of its cluster has two GPUs and a NIC."""
    with closing(Node(short_directory)) as made:
        cluster = made.bench.cluster
        results = [result(f"gpu-{i}", "gpu", driver=NVIDIA) for i in (0, 1)]
        cluster.claims["both"] = claim_document(
            "both", "u1", [*results, result("a", "nic")], [user("train", "p1")]
        )
        cluster.pods["train"] = pod_document("train", "p1", {"both": "both"})
        cluster.nics.add("a")
        yield made


def driver_of(node: Node, short_directory: Path) -> GpuDriver:
    return GpuDriver(NVIDIA, node.bench.cluster, short_directory / "data", short_directory / "cdi")


@asynccontextmanager
async def registered(node: Node, short_directory: Path) -> AsyncIterator[None]:
    """Run both drivers, which the kubelet knows when this begins."""
    plugin = kubelet_plugin(
        NVIDIA, sockets_of(short_directory / "k", NVIDIA), driver_of(node, short_directory)
    )
    node.kubelet.start()
    task = asyncio.create_task(plugin.run())
    try:
        async with node.running():
            while len(node.kubelet.plugins) < 2:
                await node.kubelet.look()
            yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        await node.kubelet.restart()


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_claim_of_both_drivers_is_prepared_by_each(node: Node, short_directory: Path) -> None:
    async def run() -> None:
        async with registered(node, short_directory):
            gpus = (await node.kubelet.prepare(BOTH, driver=NVIDIA))["u1"]
            nics = (await node.kubelet.prepare(BOTH))["u1"]

            assert [(gpu.device_name, *gpu.request_names) for gpu in gpus] == [
                ("gpu-0", "gpu"),
                ("gpu-1", "gpu"),
            ]
            assert set(cdi_devices([*gpus, *nics], "gpu")) == {f"{NVIDIA}/gpu=u1_gpu"}
            assert cdi_devices([*gpus, *nics], "nic")[0].startswith("dra.net/nic=")
            await node.kubelet.unprepare(BOTH, driver=NVIDIA)

    asyncio.run(run())


def test_container_gets_its_gpus_by_environment_and_file(node: Node, short_directory: Path) -> None:
    driver = driver_of(node, short_directory)

    asyncio.run(driver.prepare([BOTH]))

    (device,) = read(short_directory / "cdi" / f"{NVIDIA}-u1.json")["devices"]
    edits = device["containerEdits"]
    assert (device["name"], edits["env"]) == ("u1_gpu", ["GPUS_GPU=gpu-0,gpu-1"])
    (mount,) = edits["mounts"]
    assert mount["containerPath"] == (
        f"{METADATA_ROOT}/resourceclaims/both/gpu/{NVIDIA}-metadata.json"
    )
    content = read(Path(mount["hostPath"]))
    assert content["metadata"] == {"name": "both", "namespace": "ai", "uid": "u1"}
    (request,) = content["requests"]
    assert [device["name"] for device in request["devices"]] == ["gpu-0", "gpu-1"]


def test_unprepare_removes_the_prepared_files(node: Node, short_directory: Path) -> None:
    driver = driver_of(node, short_directory)

    asyncio.run(driver.prepare([BOTH]))
    assert asyncio.run(driver.unprepare([BOTH])) == {"u1": ""}

    assert [*(short_directory / "cdi").iterdir(), *(short_directory / "data").iterdir()] == []


def test_missing_claim_is_an_error(node: Node, short_directory: Path) -> None:
    driver = driver_of(node, short_directory)
    (answer,) = asyncio.run(driver.prepare([ObjectRef("ai", "both", "u2")])).values()

    assert (answer.devices, answer.error) == ((), "claim ai/both: there is none")


def test_unregistered_driver_is_not_called(node: Node) -> None:
    with pytest.raises(PrepareError, match=f"{NVIDIA} is not registered"):
        asyncio.run(node.kubelet.prepare(BOTH, driver=NVIDIA))


@pytest.mark.parametrize("driver", [NVIDIA, EXAMPLE])
def test_gpu_slices_are_published_again_if_deleted(driver: str) -> None:
    async def run() -> None:
        async with talking() as (_, api):
            for _ in range(2):
                await publish_gpus(api, "node-1", server().gpus, driver)
            (document,) = (await api.list(SLICE, {"spec.driver": driver})).items
            spec: Any = document["spec"]
            assert [device["name"] for device in spec["devices"]] == [f"gpu-{i}" for i in range(8)]
            metadata: Any = document["metadata"]
            await api.delete(SLICE, metadata["name"], metadata["uid"])
            await publish_gpus(api, "node-1", server().gpus, driver)
            assert len((await api.list(SLICE, {"spec.driver": driver})).items) == 1

    asyncio.run(run())
