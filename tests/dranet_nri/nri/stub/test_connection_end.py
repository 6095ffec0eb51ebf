"""End of a plugin: conformance case 40."""

import asyncio
from pathlib import Path

import pytest

from dranet_nri.model import Edits
from dranet_nri.nri.stub import Disconnected, HookFailed
from dranet_nri.nri.wire.messages import PodEventKind
from dranet_nri.nri.wire.ttrpc import RpcCode, RpcStatus, TtrpcResponse
from tests.dranet_nri.nri.stub.plugin_bench import bench, container_message, finish, pod, serving

pytestmark = pytest.mark.process


def test_close_ends_a_plugin_without_a_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench(tmp_path) as plugin:
            await plugin.until_notice(Disconnected)

            plugin.connection.close()
            assert plugin.run is not None
            await plugin.run

    finish(scenario())


def test_case_40_running_hooks_complete_before_the_plugin_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            release = plugin.handler.hold("run", "s1")
            stream = runtime.runtime.pod_event(PodEventKind.RUN, pod("s1"))
            runtime.send()
            await plugin.handler.logged("run s1")

            plugin.connection.close()
            await plugin.clock.until_asleep(5.0)
            release()
            answer = await runtime.answer(stream)
            await runtime.ended()
            assert plugin.run is not None
            await plugin.run

            assert answer == TtrpcResponse(stream, b"")
            assert plugin.notices_of(Disconnected) == []

    finish(scenario())


def test_case_40_unfinished_hooks_are_refused_and_cancelled_after_the_grace_period(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.hold("run", "s1")
            streams = [
                runtime.runtime.pod_event(PodEventKind.RUN, pod("s1"), 0),
                runtime.runtime.create_container(pod("s1"), container_message("s1"), 0),
            ]
            runtime.send()
            await plugin.handler.logged("run s1")

            plugin.connection.close()
            await plugin.clock.until_asleep(5.0)
            plugin.clock.pass_time(5.0)
            answers = [await runtime.answer(stream) for stream in streams]
            await runtime.ended()
            assert plugin.run is not None
            await plugin.run

            assert [answer.status for answer in answers] == [
                RpcStatus(
                    RpcCode.UNAVAILABLE,
                    f"{hook} default/pod-s1: the plugin is stopping; the kubelet tries again",
                )
                for hook in ("RunPodSandbox", "CreateContainer")
            ]
            assert plugin.handler.log == ["run s1", "run s1 cancelled"]

    finish(scenario())


def test_case_40_irrefusable_hooks_succeed_in_a_stopping_plugin(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.unrefusable = {"s1", "s2"}
            plugin.handler.hold("run", "s1")
            working = runtime.runtime.pod_event(PodEventKind.RUN, pod("s1"), 0)
            runtime.send()
            await plugin.handler.logged("run s1")
            plugin.connection.close()
            await plugin.clock.until_asleep(5.0)

            late = [
                runtime.runtime.pod_event(PodEventKind.RUN, pod("s2")),
                runtime.runtime.create_container(pod("s2"), container_message("s2")),
            ]
            answers = [await runtime.answer(stream) for stream in late]
            plugin.clock.pass_time(5.0)
            answers.append(await runtime.answer(working))

            assert [answer.status for answer in answers] == [None, None, None]
            assert plugin.handler.log == ["run s1"]

    finish(scenario())


def test_case_40_stopping_plugin_accepts_no_work_and_answers_unclaimed_pods(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.unclaimed = {"ordinary"}
            release = plugin.handler.hold("run", "s1")
            working = runtime.runtime.pod_event(PodEventKind.RUN, pod("s1"))
            runtime.send()
            await plugin.handler.logged("run s1")
            plugin.connection.close()
            await plugin.clock.until_asleep(5.0)

            claimed = runtime.runtime.pod_event(PodEventKind.RUN, pod("s2"))
            ordinary = runtime.runtime.pod_event(PodEventKind.RUN, pod("ordinary"))
            relisted = runtime.runtime.synchronize([pod("s1")])
            refused = await runtime.answer(claimed)
            assert (await runtime.answer(ordinary)).status is None
            await runtime.answer(relisted)
            release()
            assert (await runtime.answer(working)).status is None

            assert refused.status is not None
            assert refused.status.code == RpcCode.UNAVAILABLE
            assert plugin.handler.log == ["run s1", "run s1 done"]

    finish(scenario())


def test_case_40_runtime_that_does_not_read_does_not_delay_the_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.edits = Edits(env=(("FILL", "x" * (2 << 20)),))
            runtime.stop_reading()
            for number in range(4):
                sandbox_id = f"s{number}"
                runtime.runtime.create_container(pod(sandbox_id), container_message(sandbox_id))
                runtime.send()
                await plugin.handler.logged(f"create {sandbox_id} done")

            plugin.connection.close()
            await plugin.clock.until_asleep(1.0)
            plugin.clock.pass_time(1.0)
            assert plugin.run is not None
            await plugin.run

            assert plugin.notices_of(HookFailed) == []

    finish(scenario())


def test_cancelled_run_closes_the_socket_and_cancels_the_hooks(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (plugin, runtime):
            plugin.handler.hold("run", "s1")
            stream = runtime.runtime.pod_event(PodEventKind.RUN, pod("s1"))
            runtime.send()
            await plugin.handler.logged("run s1")

            assert plugin.run is not None
            plugin.run.cancel()
            await runtime.ended()
            await plugin.handler.logged("run s1 cancelled")
            await asyncio.wait({plugin.run})

            assert plugin.run.cancelled()
            assert runtime.runtime.unanswered == (stream,)

    finish(scenario())
