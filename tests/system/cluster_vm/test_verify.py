"""`kubectl dranet verify` as a user runs it: pods by claims, a report, nothing left afterwards."""

from __future__ import annotations

import json
import signal
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.box import image
from tests.box.waiting import wait_until
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.workload import NAMESPACES
from tests.system.cluster_vm.machine import Machine
from tests.system.cluster_vm.plugin import Plugin

# The links and RDMA devices of an emulated machine have no speed that means anything.
THRESHOLDS = (
    *("tcp=0.001", "write=0", "latency=10000000", "loss=5"),
    *("all-gather=0", "all-reduce=0"),
)
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
# The image has no /usr of its own (tests/box/image.py).
POD = f"""
kind: Pod
spec:
  containers:
  - name: programs
    image: {image.JOBS}
    env: [{{name: COLLECTIVES_MAXIMUM, value: 1M}}]
    volumeMounts: [{{name: programs, mountPath: /usr, readOnly: true}}]
  volumes: [{{name: programs, hostPath: {{path: /srv/usr}}}}]
"""


@pytest.fixture(scope="module")
def verified(
    cluster: ControlPlane, jobs_image: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Give the cluster a class of the RDMA NICs; return the file of a Pod."""
    cluster.kubectl("apply", "--filename=-", stdin=CLASS)
    path = tmp_path_factory.mktemp("verify") / "pod.yaml"
    path.write_text(POD)
    yield path
    cluster.kubectl("delete", "deviceclass", "verified")


def command(pod: Path, *arguments: str) -> list[str]:
    """Return the words of a command line: two pods on the one node of the cluster, one NIC each."""
    thresholds = [word for threshold in THRESHOLDS for word in ("--threshold", threshold)]
    return [
        "verify",
        "--nodes=box,box",
        "--nics=1",
        "--class=verified",
        f"--pod={pod}",
        *thresholds,
        *arguments,
    ]


def left(cluster: ControlPlane) -> Sequence[str]:
    """Return the namespaces of verifications."""
    names = [item["metadata"]["name"] for item in cluster.api().get(NAMESPACES)["items"]]
    return [name for name in names if name.startswith("dranet-verify-")]


def test_verify_reports_two_pods(
    cluster: ControlPlane, installed: Machine, programs: Path, verified: Path, rails: list[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    svg = tmp_path / "matrix.svg"

    arguments = command(verified, "--collectives", "--output=json", f"--svg={svg}")
    done = Plugin(cluster, programs).run(*arguments)

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert {line["result"] for line in report["checks"]} == {"passed"}, done.stdout
    checks = {line["check"] for line in report["checks"]}
    assert checks >= {"link", "mtu", "gid", "memlock", "route", "reach", "path mtu", "loss"}
    assert checks >= {"tcp", "rping", "write", "latency", "all-gather", "all-reduce"}
    assert "2 of 2 pods are ready" in done.stderr
    assert ET.parse(svg).getroot().tag.endswith("svg")
    assert left(cluster) == []
    installed.wait_restored()


def test_interrupted_verification_leaves_no_objects(
    cluster: ControlPlane, installed: Machine, programs: Path, verified: Path, rails: list[str]
) -> None:
    arguments = ("kubectl", "dranet", *command(verified))
    environment = Plugin(cluster, programs).environment
    with subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        wait_until("the namespace", lambda: left(cluster))
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate()

    assert running.returncode == 130, errors
    assert left(cluster) == []
    installed.wait_restored()
