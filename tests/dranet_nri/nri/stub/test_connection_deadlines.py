"""Deadlines of hooks: conformance case 21."""

from pathlib import Path

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.nri.stub import HookFailed, HookLate
from dranet_nri.nri.stub.dispatcher import DEFAULT_BUDGET_S
from dranet_nri.nri.wire.messages import PodEventKind
from dranet_nri.nri.wire.ttrpc import RpcCode, RpcStatus, TtrpcResponse
from tests.dranet_nri.nri.stub.plugin_bench import (
    REMOVE,
    RUN,
    STOP,
    answered,
    create,
    event,
    finish,
    serving,
)

pytestmark = pytest.mark.process


@pytest.mark.parametrize(("kind", "hook"), [(RUN, "run"), (STOP, "stop"), (REMOVE, "remove")])
def test_case_21_late_pod_hook_succeeds_and_continues(
    tmp_path: Path, kind: PodEventKind, hook: str
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold(hook, "s1")
            stream = event(runtime, kind, "s1")
            await plugin.clock.until_asleep(1.6)

            plugin.clock.pass_time(1.59)
            early = await answered(runtime)
            plugin.clock.pass_time(0.011)
            answer = await runtime.answer(stream)
            before = list(plugin.handler.log)
            release()
            await plugin.handler.logged(f"{hook} s1 done")

            assert stream not in early
            assert answer == TtrpcResponse(stream, b"")
            assert before == [f"{hook} s1"]
            assert [(late.hook, str(late.pod)) for late in plugin.notices_of(HookLate)] == [
                (kind, "default/pod-s1")
            ]

    finish(scenario())


def test_case_21_late_container_hook_is_refused_and_cancelled(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.hold("create", "s1")
            stream = create(runtime, "s1")
            await plugin.clock.until_asleep(1.6)

            plugin.clock.pass_time(1.6)
            answer = await runtime.answer(stream)
            await plugin.handler.logged("create s1 cancelled")
            next_answer = await runtime.answer(event(runtime, STOP, "s1"))

            text = "CreateContainer default/pod-s1: the pod's devices are still being attached"
            assert answer.status == RpcStatus(RpcCode.ABORTED, f"{text}; the kubelet tries again")
            assert next_answer.status is None

    finish(scenario())


def test_case_21_time_in_the_queue_counts(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")
            run = event(runtime, RUN, "s1", timeout_nano=10_000_000_000)
            container, stop = create(runtime, "s1"), event(runtime, STOP, "s1")
            await plugin.handler.logged("run s1")
            await answered(runtime)
            plugin.clock.pass_time(1.6)

            refused, stopped = await runtime.answer(container), await runtime.answer(stop)
            before = list(plugin.handler.log)
            release()
            await runtime.answer(run)
            await plugin.handler.logged("stop s1 done")

            assert refused.status is not None
            assert stopped.status is None
            assert before == ["run s1"]
            # The container's hook never began; the stop began after the run.
            assert plugin.handler.log == ["run s1", "run s1 done", "stop s1", "stop s1 done"]

    finish(scenario())


@pytest.mark.parametrize("timeout_nano", [1, -1, -(10**18), 1_000_000])
def test_case_21_call_expired_on_arrival_is_answered_at_once(
    tmp_path: Path, timeout_nano: int
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")

            run = event(runtime, RUN, "s1", timeout_nano=timeout_nano)
            ran = await runtime.answer(run)
            stop = event(runtime, STOP, "s1", timeout_nano=timeout_nano)
            stopped = await runtime.answer(stop)
            refused = await runtime.answer(create(runtime, "s1", timeout_nano=timeout_nano))
            release()
            await runtime.answer(event(runtime, REMOVE, "s1"))

            assert (ran.status, stopped.status) == (None, None)
            assert refused.status is not None
            assert refused.status.code == RpcCode.ABORTED
            assert plugin.handler.log == [
                "run s1", "run s1 done", "stop s1", "stop s1 done", "remove s1", "remove s1 done"
            ]  # fmt: skip

    finish(scenario())


@pytest.mark.parametrize(
    ("timeout_nano", "budget_s"),
    [(2_000_000_000, 1.6), (500_000_000, 0.4), (0, DEFAULT_BUDGET_S)],
    ids=["2 s", "0.5 s", "no limit"],
)
def test_case_21_deadline_is_four_fifths_of_the_timeout_after_arrival(
    tmp_path: Path, timeout_nano: int, budget_s: float
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            arrival = plugin.clock()

            await runtime.answer(event(runtime, RUN, "s1", timeout_nano=timeout_nano))
            await runtime.answer(create(runtime, "s1", timeout_nano=timeout_nano))

            expected = pytest.approx(arrival + budget_s)
            assert plugin.handler.deadlines == {("run", "s1"): expected, ("create", "s1"): expected}

    finish(scenario())


def test_case_21_error_after_a_late_answer_is_only_logged(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")
            error = RefusedError("eth1: busy")
            plugin.handler.errors["run", "s1"] = error
            stream = event(runtime, RUN, "s1")
            await plugin.clock.until_asleep(1.6)
            plugin.clock.pass_time(1.6)
            answer = await runtime.answer(stream)

            release()
            failed = await plugin.until_notice(HookFailed)

            assert answer.status is None
            assert (failed.hook, failed.error, failed.reported) == (RUN, error, False)

    finish(scenario())


def test_hook_in_time_leaves_no_timer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            before = plugin.clock.asleep()
            for kind in (RUN, STOP, REMOVE):
                await runtime.answer(event(runtime, kind, "s1"))
            await runtime.answer(create(runtime, "s1"))
            await answered(runtime)

            assert plugin.clock.asleep() == before

    finish(scenario())
