"""Tests in this directory run on a Kubernetes node that is a virtual machine: hack/test cluster.

One boot serves all: the machine, and the DaemonSet on it, last for the session.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.box.target import checked
from tests.capability import lacking
from tests.system.cluster.conftest import (
    cluster,
    pods,
    programs,
    pytest_runtest_makereport,
    running,
)
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.daemons import Daemons
from tests.system.cluster.installed import BASE
from tests.system.cluster.node import Node, machine
from tests.system.cluster_vm import jobs
from tests.system.cluster_vm.machine import Machine

__all__ = ["cluster", "pods", "programs", "pytest_runtest_makereport"]

# INTERFACE ADDRESS…: the addresses of the node's NICs (tests/box/nics.py) are those of networks of
# their own. Here all are on one; the second command undoes the first.
JOIN = """
while [ $# -gt 0 ]; do
    ip -4 route show dev "$1" table all | sed -n "s/ linkdown//; / via /p" >"/run/$1"
    while read -r route; do ip route del $route dev "$1"; done <"/run/$1"
    ip addr del "$2" dev "$1"
    number=$((number + 1))
    ip addr add "10.30.0.$number/24" dev "$1"
    shift 2
done
"""
PART = """
while [ $# -gt 0 ]; do
    ip -4 addr flush dev "$1"
    ip addr add "$2" dev "$1"
    while read -r route; do ip route add $route dev "$1"; done <"/run/$1"
    shift 2
done
"""
POD = "/spec/template/spec"
# A probe of the plugin starts a Python. The tests of probes are in tests/system/cluster.
PERIOD = ("periodSeconds",)
PROBES = {"startupProbe": (), "livenessProbe": PERIOD, "readinessProbe": PERIOD}


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
    daemons = Daemons(cluster, node, directory, json.dumps(_on_emulated_hardware()))
    daemons.install()
    yield daemons
    daemons.remove()


@pytest.fixture(scope="session")
def installed(cluster: ControlPlane, node: Node, daemons: Daemons) -> Machine:
    """Return the node once its NICs are offered."""
    found = Machine(cluster, node)
    found.settle()
    return found


@pytest.fixture(scope="session")
def jobs_image(node: Node, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give the node the image of distributed jobs, which stands for the examples' own."""
    root = os.environ.get("BOX_JOBS")
    if not root:
        lacking("the root of image jobs", "run ./hack/test cluster")
    jobs.load_image(node, Path(root), tmp_path_factory.mktemp("image"))


@pytest.fixture
def rails(installed: Machine) -> Iterator[list[str]]:
    """Have the functions with RDMA on one network; return their interfaces."""
    node = installed.node
    addresses = {
        str(facts["dra.net/ifName"]): str(facts["dra.net/ipv4"])
        for facts in installed.functions.values()
        if facts["dra.net/isSriovVf"] and facts["dra.net/rdmaDevice"]
    }
    arguments = [word for pair in sorted(addresses.items()) for word in pair]
    checked(node, "sh", "-ec", JOIN, "-", *arguments)
    installed.settle()
    yield sorted(addresses)
    installed.wait_restored()
    checked(node, "sh", "-ec", PART, "-", *arguments)
    installed.settle()


def _on_emulated_hardware() -> dict[str, object]:
    """Return a kustomization of the base: a Python takes seconds, and a kernel for one CPU has no
    RCU parameters.
    """
    (daemon_set,) = yaml.safe_load_all((BASE / "daemonset.yaml").read_text())
    pod = daemon_set["spec"]["template"]["spec"]
    # By number: a strategic merge would put the container that it names first.
    patch: list[dict[str, object]] = [
        {
            "op": "add",
            "path": f"{POD}/containers/{number}/{probe}/{name}",
            "value": 90,
        }
        for number in range(len(pod["containers"]))
        for probe, names in PROBES.items()
        for name in ("timeoutSeconds", "failureThreshold", *names)
    ]
    lists = {"volumes": pod["volumes"]} | {
        f"containers/{number}/volumeMounts": container["volumeMounts"]
        for number, container in enumerate(pod["containers"])
    }
    patch += [
        {"op": "remove", "path": f"{POD}/{path}/{number}"}
        for path, entries in lists.items()
        for number, entry in enumerate(entries)
        if entry["name"] == "rcu"
    ]
    target = {"kind": "DaemonSet", "name": "dranet"}
    return {"resources": ["base"], "patches": [{"target": target, "patch": json.dumps(patch)}]}
