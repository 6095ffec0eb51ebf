"""StopPodSandbox is answered when the devices are restored, before they are verified."""

import threading
from collections.abc import Callable

import pytest

from dranet_nri.attach.execution.restorer import Restorer
from dranet_nri.model import Phase
from dranet_nri.plan.ops import AddAddress, MoveLink
from dranet_nri.plan.retry import RestoreResult
from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.node import Node

pytestmark = pytest.mark.process


__all__ = ["node"]

LIMIT_S = 30.0


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return an answer for which each verification waits."""
    answered = threading.Event()
    verify = Restorer._verify

    def verified(*arguments: object, **named: object) -> RestoreResult:
        assert answered.wait(LIMIT_S), "verified before the answer"
        return verify(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Restorer, "_verify", verified)
    return answered.set


def test_sandbox_is_answered_before_the_verification(
    node: Node, answer: Callable[[], None]
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)

    node.run(lambda: node.plugin.stop_pod_sandbox(pod, answer))

    assert node.is_on_host(1)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.phase is Phase.RESTORED


def test_devices_of_all_claims_are_restored_before_the_answer(node: Node) -> None:
    pod = node.pod("web")
    for number in (1, 2):
        node.allocate(pod, number, claim=f"claim-{number}")
    node.run_pod(pod)
    on_host: list[bool] = []

    def answer() -> None:
        on_host.extend(node.is_on_host(number) for number in (1, 2))

    node.run(lambda: node.plugin.stop_pod_sandbox(pod, answer))

    assert on_host == [True, True]


@pytest.mark.parametrize("refused", [MoveLink, AddAddress])
def test_refused_operation_causes_no_early_answer(node: Node, refused: type) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    node.kernel.fail_on(refused)
    answers: list[str] = []

    node.run(lambda: node.plugin.stop_pod_sandbox(pod, lambda: answers.append("answered")))

    assert answers == []


def test_removal_of_a_running_sandbox_is_answered_before_the_verification(
    node: Node, answer: Callable[[], None]
) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)

    node.run(lambda: node.plugin.remove_pod_sandbox(pod, answer))

    assert [record.phase for record in node.attachments.all()] == [Phase.RESTORED]
