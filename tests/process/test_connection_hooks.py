"""Order, deadlines and answers of hooks.

Conformance cases 7 to 11, 18 to 22, 28, 36, 41, 44 and 47.
"""

import asyncio
from pathlib import Path

import pytest

from dranet_nri._gen import nri_pb2
from dranet_nri.connection import Disconnected, HookFailed, HookLate
from dranet_nri.connection.hooks import DEFAULT_BUDGET_S
from dranet_nri.errors import InvalidValueError, RefusedError
from dranet_nri.model import CharDevice, Edits, Mount
from dranet_nri.wire.nri import PodEventKind
from dranet_nri.wire.ttrpc import Answer, Code, Status
from tests.fakes.runtime import RuntimeConnection, RuntimeServer
from tests.process.plugin_bench import Bench, bench, container_message, finish, pod, serving

RUN, STOP, REMOVE = PodEventKind.RUN, PodEventKind.STOP, PodEventKind.REMOVE
LARGE = Edits(env=(("FILL", "x" * (2 << 20)),))


def event(runtime: RuntimeConnection, kind: PodEventKind, sandbox_id: str, **fields: int) -> int:
    """Send an event; return its stream."""
    stream = runtime.runtime.pod_event(kind, pod(sandbox_id), **fields)
    runtime.send()
    return stream


def create(runtime: RuntimeConnection, sandbox_id: str, **fields: int) -> int:
    """Send CreateContainer; return its stream."""
    stream = runtime.runtime.create_container(
        pod(sandbox_id), container_message(sandbox_id), **fields
    )
    runtime.send()
    return stream


async def answered(runtime: RuntimeConnection) -> set[int]:
    """Return the streams with an answer, after everything sent before was read."""
    barrier = runtime.runtime.call("Shutdown", nri_pb2.Empty())
    await runtime.answer(barrier)
    return set(runtime.runtime.answers) - {barrier}


@pytest.mark.parametrize("dedicated", [True, False], ids=["dedicated", "StateChange"])
def test_case_41_both_event_styles_reach_the_same_hooks(tmp_path: Path, *, dedicated: bool) -> None:
    async def scene() -> None:
        async with serving(tmp_path, dedicated=dedicated) as (plugin, runtime):
            for kind in (RUN, STOP, REMOVE):
                stream = event(runtime, kind, "s1")
                assert await runtime.answer(stream) == Answer(stream, b"")

            assert plugin.handler.log == [
                "run s1", "run s1 done", "stop s1", "stop s1 done", "remove s1", "remove s1 done"
            ]  # fmt: skip

    finish(scene())


def test_a_container_gets_the_edits_of_its_handler(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.edits = Edits(char_devices=(CharDevice("/dev/x", 1, 2),))

            answer = await runtime.answer(create(runtime, "s1"))

            response = nri_pb2.CreateContainerResponse.FromString(answer.payload)
            assert [device.path for device in response.adjust.linux.devices] == ["/dev/x"]

    finish(scene())


# --- order


def test_case_44_hooks_of_one_sandbox_run_in_the_order_they_came_and_all_are_answered(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")

            streams = [event(runtime, kind, "s1") for kind in (RUN, STOP, REMOVE)]
            await plugin.handler.logged("run s1")
            early = await answered(runtime)
            release()
            for stream in streams:
                assert await runtime.answer(stream) == Answer(stream, b"")

            assert early.isdisjoint(streams)
            assert plugin.handler.log == [
                "run s1", "run s1 done", "stop s1", "stop s1 done", "remove s1", "remove s1 done"
            ]  # fmt: skip

    finish(scene())


def test_case_44_a_hook_waits_for_the_one_before_even_if_that_was_answered(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")
            run = event(runtime, RUN, "s1")
            await plugin.clock.until_asleep(1.6)
            plugin.clock.pass_time(1.6)
            await runtime.answer(run)

            stop = event(runtime, STOP, "s1")
            early = await answered(runtime)
            release()
            await runtime.answer(stop)

            assert stop not in early
            assert plugin.handler.log == ["run s1", "run s1 done", "stop s1", "stop s1 done"]

    finish(scene())


def test_case_44_order_holds_across_a_lost_connection(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            RuntimeServer(str(tmp_path / "nri.sock")) as server,
            bench(tmp_path) as plugin,
        ):
            first = await server.connection()
            await first.handshake()
            release = plugin.handler.hold("run", "s1")
            event(first, RUN, "s1")
            await plugin.handler.logged("run s1")
            first.abort()
            await plugin.retry()
            second = await server.connection()
            await second.handshake()

            stop = event(second, STOP, "s1")
            early = await answered(second)
            release()
            await second.answer(stop)

            assert stop not in early
            assert plugin.handler.log.index("run s1 done") < plugin.handler.log.index("stop s1")

    finish(scene())


def test_case_47_different_sandboxes_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "slow")
            slow = event(runtime, RUN, "slow")
            await plugin.handler.logged("run slow")

            for kind in (RUN, STOP, REMOVE):
                await runtime.answer(event(runtime, kind, "quick"))
            early = await answered(runtime)
            release()
            await runtime.answer(slow)

            assert slow not in early
            assert plugin.handler.log[-1] == "run slow done"

    finish(scene())


def test_case_07_hundreds_of_events_while_a_handler_is_busy_are_no_loss(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")
            streams = [event(runtime, RUN, "s1")]
            streams += [event(runtime, STOP, "s1") for _ in range(400)]
            await plugin.handler.logged("run s1")

            release()
            for stream in streams:
                assert await runtime.answer(stream) == Answer(stream, b"")

            assert plugin.said(Disconnected) == []

    finish(scene())


def test_case_18_events_of_many_sandboxes_are_answered_as_they_end(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            names = [f"s{number}" for number in range(40)]
            releases = [plugin.handler.hold("run", name) for name in names]
            streams = [event(runtime, RUN, name) for name in names]

            for release, stream in zip(reversed(releases), reversed(streams), strict=True):
                release()
                assert await runtime.answer(stream) == Answer(stream, b"")

    finish(scene())


def test_hooks_wait_for_the_list_that_came_before_them(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            RuntimeServer(str(tmp_path / "nri.sock")) as server,
            bench(tmp_path) as plugin,
        ):
            release = plugin.handler.hold("synchronize", "")
            plugin.handler.unclaimed = {"ordinary"}
            runtime = await server.connection()
            await runtime.handshake([pod("s1")])
            await plugin.handler.logged("synchronize")

            run = event(runtime, RUN, "s1")
            ordinary = await runtime.answer(event(runtime, RUN, "ordinary"))
            early = await answered(runtime)
            release()
            await runtime.answer(run)

            assert ordinary.status is None
            assert run not in early
            assert plugin.handler.log == [
                "synchronize", "synchronize done", "run s1", "run s1 done"
            ]  # fmt: skip

    finish(scene())


def test_lists_are_handled_one_at_a_time(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("synchronize", "")
            await runtime.answer(runtime.runtime.synchronize([pod("a")]))
            await plugin.handler.logged("synchronize")
            await runtime.answer(runtime.runtime.synchronize([pod("b")]))
            run = event(runtime, RUN, "b")
            await answered(runtime)
            before = list(plugin.handler.log)

            release()
            await runtime.answer(run)

            assert before == ["synchronize"]
            assert plugin.handler.lists[1:] == [["a"], ["b"]]
            assert plugin.handler.log[-2:] == ["run b", "run b done"]

    finish(scene())


def test_an_event_behind_a_hook_at_work_is_no_ordinary_one(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")
            event(runtime, RUN, "s1")
            await plugin.handler.logged("run s1")
            plugin.handler.unclaimed = {"s1"}

            stop = event(runtime, STOP, "s1")
            early = await answered(runtime)
            release()
            await runtime.answer(stop)

            assert stop not in early
            assert "stop s1 done" in plugin.handler.log

    finish(scene())


# --- deadlines


@pytest.mark.parametrize(("kind", "hook"), [(RUN, "run"), (STOP, "stop"), (REMOVE, "remove")])
def test_case_21_a_late_pod_hook_succeeds_and_goes_on(
    tmp_path: Path, kind: PodEventKind, hook: str
) -> None:
    async def scene() -> None:
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
            assert answer == Answer(stream, b"")
            assert before == [f"{hook} s1"]
            assert [(late.hook, str(late.pod)) for late in plugin.said(HookLate)] == [
                (kind, "default/pod-s1")
            ]

    finish(scene())


def test_case_21_a_late_container_is_refused_and_its_hook_cancelled(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.hold("create", "s1")
            stream = create(runtime, "s1")
            await plugin.clock.until_asleep(1.6)

            plugin.clock.pass_time(1.6)
            answer = await runtime.answer(stream)
            await plugin.handler.logged("create s1 cancelled")
            next_answer = await runtime.answer(event(runtime, STOP, "s1"))

            text = "CreateContainer default/pod-s1: the pod's devices are still being attached"
            assert answer.status == Status(Code.ABORTED, f"{text}; it is tried again")
            assert next_answer.status is None

    finish(scene())


def test_case_21_the_wait_for_the_turn_counts(tmp_path: Path) -> None:
    async def scene() -> None:
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

    finish(scene())


@pytest.mark.parametrize("timeout_nano", [1, -1, -(10**18), 1_000_000])
def test_case_21_a_call_that_came_expired_is_answered_at_once(
    tmp_path: Path, timeout_nano: int
) -> None:
    async def scene() -> None:
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
            assert refused.status.code == Code.ABORTED
            assert plugin.handler.log == [
                "run s1", "run s1 done", "stop s1", "stop s1 done", "remove s1", "remove s1 done"
            ]  # fmt: skip

    finish(scene())


@pytest.mark.parametrize(
    ("timeout_nano", "budget_s"),
    [(2_000_000_000, 1.6), (500_000_000, 0.4), (0, DEFAULT_BUDGET_S)],
    ids=["2 s", "0.5 s", "no limit"],
)
def test_case_21_the_deadline_is_four_fifths_of_the_timeout_after_the_arrival(
    tmp_path: Path, timeout_nano: int, budget_s: float
) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            arrival = plugin.clock()

            await runtime.answer(event(runtime, RUN, "s1", timeout_nano=timeout_nano))
            await runtime.answer(create(runtime, "s1", timeout_nano=timeout_nano))

            expected = pytest.approx(arrival + budget_s)
            assert plugin.handler.deadlines == {("run", "s1"): expected, ("create", "s1"): expected}

    finish(scene())


def test_case_21_what_a_hook_raises_after_its_late_answer_is_told_to_us_only(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")
            error = RefusedError("eth1: busy")
            plugin.handler.errors["run", "s1"] = error
            stream = event(runtime, RUN, "s1")
            await plugin.clock.until_asleep(1.6)
            plugin.clock.pass_time(1.6)
            answer = await runtime.answer(stream)

            release()
            failed = await plugin.until_said(HookFailed)

            assert answer.status is None
            assert (failed.hook, failed.error, failed.told) == (RUN, error, False)

    finish(scene())


def test_a_hook_in_time_leaves_no_timer_behind(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            before = plugin.clock.asleep()
            for kind in (RUN, STOP, REMOVE):
                await runtime.answer(event(runtime, kind, "s1"))
            await runtime.answer(create(runtime, "s1"))
            await answered(runtime)

            assert plugin.clock.asleep() == before

    finish(scene())


# --- failures


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(RefusedError("eth1: host network"), "eth1: host network", id="refused"),
        pytest.param(ValueError("oops"), "ValueError: oops", id="unexpected"),
        pytest.param(RefusedError("name \udcff"), "name ?", id="not UTF-8"),
        pytest.param(NotImplementedError(), "NotImplementedError: ", id="not implemented"),
    ],
)
@pytest.mark.parametrize("hook", ["run", "create", "unclaimed"])
def test_case_19_an_error_of_a_hook_is_status_2_with_its_text_and_told_once(
    tmp_path: Path, error: Exception, text: str, hook: str
) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.errors[hook, "s1"] = error

            stream = create(runtime, "s1") if hook == "create" else event(runtime, RUN, "s1")
            answer = await runtime.answer(stream)
            healthy = await runtime.answer(event(runtime, RUN, "s2"))

            assert answer.status == Status(Code.UNKNOWN, text)
            assert healthy.status is None
            (failed,) = plugin.said(HookFailed)
            assert (failed.error, failed.told) == (error, True)

    finish(scene())


def test_edits_that_cannot_be_sent_fail_the_container(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.edits = Edits(mounts=(Mount("/\udcff", "/d"),))

            answer = await runtime.answer(create(runtime, "s1"))

            assert answer.status is not None
            assert answer.status.code == Code.UNKNOWN
            assert isinstance(plugin.said(HookFailed)[0].error, InvalidValueError)

    finish(scene())


def test_case_20_an_answer_too_large_fails_the_container_only(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.edits = Edits(env=(("FILL", "x" * (4 << 20)),))

            answer = await runtime.answer(create(runtime, "s1"))
            healthy = await runtime.answer(event(runtime, STOP, "s1"))

            assert answer.status is not None
            assert answer.status.code == Code.RESOURCE_EXHAUSTED
            assert healthy.status is None

    finish(scene())


def test_a_list_that_cannot_be_handled_is_told_and_events_go_on(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            RuntimeServer(str(tmp_path / "nri.sock")) as server,
            bench(tmp_path) as plugin,
        ):
            plugin.handler.errors["synchronize", ""] = ValueError("oops")
            runtime = await server.connection()
            await runtime.handshake()

            failed = await plugin.until_said(HookFailed)
            answer = await runtime.answer(event(runtime, RUN, "s1"))

            assert (failed.hook, failed.pod, failed.told) == ("Synchronize", None, False)
            assert answer.status is None

    finish(scene())


# --- lost connections


async def cut_off(plugin: Bench, runtime: RuntimeConnection) -> None:
    """Lose the connection and wait until the plugin knows."""
    runtime.abort()
    await plugin.until_said(Disconnected)


def test_case_22_work_goes_on_when_its_connection_is_lost_and_its_answer_is_dropped(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")
            run, stop = event(runtime, RUN, "s1"), event(runtime, STOP, "s1")
            await plugin.handler.logged("run s1")
            await answered(runtime)

            await cut_off(plugin, runtime)
            plugin.clock.pass_time(1.6)
            release()
            await plugin.handler.logged("stop s1 done")

            assert plugin.handler.log == ["run s1", "run s1 done", "stop s1", "stop s1 done"]
            assert plugin.said(HookLate) == []
            assert {run, stop} <= set(runtime.runtime.unanswered)

    finish(scene())


def test_case_22_an_error_after_the_connection_is_lost_is_told_to_us(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")
            plugin.handler.errors["run", "s1"] = RefusedError("late")
            event(runtime, RUN, "s1")
            await plugin.handler.logged("run s1")

            await cut_off(plugin, runtime)
            release()
            failed = await plugin.until_said(HookFailed)

            assert not failed.told

    finish(scene())


def test_case_22_a_container_nobody_waits_for_is_given_up(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.hold("create", "s1")
            create(runtime, "s1")
            await plugin.handler.logged("create s1")

            await cut_off(plugin, runtime)

            await plugin.handler.logged("create s1 cancelled")

    finish(scene())


def test_case_08_every_way_to_lose_a_connection_is_one_loss(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            RuntimeServer(str(tmp_path / "nri.sock")) as server,
            bench(tmp_path) as plugin,
        ):
            for count in (1, 2):
                runtime = await server.connection()
                await runtime.handshake()
                if count == 1:
                    runtime.stop_reading()  # bytes left unread make the close a reset
                    plugin.handler.edits = LARGE
                    create(runtime, "s1")
                    await plugin.handler.logged("create s1 done")
                runtime.abort()
                await plugin.retry(count)
            last = await server.connection()
            await last.handshake()
            await last.answer(event(last, RUN, "s2"))

            assert len(plugin.said(Disconnected)) == 2
            assert len(plugin.handler.lists) == 3

    finish(scene())


def test_case_09_a_runtime_that_stops_reading_does_not_stop_our_reading(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.edits = LARGE
            runtime.stop_reading()
            for number in range(4):
                create(runtime, f"large{number}")
                await plugin.handler.logged(f"create large{number} done")

            event(runtime, RUN, "s1")
            await plugin.handler.logged("run s1 done")
            event(runtime, STOP, "s1")
            await plugin.handler.logged("stop s1 done")

            assert plugin.connection.status.connected

    finish(scene())


def test_case_09_half_an_end_is_an_end_even_with_answers_unread(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.edits = LARGE
            runtime.stop_reading()
            create(runtime, "s1")
            await plugin.handler.logged("create s1 done")

            runtime.send_eof()
            lost = await plugin.until_said(Disconnected)

            assert lost.reason == "the runtime closed the connection"

    finish(scene())


def test_case_10_an_answer_cut_off_in_the_middle_ends_the_connection(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.edits = LARGE
            runtime.stop_reading()
            create(runtime, "s1")
            await plugin.handler.logged("create s1 done")

            runtime.abort()
            await plugin.until_said(Disconnected)

            assert not plugin.connection.status.connected

    finish(scene())


def test_case_11_large_answers_of_many_hooks_arrive_whole(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.edits = Edits(env=(("FILL", "x" * 300_000),))
            names = [f"s{number}" for number in range(30)]
            releases = [plugin.handler.hold("create", name) for name in names]
            streams = [create(runtime, name) for name in names]
            for name in names:
                await plugin.handler.logged(f"create {name}")

            for release in releases:
                release()
            answers = [await runtime.answer(stream) for stream in streams]

            assert {len(answer.payload) > 300_000 for answer in answers} == {True}
            assert plugin.said(Disconnected) == []

    finish(scene())


def test_case_28_a_lost_plugin_fails_the_calls_of_the_runtime_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.hold("run", "s1")
            stream = event(runtime, RUN, "s1")
            await plugin.handler.logged("run s1")

            assert plugin.run is not None
            plugin.run.cancel()
            with pytest.raises(ConnectionError, match="closed the connection"):
                await runtime.answer(stream)

            assert runtime.runtime.unanswered == (stream,)

    finish(scene())


def test_case_36_a_list_answered_late_by_our_clock_makes_us_connect_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            RuntimeServer(str(tmp_path / "nri.sock")) as server,
            bench(tmp_path) as plugin,
        ):
            runtime = await server.connection()
            await runtime.register()
            await runtime.answer(runtime.runtime.configure())
            plugin.clock.step_s = 3.0  # between the arrival and the answer
            runtime.runtime.synchronize([pod("s1")])
            runtime.send()
            await runtime.ended()
            plugin.clock.step_s = 0.0
            lost = await plugin.retry()
            await (await server.connection()).handshake([pod("s1")])
            await plugin.handler.logged("synchronize done")

            assert lost.reason == "the answer to Synchronize left after its deadline"
            assert plugin.handler.lists == [["s1"]]

    finish(scene())


def test_no_task_is_left_after_the_end(tmp_path: Path) -> None:
    async def scene() -> None:
        own = asyncio.all_tasks()
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.hold("run", "s1")
            for kind in (RUN, STOP):
                event(runtime, kind, "s1")
            create(runtime, "s1")
            await plugin.handler.logged("run s1")
        assert asyncio.all_tasks() == own

    finish(scene())
