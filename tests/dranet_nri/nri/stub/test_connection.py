"""Connecting, the handshake and its failures: conformance cases 8, 29 to 34 and 38."""

import os
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from dranet_nri.nri.stub import ConnectionStatus, Disconnected, Serving, Unsynchronized
from dranet_nri.nri.wire.session import REGISTER_TIMEOUT_S
from tests.dranet_nri.nri.stub.plugin_bench import Bench, answered, bench, finish, pod
from tests.fakes.full_node import full_node, pieces
from tests.fakes.runtime import RuntimeServer

pytestmark = pytest.mark.process


def test_status_follows_the_handshake(tmp_path: Path) -> None:
    configured = ConnectionStatus(
        runtime_name="containerd", runtime_version="v2.1.9", nri_version="v0.12.2"
    )

    async def scenario() -> None:
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
            await plugin.until_notice(Disconnected)
            statuses.append(plugin.connection.status)

        assert (registration.plugin_name, registration.plugin_idx) == ("dra.net", "00")
        assert statuses[:3] == [
            ConnectionStatus(),
            replace(configured, connected=True),
            replace(configured, connected=True, synchronized=True),
        ]
        assert (statuses[3].connected, statuses[3].synchronized) == (False, False)
        assert statuses[3].last_error
        assert plugin.notices_of(Serving) == [Serving("containerd", "v2.1.9", "v0.12.2", 2.0)]
        assert plugin.handler.lists == [["s1"]]

    finish(scenario())


def test_case_30_synchronize_may_take_minutes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await runtime.register()
            await runtime.answer(runtime.runtime.configure())

            plugin.clock.pass_time(600)
            status = plugin.connection.status
            await runtime.answer(runtime.runtime.synchronize())
            await plugin.until_notice(Serving)

            assert (status.connected, status.synchronized) == (True, False)
            assert plugin.notices_of(Disconnected) == []

    finish(scenario())


@pytest.mark.parametrize("wait_s", [60.0, REGISTER_TIMEOUT_S - 1])
def test_case_31_late_registration_answer_of_a_busy_runtime_is_accepted(
    tmp_path: Path, wait_s: float
) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await plugin.clock.until_asleep(REGISTER_TIMEOUT_S)

            plugin.clock.pass_time(wait_s)
            await runtime.handshake()
            await plugin.until_notice(Serving)

            assert plugin.notices_of(Disconnected) == []

    finish(scenario())


@pytest.mark.parametrize(
    ("registered", "reason"),
    [
        (False, r"^the runtime has not answered RegisterPlugin for 20 s: .*restart it$"),
        (True, r"^the runtime has not sent its list of pods for 20 s, and may start no pod"),
    ],
)
def test_runtime_without_a_sandbox_list_is_reported_while_it_lasts(
    tmp_path: Path, *, registered: bool, reason: str
) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            if registered:
                await runtime.register()
                await runtime.answer(runtime.runtime.configure())
            for count, passing_s in enumerate((10, 10, 20), 1):
                assert len(plugin.notices_of(Unsynchronized)) == count - 1
                await plugin.clock.until_asleep(passing_s)
                plugin.clock.pass_time(passing_s)
                await plugin.until_notice(Unsynchronized, count)
            reported = plugin.notices_of(Unsynchronized)
            status = plugin.connection.status
            await (
                runtime.answer(runtime.runtime.synchronize()) if registered else runtime.handshake()
            )
            await plugin.until_notice(Serving)
            plugin.clock.pass_time(40)
            await answered(runtime)

            assert [timeout.waited_s for timeout in reported] == [10, 20, 40]
            assert re.search(reason, reported[1].reason)
            assert (status.synchronized, status.last_error) == (False, reported[-1].reason)
            assert plugin.notices_of(Unsynchronized) == reported
            assert plugin.notices_of(Disconnected) == []

    finish(scenario())


def test_case_31_runtime_that_never_answers_is_disconnected(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await plugin.clock.until_asleep(REGISTER_TIMEOUT_S)

            plugin.clock.pass_time(REGISTER_TIMEOUT_S)
            lost = await plugin.until_notice(Disconnected)
            await runtime.ended()

            assert lost.reason == f"no answer to RegisterPlugin within {REGISTER_TIMEOUT_S} s"

    finish(scenario())


def test_case_29_configured_plugin_does_not_time_out_on_the_registration_answer(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
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
            await plugin.until_notice(Serving)

            assert not before
            assert plugin.notices_of(Disconnected) == []

    finish(scenario())


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_case_32_runtime_lost_at_any_step_is_connected_again(tmp_path: Path, steps: int) -> None:
    async def scenario() -> None:
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

    finish(scenario())


def test_case_33_refused_registration_is_reported_and_the_connection_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await runtime.until(lambda: len(runtime.runtime.registrations) == 1)

            runtime.runtime.refuse("invalid plugin index")
            runtime.send()
            await runtime.ended()

            reason = (await plugin.until_notice(Disconnected)).reason
            assert reason == "the runtime refused the registration: invalid plugin index (code 2)"
            assert plugin.connection.status.last_error == reason

    finish(scenario())


def test_case_34_runtime_that_rejects_the_event_mask_is_connected_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await runtime.register()
            await runtime.answer(runtime.runtime.configure())

            runtime.abort()  # what a runtime does with an event it doesn't know
            await plugin.retry()

            await (await server.connection()).handshake()

    finish(scenario())


def test_node_with_1000_pods_and_3000_containers_is_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await runtime.register()
            await runtime.answer(runtime.runtime.configure())
            node = full_node(1000, 3)
            *parts, last = pieces(node)
            for pods, containers in parts:
                piece = runtime.runtime.synchronize(pods, containers, more=True)
                assert (await runtime.answer(piece)).status is None
            await runtime.answer(runtime.runtime.synchronize(*last))
            await plugin.handler.logged("synchronize done")

            assert plugin.handler.lists == [[pod.id for pod in node.pods]]
            assert plugin.notices_of(Disconnected) == []

    finish(scenario())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\0\0\0\1", id="inside a header"),
        pytest.param(b"\0\0\0\1\0\0\0\x20abc", id="inside a payload"),
        pytest.param(b"\0\0\0\1\xff\xff\xff\xff", id="frame too long"),
        pytest.param(b"\0\0\0\2\0\0\0\x0a\0\0\0\0\0\0\0\1\x03\0", id="data for an answer"),
    ],
)
def test_case_08_broken_stream_is_one_disconnect_and_a_new_start(
    tmp_path: Path, data: bytes
) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            runtime = await server.connection()
            await runtime.until(lambda: len(runtime.runtime.registrations) == 1)

            runtime.write(data)
            runtime.send_eof()
            await runtime.ended()
            lost = await plugin.retry()
            await (await server.connection()).handshake()

            assert lost.reason.startswith(("mux connection", "ttrpc"))
            assert len(plugin.notices_of(Disconnected)) == 1

    finish(scenario())


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
def test_case_38_delays_grow_to_ten_seconds_and_never_end(
    tmp_path: Path, random: float, expected: list[float]
) -> None:
    async def scenario() -> None:
        async with bench(tmp_path) as plugin:
            plugin.random = random

            assert await pauses(plugin, len(expected)) == expected

    finish(scenario())


def test_case_38_served_connection_resets_the_delays(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench(tmp_path) as plugin:
            await pauses(plugin, 4)
            await plugin.until_notice(Disconnected, 5)
            async with RuntimeServer(plugin.path) as server:
                before = await plugin.retry(5)
                await (await server.connection()).handshake()
                await plugin.until_notice(Serving)
            after = await plugin.until_notice(Disconnected, 6)

            assert before.retry_s == pytest.approx(3.2)
            assert after.retry_s == pytest.approx(0.2)

    finish(scenario())


def test_case_38_repeatedly_refused_registration_does_not_reset_the_delays(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(tmp_path / "nri.sock")) as server, bench(tmp_path) as plugin:
            found = []
            for number in range(1, 5):
                runtime = await server.connection()
                await runtime.until(lambda it=runtime: len(it.runtime.registrations) == 1)  # type: ignore[misc]
                runtime.runtime.refuse("no")
                runtime.send()
                found.append(round((await plugin.retry(number)).retry_s or 0, 3))

            assert found == [0.2, 0.4, 0.8, 1.6]

    finish(scenario())


def test_case_38_missing_stale_and_replaced_sockets_are_retried(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench(tmp_path) as plugin:
            missing = await plugin.until_notice(Disconnected)
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(plugin.path)
            await plugin.retry()
            refused = await plugin.until_notice(Disconnected, 2)
            Path(plugin.path).unlink(missing_ok=True)  # noqa: ASYNC240 - Python 3.13 did it
            async with RuntimeServer(plugin.path) as server:
                await plugin.retry(2)
                await (await server.connection()).handshake()
            await plugin.until_notice(Disconnected, 3)
            Path(plugin.path).unlink(missing_ok=True)  # noqa: ASYNC240 - Python 3.13 did it
            async with RuntimeServer(plugin.path) as server:
                await plugin.retry(3)
                await (await server.connection()).handshake()

            assert missing.reason == f"{plugin.path}: No such file or directory"
            assert refused.reason == f"{plugin.path}: Connection refused"

    finish(scenario())


def test_case_38_forbidden_socket_is_retried(tmp_path: Path) -> None:
    async def scenario() -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o000)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # root may open anything
        try:
            async with bench(closed) as plugin:
                lost = await plugin.until_notice(Disconnected)
        finally:
            os.seteuid(user)

        assert lost.reason == f"{closed}/nri.sock: Permission denied"
        assert lost.retry_s is not None

    finish(scenario())
