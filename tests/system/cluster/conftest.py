"""Tests in this directory run against a real Kubernetes on this machine: hack/test cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capability import lacking
from tests.reporting import reporting
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.daemons import Daemons
from tests.system.cluster.driver import Driver
from tests.system.cluster.node import Node
from tests.system.cluster.pods import Pods
from tests.system.cluster.workload import Workload


def logs(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """Return the ends of the logs of the control planes that a test uses, and of the node."""
    assert isinstance(item, pytest.Function)
    for value in item.funcargs.values():
        if isinstance(value, ControlPlane | Daemons):
            yield from value.tails()
    for node in running:
        yield from node.tails()


running: list[Node] = []  # a fixture of a fixture that failed is not known to the test
pytest_runtest_makereport = reporting(logs)


@pytest.fixture(scope="session")
def programs() -> Path:
    """Return the directory of the programs of Kubernetes and of etcd."""
    directory = os.environ.get("BOX_KUBE")
    if not directory:
        lacking("Go 1.26 or newer", "install it and run ./hack/test cluster")
    return Path(directory)


@pytest.fixture(scope="session")
def helm() -> Path:
    """Return the program of Helm."""
    path = os.environ.get("BOX_HELM")
    if not path:
        lacking("Go 1.26 or newer", "install it and run ./hack/test cluster")
    return Path(path)


@pytest.fixture(scope="session")
def cluster(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return the control plane that the tests of a session share. Logs stay in the directory."""
    with ControlPlane(programs, tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="module")
def node(
    cluster: ControlPlane, programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Node]:
    """Return the node that the tests of a module share, ready for pods; no other test sees it."""
    with Node(cluster, programs, tmp_path_factory.mktemp("node")) as node:
        running.append(node)
        yield node
        running.remove(node)


@pytest.fixture(scope="module")
def driver(cluster: ControlPlane, node: Node) -> Iterator[Driver]:
    """Return the driver at work on the node."""
    driver = Driver(cluster, node)
    driver.start()
    yield driver
    driver.stop()


@pytest.fixture
def workload(cluster: ControlPlane) -> Iterator[Workload]:
    """Return a namespace and a node of the test's own, with two devices; all gone afterwards."""
    workload = Workload(cluster)
    workload.create()
    yield workload
    workload.delete()


@pytest.fixture
def pods(cluster: ControlPlane, node: Node) -> Iterator[Pods]:
    """Return a namespace for pods on the node; all gone afterwards."""
    pods = Pods(cluster)
    yield pods
    pods.remove()
