"""The programs of the examples run to their last line: two ranks, over the NICs that they claim.

PyTorch is its build for CPUs, with gloo in the place of NCCL.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.capability import lacking
from tests.fakes.gpus import NVIDIA
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.gpus import gpu_driver
from tests.system.cluster.node import Node
from tests.system.cluster.pods import Pods
from tests.system.cluster.site import EXAMPLES
from tests.system.cluster_vm import controllers, jobs
from tests.system.cluster_vm.machine import Machine

MIB = 2**20
# Four devices of each kind are for two workers; Debian builds UCX without verbs.
REPLACED = {
    "count: 4": "count: 2",
    "slotsPerWorker: 4": "slotsPerWorker: 1",
    "--mca pml ucx": "--mca pml cm --mca mtl ofi -x PINGPONG_ROUNDS=5",
    "--size=1g": "--size=8m",
    "16M": "4M",  # the largest message of collectives without CUDA
    "cpu: 2": "cpu: 100m",
    "-t 10": "-t 2",
}
STREAMING = "SELECT client_addr, state FROM pg_stat_replication"


@pytest.fixture
def running(
    cluster: ControlPlane, installed: Machine, pods: Pods, rails: list[str], jobs_image: None
) -> Iterator[jobs.Running]:
    """Return a namespace for a job, on a node with GPUs."""
    with gpu_driver(installed.node, pods, NVIDIA, "emulated"):
        running = jobs.Running(cluster, installed.node, pods)
        yield running
        running.end()


@pytest.fixture(scope="module")
def mpi_operator(cluster: ControlPlane, node: Node) -> Iterator[None]:
    """Have the MPI Operator at work."""
    directory = os.environ.get("BOX_CONTROLLERS")
    if not directory:
        lacking("Go 1.26 or newer", "install it and run ./hack/test cluster")
    operator = controllers.CONTROLLERS["mpi-operator"]
    manifests = Path(os.environ["BOX_CONTROLLER_MANIFESTS"])
    with controllers.running(cluster, node, operator, Path(directory), manifests):
        yield


def launcher_of(running: jobs.Running) -> str:
    """Return the name of the launcher's pod."""
    (name,) = (name for name in running.names() if "-launcher" in name)
    return name


def apply(cluster: ControlPlane, pods: Pods, example: str) -> None:
    """Apply an example with the image of the tests."""
    path = EXAMPLES / example
    text = cluster.kubectl("kustomize", str(path)) if path.is_dir() else path.read_text()
    documents = map(jobs.prepared, yaml.safe_load_all(text))
    text = yaml.safe_dump_all(documents)
    for old, new in REPLACED.items():
        text = text.replace(old, new)
    pods.apply(text)


def sent(node: Node, names: list[str]) -> int:
    """Return the bytes that the interfaces have sent, those that are on the node."""
    paths = [f"/sys/class/net/{name}/statistics/tx_bytes" for name in names]
    return sum(map(int, checked(node, "cat", *paths).split()))


def test_collectives_of_two_workers_use_their_nics_and_print_a_result(
    cluster: ControlPlane, installed: Machine, pods: Pods, running: jobs.Running, rails: list[str]
) -> None:
    before = sent(installed.node, rails)
    apply(cluster, pods, "scale-out")
    running.name(2, "train")

    first, second = running.names()
    log = running.wait_ended(first)
    running.wait_ended(second)

    rows = re.findall(r"^ +(\d+) +([\d.]+) +([\d.]+)$", log, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [MIB, 4 * MIB]
    result = jobs.figures(log, "COLLECTIVES_RESULT")
    assert (result["case"], result["ranks"], result["backend"]) == ("aligned", 2, "gloo")
    assert [result["all_gather_gb_s"], result["all_reduce_gb_s"]] == list(map(float, rows[-1][1:]))
    assert result["all_gather_gb_s"] > 0
    running.end()
    installed.wait_restored()
    # 23 rounds of each size; an all-gather sends half of the buffer from each rank.
    assert sent(installed.node, rails) - before > 23 * 5 * MIB


def test_training_prints_the_mfu_of_its_step_time(
    cluster: ControlPlane, installed: Machine, mpi_operator: None, pods: Pods,
    running: jobs.Running, rails: list[str], tmp_path: Path,
) -> None:  # fmt: skip
    before = sent(installed.node, rails)
    apply(cluster, pods, "numa-training")
    apply(cluster, pods, "numa-training/mpijob-unaligned.yaml")
    running.name(3, "mfu-unaligned")

    log = running.wait_ended(launcher_of(running))

    result = jobs.figures(log, "MFU_RESULT")
    assert (result["case"], result["ranks"], result["backend"]) == ("unaligned", 2, "gloo")
    assert result["parameters"] == 6 * 256 * 256
    assert result["tflop_per_step"] == pytest.approx(6 * result["parameters"] * 64 / 1e12)
    seconds = result["step_ms"] / 1e3
    assert result["tflops_per_gpu"] == pytest.approx(result["tflop_per_step"] / seconds, rel=1e-2)
    share = 100 * result["tflops_per_gpu"] / result["peak_tflops"]
    assert result["mfu_percent"] == pytest.approx(share, abs=0.02)
    assert log.count("NUMA node 1") == 4  # the evidence: two NICs of each of two workers
    (tmp_path / "run.log").write_text(log)
    compare = (sys.executable, EXAMPLES / "compare.py", tmp_path / "run.log", tmp_path / "run.log")
    table = subprocess.run(compare, check=True, capture_output=True, text=True).stdout
    assert f"| MFU | {result['mfu_percent']} % | {result['mfu_percent']} % | 0.00 % |" in table
    running.end("mpijobs")
    installed.wait_restored()
    # Each of 6 steps reduces the gradients: 4 bytes a parameter from each rank.
    assert sent(installed.node, rails) - before > 6 * 4 * result["parameters"]


def test_mpi_uses_verbs_on_the_claimed_nics(
    cluster: ControlPlane, installed: Machine, mpi_operator: None, pods: Pods,
    running: jobs.Running, rails: list[str],
) -> None:  # fmt: skip
    before = sent(installed.node, rails)
    apply(cluster, pods, "beyond-gpus/mpi")
    running.name(3, "pingpong")

    log = running.wait_ended(launcher_of(running))

    result = jobs.figures(log, "MPI_RESULT")
    assert result["ranks"] == 2
    assert min(result.values()) > 0
    running.end("mpijobs")
    installed.wait_restored()
    # 10 rounds there and back.
    assert sent(installed.node, rails) - before > 20 * MIB


def test_storage_client_uses_rdma_on_the_claimed_nics(
    cluster: ControlPlane, installed: Machine, pods: Pods, running: jobs.Running, rails: list[str]
) -> None:
    before = sent(installed.node, rails)
    apply(cluster, pods, "beyond-gpus/storage")
    running.name(2, "storage")

    log = running.wait_ended("storage-client")
    running.wait_ended("storage-server")

    assert re.search(r"^ +WRITE: bw=.*io=8192KiB", log, re.MULTILINE), log
    running.end()
    installed.wait_restored()
    assert sent(installed.node, rails) - before > 8 * MIB


def test_messages_of_low_latency_use_the_claimed_nics(
    cluster: ControlPlane, installed: Machine, pods: Pods, running: jobs.Running
) -> None:
    names = [str(facts["dra.net/ifName"]) for facts in installed.functions.values()]
    before = sent(installed.node, names)
    apply(cluster, pods, "beyond-gpus/low-latency")
    running.name(2, "latency")

    log = running.wait_ended("latency-client")

    # On a busy machine, too few messages arrive for statistics.
    assert re.search(r"Summary: Round trip is [\d.]+ usec|No valid observations found", log), log
    messages = re.search(r"Total Run.*ReceivedMessages=(\d+)", log)
    assert messages is not None, log
    running.end()
    installed.wait_restored()
    assert sent(installed.node, names) - before > 2 * 64 * int(messages[1]) > 0


def test_standby_of_a_database_receives_the_log_of_the_primary_over_the_claimed_nics(
    cluster: ControlPlane, installed: Machine, pods: Pods, running: jobs.Running
) -> None:
    names = [str(facts["dra.net/ifName"]) for facts in installed.functions.values()]
    before = sent(installed.node, names)
    apply(cluster, pods, "beyond-gpus/database")
    running.name(2, "db")

    def query(pod: str, text: str) -> str:
        psql = ("psql", "-U", "postgres", "-tA", "-c", text)
        try:
            return pods.exec(pod, *psql, container="postgres").strip()
        except RuntimeError:  # it does not serve yet
            return ""

    standby = "192.168.100.2|streaming"
    wait_until("the standby", lambda: query("db-primary", STREAMING) == standby, jobs.DEADLINE_S)
    query("db-primary", "CREATE TABLE steps AS SELECT generate_series(1, 100000) AS step")
    rows = "SELECT count(*) FROM steps"
    wait_until("the rows", lambda: query("db-standby", rows) == "100000", jobs.DEADLINE_S)
    running.end()
    installed.wait_restored()
    assert sent(installed.node, names) - before > 16 * MIB  # the primary's files
