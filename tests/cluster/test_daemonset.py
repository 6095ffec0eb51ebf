"""The DaemonSet of manifests/, run by a real kubelet from our image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.box.place import checked
from tests.cluster.control_plane import ControlPlane
from tests.cluster.daemons import Daemons
from tests.cluster.driver import NAMES, apply, links_of
from tests.cluster.node import Node
from tests.cluster.pods import Pods

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
) -> Iterator[Daemons]:
    """Return the driver, installed."""
    daemons = Daemons(cluster, node, tmp_path_factory.mktemp("installed"))
    daemons.install()
    daemons.settle()
    yield daemons
    daemons.remove()


def test_each_process_may_what_it_must_and_no_more(daemons: Daemons) -> None:
    lines = checked(daemons.node, "sh", "-c", PROCESSES).splitlines()

    found = {name: (int(caps, 16), *more) for name, caps, *more in map(str.split, lines)}
    assert found == {
        "shim": (0, "1", "2"),
        "nri": (NET_ADMIN | SYS_ADMIN, "1", "2"),
    }


def test_a_pod_gets_its_nic_and_gives_it_back(daemons: Daemons, pods: Pods) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")

    assert daemons.published() == NAMES
    assert "10.100.0.5/24" in links_of(pods, "train")["nic0"]
    pods.delete("train")
    daemons.wait_home()
