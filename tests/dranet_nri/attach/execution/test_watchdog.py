"""Threads hung in the kernel: log entries, records, and their end."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from dranet_nri.attach.execution.watchdog import Watchdog
from dranet_nri.component.log import logger
from dranet_nri.component.threads import set_step
from dranet_nri.model import FAULT, HUNG, Attachment, Failure, Phase
from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.node import Node

pytestmark = pytest.mark.process


__all__ = ["node"]


class Hang:
    """Work that returns only when it is released."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.left = threading.Event()

    def work(self) -> None:
        set_step("add address 10.0.1.5/24")
        assert self.go.wait(30)
        self.left.set()


def watchdog(node: Node) -> Watchdog:
    """Return a watchdog whose timeout leaves a thread time to set its step."""
    return Watchdog(node.attachments, node.clock, logger("test"), hang_timeout_s=0.5)


def attached(node: Node) -> Attachment:
    """Return the record of a claim that is attached."""
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    return record


def recorded(node: Node, record: Attachment) -> Attachment | None:
    """Return the current record of the claim."""
    return node.attachments.get(record.claim.uid)


async def until_recorded(node: Node, record: Attachment) -> Failure:
    """Return the failure that is recorded for a hung thread."""
    while True:
        found = recorded(node, record)
        if found is not None and found.failure is not None and found.failure.reason == HUNG:
            return found.failure
        await asyncio.sleep(0)


def record_of_hang(node: Node, record: Attachment, hang: Hang, *, cancel: bool = False) -> Failure:
    """Let the work hang until that is recorded, then release it; return the recorded failure."""

    async def scenario() -> Failure:
        task = asyncio.create_task(watchdog(node).run(hang.work, (record,)))
        failure = await until_recorded(node, record)
        if cancel:
            task.cancel()
            await asyncio.wait({task})
        hang.go.set()
        await asyncio.gather(task, return_exceptions=True)
        return failure

    return asyncio.run(scenario())


def fail(node: Node, record: Attachment, before: Callable[[], None]) -> None:
    """Run work that raises an unexpected error after its effect."""

    def work() -> None:
        before()
        raise RuntimeError("oops")

    with pytest.raises(RuntimeError, match="oops"):
        asyncio.run(watchdog(node).run(work, (record,)))


def test_record_names_the_step_of_a_hung_thread_until_it_returns(node: Node) -> None:
    record = attached(node)

    failure = record_of_hang(node, record, Hang())

    assert failure.message.startswith("add address 10.0.1.5/24 (thread ")
    assert "has not returned for 0.5 s" in failure.message
    assert recorded(node, record) == record


def test_claim_without_a_record_gets_one_while_its_thread_is_hung(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    blank = Attachment(
        claim.claim, claim.pod, pod.sandbox_id, node.netns(pod), Phase.FAILED, devices=()
    )

    record_of_hang(node, blank, Hang())

    assert recorded(node, blank) == blank


def test_record_of_an_earlier_sandbox_is_replaced_while_the_thread_is_hung(node: Node) -> None:
    old = attached(node)
    node.stop_pod(node.pod("web"))
    blank = replace(old, sandbox_id="next", phase=Phase.FAILED, devices=(), failure=None)

    record_of_hang(node, blank, Hang())

    assert recorded(node, blank) == blank


def test_record_written_by_the_hung_thread_is_kept(node: Node) -> None:
    record = attached(node)
    result = replace(record, attempt=7)
    hang = Hang()

    async def scenario() -> None:
        task = asyncio.create_task(watchdog(node).run(hang.work, (record,)))
        await until_recorded(node, record)
        node.attachments.put(result)
        hang.go.set()
        await task

    asyncio.run(scenario())

    assert recorded(node, record) == result


def test_earlier_failure_and_its_count_are_kept_after_a_hang(node: Node) -> None:
    record = attached(node)
    failed = replace(record, failure=Failure("NetworkDeviceDetachFailed", "busy", 1, 4))
    node.attachments.put(failed)

    failure = record_of_hang(node, failed, Hang())

    assert failure.count == 4
    assert failure.message.endswith("before that: busy")
    assert recorded(node, record) == failed


def test_stopping_plugin_keeps_the_hung_thread_in_the_record(node: Node) -> None:
    record = attached(node)
    hang = Hang()

    failure = record_of_hang(node, record, hang, cancel=True)

    found = recorded(node, record)
    assert found is not None
    assert found.failure == failure


def test_work_that_fails_after_a_hang_raises_its_own_error(node: Node) -> None:
    record = attached(node)
    hang = Hang()

    def work() -> None:
        hang.work()
        raise ValueError("late")

    async def scenario() -> None:
        task = asyncio.create_task(watchdog(node).run(work, (record,)))
        await until_recorded(node, record)
        hang.go.set()
        with pytest.raises(ValueError, match="late"):
            await task

    asyncio.run(scenario())

    failure = Failure(FAULT, "ValueError: late", node.clock.wall(), 1)
    assert recorded(node, record) == replace(record, failure=failure)


def test_internal_error_continues_the_recorded_failure_count(node: Node) -> None:
    record = replace(attached(node), failure=Failure("NetworkDeviceDetachFailed", "busy", 1, 4))
    node.attachments.put(record)

    fail(node, record, lambda: None)

    failure = Failure(FAULT, "RuntimeError: oops", node.clock.wall(), 5)
    assert recorded(node, record) == replace(record, failure=failure)


def test_internal_error_keeps_the_failure_that_the_work_recorded(node: Node) -> None:
    record = attached(node)
    recorded_failure = replace(
        record, failure=Failure("NetworkDeviceAttachFailed", "eth1: EBUSY", 1)
    )

    fail(node, record, lambda: node.attachments.put(recorded_failure))

    assert recorded(node, record) == recorded_failure


def test_internal_error_without_a_record_is_written_to_the_given_record(node: Node) -> None:
    old = attached(node)
    node.stop_pod(node.pod("web"))
    blank = replace(old, sandbox_id="next", phase=Phase.FAILED, devices=(), failure=None)

    fail(node, blank, lambda: None)

    failure = Failure(FAULT, "RuntimeError: oops", node.clock.wall(), 1)
    assert recorded(node, blank) == replace(blank, failure=failure)


def test_full_disk_does_not_stop_the_watched_work(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    record = attached(node)
    node.disk.room = 0
    hang = Hang()

    async def scenario() -> None:
        task = asyncio.create_task(watchdog(node).run(hang.work, (record,)))
        while "not recorded" not in "".join(capsys.readouterr()):  # noqa: ASYNC110 (a log line)
            await asyncio.sleep(0)
        hang.go.set()
        await task

    asyncio.run(scenario())

    assert hang.left.is_set()
    assert recorded(node, record) == record


def test_hung_thread_without_a_claim_is_logged(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    hang, one = Hang(), watchdog(node)

    async def scenario() -> list[tuple[str, str]]:
        task = asyncio.create_task(one.run(hang.work))
        while not one.counts.hung:  # noqa: ASYNC110 (of a thread)
            await asyncio.sleep(0)
        during = [(hung.claim, hung.step) for hung in one.counts.hung.values()]
        hang.go.set()
        await task
        return during

    ((claim, step),) = asyncio.run(scenario())

    assert claim == ""
    assert step.startswith("add address 10.0.1.5/24 (thread ")
    output = "".join(capsys.readouterr())
    assert output.count("hung in the kernel") == output.count("no longer hung") == 1
    assert one.counts.hung == {}


def test_hung_thread_is_counted_until_it_returns(node: Node) -> None:
    record = attached(node)
    hang = Hang()
    one = watchdog(node)

    async def scenario() -> list[tuple[str, str]]:
        task = asyncio.create_task(one.run(hang.work, (record,)))
        await until_recorded(node, record)
        during = [(hung.claim, hung.step) for hung in one.counts.hung.values()]
        hang.go.set()
        await task
        return during

    ((claim, step),) = asyncio.run(scenario())

    assert claim == str(record.claim)
    assert step.startswith("add address 10.0.1.5/24 (thread ")
    assert one.counts.hung == {}
