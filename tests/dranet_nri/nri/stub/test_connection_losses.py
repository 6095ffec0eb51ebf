"""Hooks that fail, connections that are lost: conformance cases 8 to 11, 19, 20, 22, 28 and 36."""

import asyncio
from pathlib import Path

import pytest

from dranet_nri.errors import InvalidValueError, RefusedError
from dranet_nri.model import Edits, Mount
from dranet_nri.nri.stub import Disconnected, HookFailed, HookLate
from dranet_nri.nri.wire.ttrpc import RpcCode, RpcStatus
from tests.dranet_nri.nri.stub.plugin_bench import (
    LARGE,
    RUN,
    STOP,
    Bench,
    answered,
    bench,
    create,
    event,
    finish,
    pod,
    serving,
    unread_answer,
)
from tests.fakes.runtime import RuntimeConnection, RuntimeServer

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(RefusedError("eth1: host network"), "eth1: host network", id="refused"),
        pytest.param(ValueError("oops"), "ValueError: oops", id="unexpected"),
        pytest.param(RefusedError("name \udcff"), "name ?", id="not UTF-8"),
        pytest.param(NotImplementedError(), "NotImplementedError: ", id="not implemented"),
    ],
)
@pytest.mark.parametrize("hook", ["run", "create"])
def test_case_19_hook_error_is_status_2_with_its_text_and_reported_once(
    tmp_path: Path, error: Exception, text: str, hook: str
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.errors[hook, "s1"] = error

            stream = create(runtime, "s1") if hook == "create" else event(runtime, RUN, "s1")
            answer = await runtime.answer(stream)
            healthy = await runtime.answer(event(runtime, RUN, "s2"))

            assert answer.status == RpcStatus(RpcCode.UNKNOWN, text)
            assert healthy.status is None
            (failed,) = plugin.notices_of(HookFailed)
            assert (failed.error, failed.reported) == (error, True)

    finish(scenario())


def test_failed_check_is_reported_and_the_hook_answers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            error = plugin.handler.errors["unclaimed", "s1"] = ValueError("oops")

            answer = await runtime.answer(event(runtime, RUN, "s1"))

            assert answer.status is None
            assert plugin.handler.log == ["run s1", "run s1 done"]
            (failed,) = plugin.notices_of(HookFailed)
            assert (failed.error, failed.reported) == (error, False)

    finish(scenario())


def test_invalid_edits_fail_the_container(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.edits = Edits(mounts=(Mount("/\udcff", "/d"),))

            answer = await runtime.answer(create(runtime, "s1"))

            assert answer.status is not None
            assert answer.status.code == RpcCode.UNKNOWN
            assert isinstance(plugin.notices_of(HookFailed)[0].error, InvalidValueError)

    finish(scenario())


def test_case_20_oversized_answer_fails_only_the_container(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.edits = Edits(env=(("FILL", "x" * (4 << 20)),))

            answer = await runtime.answer(create(runtime, "s1"))
            healthy = await runtime.answer(event(runtime, STOP, "s1"))

            assert answer.status is not None
            assert answer.status.code == RpcCode.RESOURCE_EXHAUSTED
            assert healthy.status is None

    finish(scenario())


def test_failed_list_is_reported_and_events_continue(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            RuntimeServer(str(tmp_path / "nri.sock")) as server,
            bench(tmp_path) as plugin,
        ):
            plugin.handler.errors["synchronize", ""] = ValueError("oops")
            runtime = await server.connection()
            await runtime.handshake()

            failed = await plugin.until_notice(HookFailed)
            answer = await runtime.answer(event(runtime, RUN, "s1"))

            assert (failed.hook, failed.pod, failed.reported) == ("Synchronize", None, False)
            assert answer.status is None

    finish(scenario())


async def cut_off(plugin: Bench, runtime: RuntimeConnection) -> None:
    """Abort the connection and wait until the plugin reports it."""
    runtime.abort()
    await plugin.until_notice(Disconnected)


def test_case_22_work_continues_after_a_lost_connection_and_its_answer_is_dropped(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
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
            assert plugin.notices_of(HookLate) == []
            assert {run, stop} <= set(runtime.runtime.unanswered)

    finish(scenario())


def test_case_22_error_after_a_lost_connection_is_only_logged(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")
            plugin.handler.errors["run", "s1"] = RefusedError("late")
            event(runtime, RUN, "s1")
            await plugin.handler.logged("run s1")

            await cut_off(plugin, runtime)
            release()
            failed = await plugin.until_notice(HookFailed)

            assert not failed.reported

    finish(scenario())


def test_case_22_container_hook_without_a_caller_is_cancelled(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.hold("create", "s1")
            create(runtime, "s1")
            await plugin.handler.logged("create s1")

            await cut_off(plugin, runtime)

            await plugin.handler.logged("create s1 cancelled")

    finish(scenario())


def test_case_08_every_kind_of_connection_loss_is_one_disconnect(tmp_path: Path) -> None:
    async def scenario() -> None:
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

            assert len(plugin.notices_of(Disconnected)) == 2
            assert len(plugin.handler.lists) == 3

    finish(scenario())


def test_case_09_runtime_that_stops_reading_does_not_stop_the_reads(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    finish(scenario())


def test_case_09_half_closed_connection_ends_with_unread_answers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with unread_answer(tmp_path) as (plugin, runtime):
            runtime.send_eof()
            lost = await plugin.until_notice(Disconnected)

            assert lost.reason == "the runtime closed the connection"

    finish(scenario())


def test_case_10_truncated_answer_ends_the_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with unread_answer(tmp_path) as (plugin, runtime):
            runtime.abort()
            await plugin.until_notice(Disconnected)

            assert not plugin.connection.status.connected

    finish(scenario())


def test_case_11_large_answers_of_many_hooks_arrive_complete(tmp_path: Path) -> None:
    async def scenario() -> None:
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
            assert plugin.notices_of(Disconnected) == []

    finish(scenario())


def test_case_28_lost_plugin_fails_the_calls_of_the_runtime_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.hold("run", "s1")
            stream = event(runtime, RUN, "s1")
            await plugin.handler.logged("run s1")

            assert plugin.run is not None
            plugin.run.cancel()
            with pytest.raises(ConnectionError, match="closed the connection"):
                await runtime.answer(stream)

            assert runtime.runtime.unanswered == (stream,)

    finish(scenario())


def test_case_36_late_list_answer_reconnects(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    finish(scenario())


def test_no_task_is_left_after_the_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        own = asyncio.all_tasks()
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.hold("run", "s1")
            for kind in (RUN, STOP):
                event(runtime, kind, "s1")
            create(runtime, "s1")
            await plugin.handler.logged("run s1")
        assert asyncio.all_tasks() == own

    finish(scenario())
