"""The chart as Helm installs it on a real cluster: a name and a namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.box.waiting import wait_until
from tests.system.cluster.api import ApiError, Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.driver import NAMES, Driver, apply, links_of
from tests.system.cluster.inside import HAS_INTERFACE
from tests.system.cluster.installed import MANIFESTS
from tests.system.cluster.node import Node
from tests.system.cluster.pods import POD_TIMEOUT_S, Pods
from tests.system.cluster.workload import NAMESPACES, RESOURCES

CHART: Final = MANIFESTS / "helm/dranet-nri"
RELEASE: Final = ("fabric", str(CHART), "--namespace=nics", "--wait", "--timeout=240s")
VALUES: Final = (
    '--set-json=fullnameOverride="fabric"',
    f"--set-json=args.filter={json.dumps(HAS_INTERFACE)}",
)
FILES: Final = (
    f"{NAMESPACES}/nics/serviceaccounts/fabric",
    "/apis/apps/v1/namespaces/nics/daemonsets/fabric",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/fabric",
    f"{RESOURCES}/deviceclasses/nic.dra.net",
)
Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(helm: Path, cluster: ControlPlane) -> Run:
    """Return what runs Helm as the cluster's administrator, and returns what it says."""

    def running(*arguments: str) -> str:
        command = [str(helm), *arguments, f"--kubeconfig={cluster.kubeconfig}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return running


@pytest.fixture(scope="module")
def released(run: Run, cluster: ControlPlane, node: Node) -> Iterator[Driver]:
    """Return the driver, installed from the chart."""
    node.load(Path(os.environ["BOX_OCI"]))
    run("install", *RELEASE, *VALUES, "--create-namespace")
    driver = Driver(cluster, node)
    driver.settle()
    yield driver
    run("uninstall", "fabric", "--namespace=nics", "--ignore-not-found")


def test_release_serves_pods_and_is_removed_completely(
    run: Run, released: Driver, pods: Pods
) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")

    assert released.published() == NAMES
    assert "10.100.0.5/24" in links_of(pods, "train")["nic0"]
    wait_until("word in the claim", lambda: ready(pods, "train"), POD_TIMEOUT_S)
    run("upgrade", *RELEASE, *VALUES, "--set-json=logVerbosity=4")
    assert "10.100.0.5/24" in links_of(pods, "train")["nic0"]
    pods.delete("train")
    released.wait_restored()

    assert all(is_there(pods, path) for path in FILES)
    run("uninstall", "fabric", "--namespace=nics", "--wait", "--timeout=120s")
    assert not any(is_there(pods, path) for path in FILES)


def ready(pods: Pods, claim: str) -> bool:
    """Tell whether the claim says that its device is in its pod."""
    found = pods.claim(claim)
    assert found is not None
    conditions: list[Object] = [
        condition
        for device in found["status"].get("devices", [])
        for condition in device["conditions"]
    ]
    return {"Ready"} <= {
        condition["type"] for condition in conditions if condition["status"] == "True"
    }


def is_there(pods: Pods, path: str) -> bool:
    """Tell whether the API server has an object."""
    try:
        pods.api.get(path)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True
