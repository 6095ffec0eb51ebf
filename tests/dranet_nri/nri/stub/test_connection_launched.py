"""Processes: a plugin that its runtime launched, a runtime that is killed. Cases 9 and 39."""

import asyncio
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from dranet_nri.errors import InvalidValueError
from dranet_nri.nri.stub import Disconnected, Endpoint, Serving, endpoint_from_environ
from dranet_nri.nri.stub.endpoint import DEFAULT_PATH, MAX_PATH
from dranet_nri.nri.wire.messages import PodEventKind
from tests.dranet_nri.nri.stub.plugin_bench import bench, finish, pod
from tests.fakes.runtime import FakeRuntime, RuntimeConnection

pytestmark = pytest.mark.process


PLUGIN = Path(__file__).parent / "launched_plugin.py"
RUNTIME = Path(__file__).parent / "child_runtime.py"
DIALLED = Endpoint("dra.net", "00")


def test_case_39_launched_plugin_serves_on_its_socket_and_ends_with_it() -> None:
    async def scenario(process: subprocess.Popen[str], plugin_end: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=plugin_end)
        runtime = RuntimeConnection(reader, writer, FakeRuntime())
        registration = await runtime.register()
        await runtime.answer(runtime.runtime.configure())
        await runtime.answer(runtime.runtime.synchronize())
        answer = await runtime.answer(runtime.runtime.pod_event(PodEventKind.RUN, pod("s1")))
        runtime.send_eof()
        await runtime.ended()
        await runtime.close()

        assert (registration.plugin_name, registration.plugin_idx) == ("dra.net", "42")
        assert answer.status is None

    with ExitStack() as stack:
        plugin_end, runtime_end = socket.socketpair()
        stack.enter_context(plugin_end)
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-I", str(PLUGIN)],
                env={
                    "NRI_PLUGIN_NAME": "dra.net",
                    "NRI_PLUGIN_IDX": "42",
                    "NRI_PLUGIN_SOCKET": str(runtime_end.fileno()),
                },
                pass_fds=(runtime_end.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(process.kill)
        runtime_end.close()
        finish(scenario(process, plugin_end))
        output, _ = process.communicate(timeout=30)

    assert process.returncode == 0
    assert "retry_s=None" in output


@pytest.mark.parametrize("stopped_first", [False, True], ids=["running", "stopped"])
def test_case_09_killed_runtime_is_detected(tmp_path: Path, *, stopped_first: bool) -> None:
    async def scenario(process: subprocess.Popen[str]) -> None:
        async with bench(tmp_path) as plugin:
            await plugin.until_notice(Serving)
            if stopped_first:
                process.send_signal(signal.SIGSTOP)
            process.kill()

            await plugin.until_notice(Disconnected)

            assert not plugin.connection.status.connected

    with subprocess.Popen(
        [sys.executable, "-I", str(RUNTIME), str(tmp_path / "nri.sock")],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        try:
            finish(scenario(process))
        finally:
            process.kill()


def test_case_39_plugin_dials_without_the_variable() -> None:
    assert endpoint_from_environ({"NRI_PLUGIN_NAME": "x"}, DIALLED) is DIALLED


@pytest.mark.parametrize(
    ("environ", "field"),
    [
        ({"NRI_PLUGIN_SOCKET": "three"}, "NRI_PLUGIN_SOCKET 'three'"),
        ({"NRI_PLUGIN_SOCKET": "-1"}, "NRI_PLUGIN_SOCKET '-1'"),
        ({"NRI_PLUGIN_SOCKET": "3", "NRI_PLUGIN_IDX": "10"}, "plugin name ''"),
        ({"NRI_PLUGIN_SOCKET": "3", "NRI_PLUGIN_NAME": "a"}, "plugin index ''"),
    ],
)
def test_case_39_invalid_variables_are_reported(environ: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidValueError, match=field):
        endpoint_from_environ(environ, DIALLED)


@pytest.mark.parametrize(
    ("name", "idx", "path"),
    [
        ("", "00", DEFAULT_PATH),
        ("dra net", "00", DEFAULT_PATH),
        ("dra.net", "0", DEFAULT_PATH),
        ("dra.net", "000", DEFAULT_PATH),
        ("dra.net", "0٣", DEFAULT_PATH),
        ("dra.net", "00", "/" * (MAX_PATH + 1)),
    ],
)
def test_case_33_invalid_registration_is_refused_before_it_is_sent(
    name: str, idx: str, path: str
) -> None:
    with pytest.raises(InvalidValueError):
        Endpoint(name, idx, path)


def test_longest_path_and_every_allowed_character_are_accepted() -> None:
    assert Endpoint("aZ0_.+-", "99", "/" * MAX_PATH).fd is None
