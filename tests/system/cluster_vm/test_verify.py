"""`dra-shim verify` as a user runs it: pods by claims, a report, and nothing left afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.box import image
from tests.box.waiting import wait_until
from tests.capability import lacking
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.workload import NAMESPACES
from tests.system.cluster_vm.machine import Machine

# The links and RDMA devices of an emulated machine have no speed that means anything.
BARS = ("tcp=0.001", "write=0", "latency=10000000", "loss=5")
CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: verified}
spec:
  selectors:
  - cel:
      expression: |-
        device.driver == "dra.net" && has(device.attributes["dra.net"].rdma) &&
        device.attributes["dra.net"].rdma && has(device.attributes["dra.net"].isSriovVf) &&
        device.attributes["dra.net"].isSriovVf
"""


@pytest.fixture(scope="module")
def tools(cluster: ControlPlane, installed: Machine, tmp_path_factory: pytest.TempPathFactory) -> (
    Iterator[None]
):  # fmt: skip
    """Give the node an image with the tools, and the cluster a class of the RDMA NICs."""
    root = os.environ.get("BOX_JOBS")
    if not root:
        lacking("the root of image jobs", "run ./hack/test cluster")
    archive = tmp_path_factory.mktemp("image") / "tools.tar"
    image.write_tools(Path(root), archive)
    installed.node.load(archive)
    archive.unlink()
    cluster.kubectl("apply", "--filename=-", stdin=CLASS)
    yield
    cluster.kubectl("delete", "deviceclass", "verified")


def command(cluster: ControlPlane, *words: str) -> list[str]:
    """Return a command line: two pods on the one node of the cluster, one NIC each."""
    bars = [word for bar in BARS for word in ("--bar", bar)]
    return [
        *(sys.executable, "-m", "dra_shim", "verify", "--nodes", "box,box", "--nics", "1"),
        *("--class", "verified", "--image", image.TOOLS, *bars),
        *("--kubeconfig", str(cluster.kubeconfig), *words),
    ]


def environment(programs: Path) -> dict[str, str]:
    """Return the environment, with the cluster's kubectl on the path."""
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}


def left(cluster: ControlPlane) -> Sequence[str]:
    """Return the namespaces of verifications."""
    names = [item["metadata"]["name"] for item in cluster.api().get(NAMESPACES)["items"]]
    return [name for name in names if name.startswith("dranet-verify-")]


def test_a_report_of_two_pods(
    cluster: ControlPlane, installed: Machine, programs: Path, tools: None, rails: list[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    svg = tmp_path / "matrix.svg"

    done = subprocess.run(
        command(cluster, "--output", "json", "--svg", str(svg)), env=environment(programs),
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    # perftest reports nothing where the clock of a busy machine is not steady.
    others = [line for line in report["checks"] if line["check"] not in {"write", "latency"}]
    assert {line["result"] for line in others} == {"passed"}, done.stdout
    checks = {line["check"] for line in report["checks"]}
    assert checks >= {"link", "mtu", "gid", "memlock", "route", "reach", "path mtu", "loss"}
    assert checks >= {"tcp", "rping", "write", "latency"}
    assert "2 of 2 pods are ready" in done.stderr
    assert ET.parse(svg).getroot().tag.endswith("svg")
    assert left(cluster) == []
    installed.wait_home()


def test_an_interrupted_verification_leaves_nothing(
    cluster: ControlPlane, installed: Machine, programs: Path, tools: None, rails: list[str]
) -> None:
    with subprocess.Popen(
        command(cluster), env=environment(programs), stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        wait_until("the namespace", lambda: left(cluster), 60)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate()

    assert running.returncode == 130, said
    assert left(cluster) == []
    installed.wait_home()
