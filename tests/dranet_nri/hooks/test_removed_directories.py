"""Directories that an operator removes while the plugin runs."""

import shutil

import pytest

from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.node import Node

pytestmark = pytest.mark.process


__all__ = ["node"]


@pytest.mark.parametrize("removed", ["allocations", "run/attachments", "run", "cdi"])
def test_pods_are_attached_and_restored_after_the_removal_of_a_directory(
    node: Node, removed: str
) -> None:
    first, second = node.pod("first"), node.pod("second")
    node.allocate(first, 1, claim="one")
    node.run_pod(first)
    shutil.rmtree(node.root / removed)

    claim = node.allocate(second, 2, claim="two")
    node.run_pod(second)

    assert node.in_pod(2, second)
    assert node.gate_open(claim)
    node.restart()
    assert node.in_pod(1, first)
    node.stop_pod(first)
    node.stop_pod(second)
    assert node.is_on_host(1)
    assert node.is_on_host(2)


def test_removed_cdi_spec_of_an_attached_pod_is_written_again(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    shutil.rmtree(node.root / "cdi")

    node.reconcile()

    assert node.gate_open(claim)
