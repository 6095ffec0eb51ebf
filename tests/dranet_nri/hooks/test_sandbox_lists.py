"""What the runtime's list of sandboxes means: stopped ones are in it, and not always to be told."""

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
@pytest.mark.parametrize("pids", [(0, 0), (5, 7), (0, 7)], ids=["crio tells none", "stale", ""])
def test_a_sandbox_that_was_made_anew_while_the_plugin_was_away_gets_the_nic(
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
def test_without_a_record_the_sandbox_gets_the_nic_that_has_a_namespace(
    node: Node, *, old_last: bool
) -> None:
    old = node.pod("web", "one")
    claim = node.allocate(old, 1)
    node.kernel.remove_netns(node.netns(old))
    new = node.pod("web", "two")

    node.synchronize(*in_order(old, new, old_last=old_last))

    assert node.in_pod(1, new)
    assert node.gate_open(claim)


@pytest.mark.parametrize("recorded", [Phase.HOME, Phase.DETACHING])
def test_a_sandbox_that_has_ended_by_its_record_is_not_taken_for_the_one_that_lives(
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
def test_case_51_a_sandbox_without_process_and_namespace_has_ended(
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
    assert record.phase is Phase.HOME
    assert record.failure is None
    assert node.at_home(1)
    assert not node.reconcile(), "nothing is left to do"


def test_case_51_a_pod_on_the_hosts_network_has_a_process_and_is_told_why(node: Node) -> None:
    pod = replace(node.pod("web"), netns_path="", pid=7)
    claim = node.allocate(pod, 1)

    node.synchronize(pod)

    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert "hostNetwork" in record.failure.message


def test_a_sandbox_that_no_list_and_no_event_named_is_known_from_any_container(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1, containers=(ContainerClaim("app"),))
    node.synchronize()
    assert not node.gate_open(claim)
    node.bell.clear()

    node.create(pod, name="sidecar")

    assert node.bell == ["news"]
    node.reconcile()
    assert node.in_pod(1, pod)
    assert node.gate_open(claim)


def test_a_container_in_an_old_sandbox_does_not_bring_that_back(node: Node) -> None:
    old, new = node.pod("web", "one"), node.pod("web", "two")
    claim = node.allocate(old, 1, containers=(ContainerClaim("app"),))
    node.run_pod(old)
    node.run_pod(new)

    node.create(old, name="sidecar")
    node.reconcile()

    assert node.in_pod(1, new)
    assert node.gate_open(claim)


class Forbidden(FakeKernel):
    """A kernel that shows nobody the namespaces of sandboxes called "hidden"."""

    def identify(self, path: str) -> NetnsId | None:
        """Look at a path."""
        if path.endswith("hidden"):
            raise KernelError(f"open namespace {path}", EACCES)
        return super().identify(path)


@pytest.fixture
def forbidden(tmp_path: Path) -> Iterator[Node]:
    """Return a node with such a kernel."""
    made = Node(tmp_path, kernel=Forbidden())
    yield made
    made.close()


def test_a_namespace_that_nobody_can_look_at_spoils_no_other_sandbox_of_the_list(
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
