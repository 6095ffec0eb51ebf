"""The DaemonSet of manifests/, run by a real kubelet from our image."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.daemons import MUST, Daemons
from tests.cluster.driver import NAMES, apply, links_of
from tests.cluster.node import Node
from tests.cluster.pods import Pods


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
    assert daemons.rights() == MUST


def test_a_pod_gets_its_nic_and_gives_it_back(daemons: Daemons, pods: Pods) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")

    assert daemons.published() == NAMES
    assert "10.100.0.5/24" in links_of(pods, "train")["nic0"]
    pods.delete("train")
    daemons.wait_home()
