"""Tests in this directory run against a real control plane on this machine: hack/test cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capability import lacking
from tests.cluster.control_plane import ControlPlane
from tests.cluster.workload import Workload
from tests.reporting import reporting


def logs(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """Return the ends of the logs of the control planes that a test uses."""
    assert isinstance(item, pytest.Function)
    for value in item.funcargs.values():
        if isinstance(value, ControlPlane):
            yield from value.tails()


pytest_runtest_makereport = reporting(logs)


@pytest.fixture(scope="session")
def programs() -> Path:
    """Return the directory of the programs of Kubernetes and of etcd."""
    directory = os.environ.get("BOX_KUBE")
    if not directory:
        lacking("Go 1.26 or newer", "install it and run ./hack/test cluster")
    return Path(directory)


@pytest.fixture(scope="session")
def cluster(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return the control plane that the tests of a session share. Logs stay in the directory."""
    with ControlPlane(programs, tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture
def workload(cluster: ControlPlane) -> Iterator[Workload]:
    """Return a namespace and a node of the test's own, with two devices; all gone afterwards."""
    workload = Workload(cluster)
    workload.create()
    yield workload
    workload.delete()
