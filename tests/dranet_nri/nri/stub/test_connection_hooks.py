"""The order of hooks: conformance cases 7, 18, 41, 44 and 47."""

from pathlib import Path

import pytest

from dranet_nri._gen import nri_pb2
from dranet_nri.model import CharDevice, Edits
from dranet_nri.nri.stub import Disconnected
from dranet_nri.nri.wire.ttrpc import TtrpcResponse
from tests.dranet_nri.nri.stub.plugin_bench import (
    REMOVE,
    RUN,
    STOP,
    answered,
    bench,
    create,
    event,
    finish,
    pod,
    serving,
)
from tests.fakes.runtime import RuntimeServer

pytestmark = pytest.mark.process


@pytest.mark.parametrize("dedicated", [True, False], ids=["dedicated", "StateChange"])
def test_case_41_both_event_styles_reach_the_same_hooks(tmp_path: Path, *, dedicated: bool) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, dedicated=dedicated) as (plugin, runtime):
            for kind in (RUN, STOP, REMOVE):
                stream = event(runtime, kind, "s1")
                assert await runtime.answer(stream) == TtrpcResponse(stream, b"")

            assert plugin.handler.log == [
                "run s1", "run s1 done", "stop s1", "stop s1 done", "remove s1", "remove s1 done"
            ]  # fmt: skip

    finish(scenario())


def test_container_gets_the_edits_of_its_handler(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.edits = Edits(char_devices=(CharDevice("/dev/x", 1, 2),))

            answer = await runtime.answer(create(runtime, "s1"))

            response = nri_pb2.CreateContainerResponse.FromString(answer.payload)
            assert [device.path for device in response.adjust.linux.devices] == ["/dev/x"]

    finish(scenario())


def test_case_44_hooks_of_one_sandbox_run_in_order_and_are_all_answered(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")

            streams = [event(runtime, kind, "s1") for kind in (RUN, STOP, REMOVE)]
            await plugin.handler.logged("run s1")
            early = await answered(runtime)
            release()
            for stream in streams:
                assert await runtime.answer(stream) == TtrpcResponse(stream, b"")

            assert early.isdisjoint(streams)
            assert plugin.handler.log == [
                "run s1", "run s1 done", "stop s1", "stop s1 done", "remove s1", "remove s1 done"
            ]  # fmt: skip

    finish(scenario())


def test_case_44_hook_waits_for_an_earlier_one_that_was_already_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    finish(scenario())


def test_hook_that_answers_before_its_end_is_answered_once_and_delays_the_next(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.answered_early.add("s1")
            release = plugin.handler.hold("stop", "s1")
            stop = event(runtime, STOP, "s1")
            assert await runtime.answer(stop) == TtrpcResponse(stop, b"")

            remove = event(runtime, REMOVE, "s1")
            early = await answered(runtime)
            release()
            await runtime.answer(remove)

            assert remove not in early
            assert plugin.handler.log == ["stop s1", "stop s1 done", "remove s1", "remove s1 done"]

    finish(scenario())


def test_case_44_order_holds_across_a_lost_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    finish(scenario())


def test_case_47_different_sandboxes_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    finish(scenario())


def test_case_07_hundreds_of_events_during_a_busy_handler_are_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")
            streams = [event(runtime, RUN, "s1")]
            streams += [event(runtime, STOP, "s1") for _ in range(400)]
            await plugin.handler.logged("run s1")

            release()
            for stream in streams:
                assert await runtime.answer(stream) == TtrpcResponse(stream, b"")

            assert plugin.notices_of(Disconnected) == []

    finish(scenario())


def test_case_18_events_of_many_sandboxes_are_answered_on_completion(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            names = [f"s{number}" for number in range(40)]
            releases = [plugin.handler.hold("run", name) for name in names]
            streams = [event(runtime, RUN, name) for name in names]

            for release, stream in zip(reversed(releases), reversed(streams), strict=True):
                release()
                assert await runtime.answer(stream) == TtrpcResponse(stream, b"")

    finish(scenario())


def test_hooks_wait_for_an_earlier_list(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    finish(scenario())


def test_lists_are_handled_one_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    finish(scenario())


def test_event_behind_a_running_hook_is_not_answered_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    finish(scenario())
