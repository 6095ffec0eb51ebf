"""Connecting, the handshake, its failures and the end: conformance cases 8, 30 to 34, 38 and 40."""

import asyncio
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from dranet_nri.connection import ConnectionStatus, Disconnected, HookFailed, Serving
from dranet_nri.model import Edits
from dranet_nri.wire.nri import PodEventKind
from dranet_nri.wire.session import REGISTER_TIMEOUT_S
from dranet_nri.wire.ttrpc import Answer, Code, Status
from tests.fakes.runtime import RuntimeServer
from tests.process.plugin_bench import Bench, bench, container_message, finish, pod, serving


def test_status_follows_the_handshake(tmp_path: Path) -> None:
    known = ConnectionStatus(
        runtime_name="containerd", runtime_version="v2.1.9", nri_version="v0.12.2"
    )

    async def scene() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            statuses = [plugin.connection.status]
            runtime = await server.connection()
            registration = await runtime.register()
            await runtime.answer(runtime.runtime.configure("containerd", "v2.1.9"))
            statuses.append(plugin.connection.status)
            await runtime.answer(runtime.runtime.synchronize([pod("s1")]))
            await plugin.handler.logged("synchronize done")
            statuses.append(plugin.connection.status)
            runtime.abort()
            await plugin.until_said(Disconnected)
            statuses.append(plugin.connection.status)

        assert (registration.plugin_name, registration.plugin_idx) == ("dra.net", "00")
        assert statuses[:3] == [
            ConnectionStatus(),
            replace(known, connected=True),
            replace(known, connected=True, synchronized=True, last_event=1000.0),
        ]
        assert (statuses[3].connected, statuses[3].synchronized) == (False, False)
        assert statuses[3].last_error
        assert plugin.said(Serving) == [Serving("containerd", "v2.1.9", "v0.12.2")]
        assert plugin.handler.lists == [["s1"]]

    finish(scene())


def test_case_30_synchronize_may_take_minutes(tmp_path: Path) -> None:
    async def scene() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await runtime.register()
            await runtime.answer(runtime.runtime.configure())

            plugin.clock.pass_time(600)
            status = plugin.connection.status
            await runtime.answer(runtime.runtime.synchronize())
            await plugin.until_said(Serving)

            assert (status.connected, status.synchronized) == (True, False)
            assert plugin.said(Disconnected) == []

    finish(scene())


@pytest.mark.parametrize("wait_s", [60.0, REGISTER_TIMEOUT_S - 1])
def test_case_31_a_busy_runtime_may_register_us_late(tmp_path: Path, wait_s: float) -> None:
    async def scene() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await plugin.clock.until_asleep(REGISTER_TIMEOUT_S)

            plugin.clock.pass_time(wait_s)
            await runtime.handshake()
            await plugin.until_said(Serving)

            assert plugin.said(Disconnected) == []

    finish(scene())


def test_case_31_a_runtime_that_never_answers_is_left_in_the_end(tmp_path: Path) -> None:
    async def scene() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await plugin.clock.until_asleep(REGISTER_TIMEOUT_S)

            plugin.clock.pass_time(REGISTER_TIMEOUT_S)
            lost = await plugin.until_said(Disconnected)
            await runtime.ended()

            assert lost.reason == f"no answer to RegisterPlugin within {REGISTER_TIMEOUT_S} s"

    finish(scene())


def test_case_29_a_configured_plugin_does_not_time_out_waiting_for_the_answer_to_register(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await runtime.until(lambda: len(runtime.runtime.registrations) == 1)
            await runtime.answer(runtime.runtime.configure())
            await plugin.clock.until_asleep(REGISTER_TIMEOUT_S)

            plugin.clock.pass_time(REGISTER_TIMEOUT_S + 1)
            await runtime.answer(runtime.runtime.synchronize())
            await plugin.handler.logged("synchronize done")
            before = plugin.connection.status.synchronized
            runtime.runtime.accept()
            runtime.send()
            await plugin.until_said(Serving)

            assert not before
            assert plugin.said(Disconnected) == []

    finish(scene())


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_case_32_a_runtime_that_goes_at_any_step_is_connected_to_again(
    tmp_path: Path, steps: int
) -> None:
    async def scene() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            if steps > 0:
                await runtime.register()
            if steps > 1:
                await runtime.answer(runtime.runtime.configure())
            if steps > 2:
                piece = runtime.runtime.synchronize([pod("old")], more=True)
                await runtime.answer(piece)

            runtime.send_eof()
            await runtime.ended()
            lost = await plugin.retry()
            again = await server.connection()
            await again.handshake([pod("new")])
            await plugin.handler.logged("synchronize done")

            assert lost.reason == "the runtime closed the connection"
            assert plugin.handler.lists == [["new"]]

    finish(scene())


def test_case_33_a_refused_plugin_says_why_and_closes(tmp_path: Path) -> None:
    async def scene() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await runtime.until(lambda: len(runtime.runtime.registrations) == 1)

            runtime.runtime.refuse("invalid plugin index")
            runtime.send()
            await runtime.ended()

            reason = (await plugin.until_said(Disconnected)).reason
            assert reason == "the runtime refused the registration: invalid plugin index (code 2)"
            assert plugin.connection.status.last_error == reason

    finish(scene())


def test_case_34_a_runtime_that_rejects_our_mask_is_connected_to_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await runtime.register()
            await runtime.answer(runtime.runtime.configure())

            runtime.abort()  # what a runtime does with an event it doesn't know
            await plugin.retry()

            await (await server.connection()).handshake()

    finish(scene())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\0\0\0\1", id="inside a header"),
        pytest.param(b"\0\0\0\1\0\0\0\x20abc", id="inside a payload"),
        pytest.param(b"\0\0\0\1\xff\xff\xff\xff", id="frame too long"),
        pytest.param(b"\0\0\0\2\0\0\0\x0a\0\0\0\0\0\0\0\1\x03\0", id="data for an answer"),
    ],
)
def test_case_08_a_broken_stream_is_one_loss_and_a_new_start(tmp_path: Path, data: bytes) -> None:
    async def scene() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await runtime.until(lambda: len(runtime.runtime.registrations) == 1)

            runtime.write(data)
            runtime.send_eof()
            await runtime.ended()
            lost = await plugin.retry()
            await (await server.connection()).handshake()

            assert lost.reason.startswith(("mux connection", "ttrpc"))
            assert len(plugin.said(Disconnected)) == 1

    finish(scene())


# --- reconnecting


async def pauses(plugin: Bench, count: int) -> list[float]:
    """Let count tries fail; return the pauses after them."""
    losses = [await plugin.retry(number) for number in range(1, count + 1)]
    return [round(lost.retry_s or 0, 3) for lost in losses]


@pytest.mark.parametrize(
    ("random", "expected"),
    [
        pytest.param(1.0, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10], id="longest"),
        pytest.param(0.0, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5], id="shortest"),
    ],
)
def test_case_38_pauses_grow_to_ten_seconds_and_never_end(
    tmp_path: Path, random: float, expected: list[float]
) -> None:
    async def scene() -> None:
        async with bench(tmp_path) as plugin:
            plugin.random = random

            assert await pauses(plugin, len(expected)) == expected

    finish(scene())


def test_case_38_a_served_connection_starts_the_pauses_anew(tmp_path: Path) -> None:
    async def scene() -> None:
        async with bench(tmp_path) as plugin:
            await pauses(plugin, 4)
            await plugin.until_said(Disconnected, 5)
            async with RuntimeServer(plugin.path) as server:
                before = await plugin.retry(5)
                await (await server.connection()).handshake()
                await plugin.until_said(Serving)
            after = await plugin.until_said(Disconnected, 6)

            assert before.retry_s == pytest.approx(3.2)
            assert after.retry_s == pytest.approx(0.2)

    finish(scene())


def test_case_38_a_registration_that_is_refused_again_and_again_does_not_reset_the_pauses(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            found = []
            for number in range(1, 5):
                runtime = await server.connection()
                await runtime.until(lambda it=runtime: len(it.runtime.registrations) == 1)  # type: ignore[misc]
                runtime.runtime.refuse("no")
                runtime.send()
                found.append(round((await plugin.retry(number)).retry_s or 0, 3))

            assert found == [0.2, 0.4, 0.8, 1.6]

    finish(scene())


def test_case_38_a_missing_a_stale_and_a_replaced_socket_are_tried_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with bench(tmp_path) as plugin:
            missing = await plugin.until_said(Disconnected)
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(plugin.path)
            await plugin.retry()
            refused = await plugin.until_said(Disconnected, 2)
            os.unlink(plugin.path)  # noqa: PTH108 - nothing blocks here
            async with RuntimeServer(plugin.path) as server:
                await plugin.retry(2)
                await (await server.connection()).handshake()
            await plugin.until_said(Disconnected, 3)
            os.unlink(plugin.path)  # noqa: PTH108 - nothing blocks here
            async with RuntimeServer(plugin.path) as server:
                await plugin.retry(3)
                await (await server.connection()).handshake()

            assert missing.reason == f"{plugin.path}: No such file or directory"
            assert refused.reason == f"{plugin.path}: Connection refused"

    finish(scene())


def test_case_38_a_forbidden_socket_is_tried_again(tmp_path: Path) -> None:
    async def scene() -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o000)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # root may open anything
        try:
            async with bench(closed) as plugin:
                lost = await plugin.until_said(Disconnected)
        finally:
            os.seteuid(user)

        assert lost.reason == f"{closed}/nri.sock: Permission denied"
        assert lost.retry_s is not None

    finish(scene())


# --- the end


def test_close_ends_a_plugin_that_has_no_connection(tmp_path: Path) -> None:
    async def scene() -> None:
        async with bench(tmp_path) as plugin:
            await plugin.until_said(Disconnected)

            plugin.connection.close()
            assert plugin.run is not None
            await plugin.run

    finish(scene())


def test_case_40_hooks_at_work_may_end_before_the_plugin_does(tmp_path: Path) -> None:
    async def scene() -> None:
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

            assert answer == Answer(stream, b"")
            assert plugin.said(Disconnected) == []

    finish(scene())


def test_case_40_unfinished_hooks_are_refused_and_cancelled_when_their_grace_is_over(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
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
                Status(
                    Code.UNAVAILABLE,
                    f"{hook} default/pod-s1: the plugin is stopping; it is tried again",
                )
                for hook in ("RunPodSandbox", "CreateContainer")
            ]
            assert plugin.handler.log == ["run s1", "run s1 cancelled"]

    finish(scene())


def test_case_40_a_stopping_plugin_takes_no_more_work_and_does_not_hold_ordinary_pods(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
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
            assert refused.status.code == Code.UNAVAILABLE
            assert plugin.handler.log == ["run s1", "run s1 done"]

    finish(scene())


def test_case_40_a_runtime_that_does_not_read_cannot_hold_up_the_end(tmp_path: Path) -> None:
    async def scene() -> None:
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

            assert plugin.said(HookFailed) == []

    finish(scene())


def test_cancelling_run_closes_the_socket_and_cancels_the_hooks(tmp_path: Path) -> None:
    async def scene() -> None:
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

    finish(scene())
