"""The DaemonSet of manifests/, run by a real kubelet from our image."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.box.place import checked
from tests.box.waiting import wait_until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.driver import NAMES, Driver, apply, links_of
from tests.cluster.inside import HAS_INTERFACE
from tests.cluster.installed import BASE, Installed
from tests.cluster.node import Node
from tests.cluster.pods import Pods

KUSTOMIZATION: Final = f"""
resources: [base]
patches:
- target: {{kind: DaemonSet, name: dranet}}
  patch: |
    - op: add
      path: /spec/template/spec/containers/0/args/-
      value: '--filter={HAS_INTERFACE}'
"""
# Of each process: its program, what it may (linux/capability.h), whether it can get more.
PROCESSES: Final = """
for process in /proc/[0-9]*; do
    case $(tr '\\0' ' ' <$process/cmdline 2>/dev/null) in
    */dra-shim\\ run*) name=shim ;;
    */dranet-nri\\ run*) name=nri ;;
    *) continue ;;
    esac
    echo $name $(sed -n 's/^\\(CapEff\\|NoNewPrivs\\|Seccomp\\):\\s*//p' $process/status)
done
"""
NET_ADMIN: Final = 1 << 12
SYS_ADMIN: Final = 1 << 21


@pytest.fixture(scope="module")
def daemons(
    cluster: ControlPlane, node: Node, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    """Return the driver that the base installs, changed only in that it offers veths."""
    node.load(Path(os.environ["BOX_OCI"]))
    directory = tmp_path_factory.mktemp("installed")
    shutil.copytree(BASE, directory / "base")
    (directory / "kustomization.yaml").write_text(KUSTOMIZATION)
    installed = Installed(cluster, directory)
    installed.apply(directory)
    wait_until("the DaemonSet to be ready", lambda: is_ready(installed), 240)
    driver = Driver(cluster, node)
    driver.settle()
    yield driver
    installed.remove()


def is_ready(installed: Installed) -> bool:
    """Tell whether the pod of the last template is ready."""
    daemon_set = installed.daemon_set()
    status = daemon_set["status"]
    return bool(
        status.get("observedGeneration") == daemon_set["metadata"]["generation"]
        and status.get("updatedNumberScheduled", 0) == 1
        and status.get("numberReady", 0) == 1
    )


def test_each_process_may_what_it_must_and_no_more(daemons: Driver) -> None:
    lines = checked(daemons.node, "sh", "-c", PROCESSES).splitlines()

    found = {name: (int(caps, 16), *more) for name, caps, *more in map(str.split, lines)}
    assert found == {
        "shim": (0, "1", "2"),
        "nri": (NET_ADMIN | SYS_ADMIN, "1", "2"),
    }


def test_a_pod_gets_its_nic_and_gives_it_back(daemons: Driver, pods: Pods) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")

    assert daemons.published() == NAMES
    assert "10.100.0.5/24" in links_of(pods, "train")["nic0"]
    pods.delete("train")
    daemons.wait_home()


def test_an_update_takes_no_nic_from_a_pod(
    cluster: ControlPlane, daemons: Driver, pods: Pods
) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")
    before = links_of(pods, "train")

    cluster.kubectl("rollout", "restart", "daemonset/dranet", "--namespace=kube-system")
    apply(pods, "meanwhile", "nic1")
    cluster.kubectl(
        "rollout", "status", "daemonset/dranet", "--namespace=kube-system", "--timeout=50s"
    )
    pods.wait_running("meanwhile")

    assert "nic1" in links_of(pods, "meanwhile")
    assert pods.restarts("meanwhile") == 0
    assert links_of(pods, "train") == before
    pods.delete("train")
    pods.delete("meanwhile")
    daemons.wait_home()
