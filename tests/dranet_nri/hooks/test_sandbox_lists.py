"""Sandbox lists of the runtime, which may contain stopped sandboxes."""

from collections.abc import Iterator
from dataclasses import replace
from errno import EACCES
from pathlib import Path

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.model import ContainerClaim, NetnsId, Phase, Pod
from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.kernel import FakeKernel
from tests.fakes.node import Node

pytestmark = pytest.mark.process


__all__ = ["node"]

OLD_LAST = pytest.mark.parametrize("old_last", [True, False], ids=["old last", "new last"])


def in_order(old: Pod, new: Pod, *, old_last: bool) -> tuple[Pod, ...]:
    """Return both as a list has them."""
    return (new, old) if old_last else (old, new)


@OLD_LAST
@pytest.mark.parametrize("pids", [(0, 0), (5, 7), (0, 7)], ids=["no pids in CRI-O", "stale", ""])
def test_sandbox_recreated_while_the_plugin_was_down_gets_the_nic(
    node: Node, pids: tuple[int, int], *, old_last: bool
) -> None:
    old = replace(node.pod("web", "one"), pid=pids[0])
    claim = node.allocate(old, 1)
    node.run_pod(old)
    netns = node.netns(old)
    node.restart()
    node.kernel.remove_netns(netns)
    new = replace(node.pod("web", "two"), pid=pids[1])

    node.synchronize(*in_order(old, new, old_last=old_last), rounds=2)

    assert node.in_pod(1, new)
    assert node.gate_open(claim)


@OLD_LAST
def test_sandbox_with_a_namespace_gets_the_nic_without_a_record(
    node: Node, *, old_last: bool
) -> None:
    old = node.pod("web", "one")
    claim = node.allocate(old, 1)
    node.kernel.remove_netns(node.netns(old))
    new = node.pod("web", "two")

    node.synchronize(*in_order(old, new, old_last=old_last))

    assert node.in_pod(1, new)
    assert node.gate_open(claim)


@pytest.mark.parametrize("recorded", [Phase.RESTORED, Phase.DETACHING])
def test_sandbox_ended_by_its_record_is_not_taken_for_the_live_one(
    node: Node, recorded: Phase
) -> None:
    old, new = node.pod("web", "one"), node.pod("web", "two")
    claim = node.allocate(old, 1)
    node.run_pod(old)
    node.stop_pod(old)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    node.attachments.put(replace(record, phase=recorded))
    node.restart()

    node.synchronize(old, new)

    assert node.in_pod(1, new)


@pytest.mark.parametrize("stopped", [True, False], ids=["seen to stop", "stopped unseen"])
def test_case_51_sandbox_without_a_process_and_a_namespace_has_ended(
    node: Node, *, stopped: bool
) -> None:
    pod = node.pod("job")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    netns = node.netns(pod)
    if stopped:
        node.stop_pod(pod)
    node.restart()
    node.kernel.remove_netns(netns)

    node.synchronize(replace(pod, netns_path=""), rounds=2)  # so containerd 1.7 lists it

    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.phase is Phase.RESTORED
    assert record.failure is None
    assert node.is_on_host(1)
    assert not node.reconcile(), "nothing is left to do"


def test_case_51_host_network_pod_in_the_list_is_refused_with_the_reason(node: Node) -> None:
    pod = replace(node.pod("web"), netns_path="", pid=7)
    claim = node.allocate(pod, 1)

    node.synchronize(pod)

    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert "hostNetwork" in record.failure.message


def test_unlisted_sandbox_is_learned_from_any_container(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1, containers=(ContainerClaim("app"),))
    node.synchronize()
    assert not node.gate_open(claim)
    node.reconcile_requests.clear()

    node.create(pod, name="sidecar")

    assert node.reconcile_requests == ["request"]
    node.reconcile()
    assert node.in_pod(1, pod)
    assert node.gate_open(claim)


def test_container_in_an_earlier_sandbox_does_not_make_it_current(node: Node) -> None:
    old, new = node.pod("web", "one"), node.pod("web", "two")
    claim = node.allocate(old, 1, containers=(ContainerClaim("app"),))
    node.run_pod(old)
    node.run_pod(new)

    node.create(old, name="sidecar")
    node.reconcile()

    assert node.in_pod(1, new)
    assert node.gate_open(claim)


class Forbidden(FakeKernel):
    """A kernel that denies access to the namespaces of sandboxes called "hidden"."""

    def identify(self, path: str) -> NetnsId | None:
        """Identify the namespace at a path."""
        if path.endswith("hidden"):
            raise KernelError(f"open namespace {path}", EACCES)
        return super().identify(path)


@pytest.fixture
def forbidden(tmp_path: Path) -> Iterator[Node]:
    """Return a node with such a kernel."""
    made = Node(tmp_path, kernel=Forbidden())
    yield made
    made.close()


def test_unreadable_namespace_does_not_affect_other_listed_sandboxes(
    forbidden: Node,
) -> None:
    pod = forbidden.pod("web")
    claim = forbidden.allocate(pod, 1, claim="one")
    hidden = Pod("hidden", "uid-hidden", "default", "hidden", "/run/netns/hidden")
    unseen = forbidden.allocate(hidden, 2, claim="two")

    forbidden.synchronize(hidden, pod)

    assert forbidden.gate_open(claim)
    record = forbidden.attachments.get(unseen.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert "EACCES" in record.failure.message
