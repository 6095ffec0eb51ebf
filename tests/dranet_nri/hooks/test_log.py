"""Log of a failed attach: one line, wherever the failure occurs."""

import asyncio
from contextlib import suppress
from errno import EBUSY
from pathlib import Path

import pytest

from dranet_nri.model import Container, NetnsId, Pod
from dranet_nri.plan.ops import MoveLink, Op
from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.kernel import FakeKernel
from tests.fakes.node import LATER, Node

pytestmark = pytest.mark.process


__all__ = ["node"]

BUG = "a bug of ours"


def failing(node: Node) -> Pod:
    """Return a pod whose NIC the kernel does not let go."""
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.kernel.fail_on(MoveLink, EBUSY)
    return pod


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the log lines of the attach."""
    return [line for line in capsys.readouterr().out.splitlines() if "EBUSY" in line]


def test_failed_late_attach_is_logged_once(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    pod = failing(node)

    node.synchronize(pod)

    (line,) = lines(capsys)
    assert "late attach failed" in line
    assert f"subject={pod}" in line


def test_sandbox_accepted_without_its_nic_is_logged_once(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = failing(node)
    node.plugin.may_reject = False

    node.run_pod(pod)

    (line,) = lines(capsys)
    assert "sandbox accepted" in line


def test_failed_attach_is_logged_after_its_caller_was_cancelled(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = failing(node)
    paused = node.pause()
    container = Container("c", pod.sandbox_id, "app")

    async def scenario() -> None:
        create = asyncio.create_task(node.plugin.create_container(pod, container, LATER))
        await asyncio.to_thread(paused.begun.wait)
        create.cancel()  # its hook is late
        with suppress(asyncio.CancelledError):
            await create
        assert not lines(capsys)
        paused.go.set()
        await node.plugin.attacher.wait_idle(pod.sandbox_id)

    node.run(scenario)

    (line,) = lines(capsys)
    assert "attach failed" in line
    assert f"pod={pod}" in line


class BuggyKernel(FakeKernel):
    """A kernel that raises an unexpected error."""

    def do(self, op: Op, netns: NetnsId | None) -> None:
        """Fail as nothing should."""
        raise LookupError(BUG)


@pytest.mark.parametrize("kernel", [FakeKernel, BuggyKernel])
def test_only_an_internal_error_logs_a_traceback(
    tmp_path: Path, kernel: type[FakeKernel], capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(tmp_path, kernel=kernel())
    pod = failing(node)
    node.plugin.may_reject = False

    node.run_pod(pod)
    accepted = capsys.readouterr().out
    node.synchronize(pod)
    late = capsys.readouterr().out
    node.close()

    assert "sandbox accepted" in accepted
    assert "late attach failed" in late
    for output in (accepted, late):
        assert (
            ("Traceback" in output) == (f"LookupError: {BUG}" in output) == (kernel is BuggyKernel)
        )
