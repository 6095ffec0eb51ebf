"""Tests in this directory run on a Kubernetes node that is a virtual machine: hack/test cluster.

One boot serves all: the machine, and the DaemonSet on it, last for the session.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import cluster, pods, programs, pytest_runtest_makereport, running
from tests.cluster.control_plane import ControlPlane
from tests.cluster.daemons import Daemons
from tests.cluster.node import Node, machine
from tests.cluster_vm.machine import Machine

__all__ = ["cluster", "pods", "programs", "pytest_runtest_makereport"]

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


@pytest.fixture(scope="session")
def node(
    cluster: ControlPlane, programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Node]:
    """Return the machine as a node, ready for pods."""
    node = Node(cluster, programs, tmp_path_factory.mktemp("machine"), machine)
    running.append(node)  # what it said is shown also where it doesn't get ready
    with node:
        yield node
    running.remove(node)


@pytest.fixture(scope="session")
def daemons(
    cluster: ControlPlane, node: Node, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Daemons]:
    """Return manifests/base, installed."""
    directory = tmp_path_factory.mktemp("installed")
    daemons = Daemons(cluster, node, directory, json.dumps(_with_patience()))
    daemons.install()
    yield daemons
    daemons.remove()


@pytest.fixture(scope="session")
def installed(cluster: ControlPlane, node: Node, daemons: Daemons) -> Machine:
    """Return the node once its NICs are offered."""
    found = Machine(cluster, node)
    found.settle()
    return found


def _with_patience() -> dict[str, object]:
    """Return a kustomization of the base for emulated hardware, where a Python takes seconds."""
    patch = [
        {
            "op": "add",
            "path": f"/spec/template/spec/containers/{number}/{probe}/{name}",
            "value": 90,
        }
        for number in (0, 1)
        for probe in PROBES
        for name in ("timeoutSeconds", "failureThreshold")
    ]
    target = {"kind": "DaemonSet", "name": "dranet"}
    return {"resources": ["base"], "patches": [{"target": target, "patch": json.dumps(patch)}]}
