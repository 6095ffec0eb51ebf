"""Standard error that is not read: no writer blocks, and dropped lines are counted."""

import asyncio
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from signal import SIGTERM
from threading import Event

import pytest

from dra_shim.kubeletplugin import sockets_of
from dra_shim.settings.common import StatePaths
from dranet_nri.component.log import BUFFER_BYTES, NonBlockingStderr, non_blocking_stderr
from dranet_nri.model import DRIVER_NAME
from dranet_nri.nri.wire.messages import PodEventKind
from dranet_nri.state.lock import PluginLock
from tests.box.waiting import wait_until
from tests.dra_shim.commands.shim_bench import ENVIRONMENT, command
from tests.dranet_nri.daemon.daemon_bench import ROOT, Site
from tests.fakes.runtime import RuntimeServer, pod_message

pytestmark = pytest.mark.process


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: it
clusters: [{name: it, cluster: {server: "https://127.0.0.1:9"}}]
contexts: [{name: it, context: {cluster: it, user: me}}]
users: [{name: me, user: {token: secret}}]
"""
LINE = b"x" * 999 + b"\n"
MANY = 3 * BUFFER_BYTES // len(LINE)
COMMAND = """
import sys
from dranet_nri.component.log import configure, logger, non_blocking_stderr
with non_blocking_stderr():
    configure(json=True, verbose=False)
    for number in range({count}):
        logger("test").info("line", number=number)
    {last}
"""


def gap(lines: int) -> str:
    return f"gap of {lines}\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Return both ends of a pipe that holds four lines."""
    ends = os.pipe()
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4096)
    yield ends
    for end in ends:
        os.close(end)


def until(source: int, text: bytes, found: bytes = b"") -> list[bytes]:
    """Return the lines up to one with text, found the first of them."""
    while text not in found or not found.endswith(b"\n"):
        found += os.read(source, 65536)
    return found.splitlines(keepends=True)


def test_stalled_reader_blocks_no_writer_and_gets_the_count_of_dropped_lines(
    pipe: tuple[int, int],
) -> None:
    outlet = NonBlockingStderr(pipe[1], gap)
    for _ in range(MANY):
        assert outlet.write(LINE) == len(LINE)

    *written, reported = until(pipe[0], b"gap of")

    assert set(written) == {LINE}
    assert BUFFER_BYTES // len(LINE) <= len(written) < MANY
    assert reported == gap(MANY - len(written)).encode()
    outlet.write(b"and on\n")
    assert until(pipe[0], b"and on") == [b"and on\n"]
    outlet.drain()


def test_no_line_is_accepted_before_the_gap_line_is_written(pipe: tuple[int, int]) -> None:
    outlet = NonBlockingStderr(pipe[1], gap)
    for _ in range(MANY):
        outlet.write(LINE)
    head = os.read(pipe[0], 4 * len(LINE))  # there is room again
    outlet.write(b"small\n")

    *written, reported = until(pipe[0], b"gap of", head)

    assert b"small\n" not in written
    assert reported == gap(MANY + 1 - len(written)).encode()
    outlet.drain()


def line_count(line: bytes) -> int:
    """Return how many lines a line stands for: itself, or those of a gap."""
    return int(line.split()[2]) if line.startswith(b"gap of") else 1


def test_unwritable_gap_is_counted_until_it_is_written(pipe: tuple[int, int]) -> None:
    tried = Event()

    def gap_line(lines: int) -> str:
        tried.set()
        return gap(lines)

    full = os.open("/dev/full", os.O_WRONLY)
    outlet = NonBlockingStderr(full, gap_line, retry_s=0.01)
    outlet.write(b"one\ntwo\n")
    assert tried.wait(30)
    outlet.write(b"three\n")

    os.dup2(pipe[1], full)

    counted = 0
    while counted < 3:
        counted += sum(map(line_count, until(pipe[0], b"\n")))
    assert counted == 3
    outlet.write(b"four\n")
    assert until(pipe[0], b"four") == [b"four\n"]
    outlet.drain()
    os.close(full)


def test_closed_pipe_raises_no_error_in_the_writer() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    outlet = NonBlockingStderr(writer, gap)

    outlet.write(b"line\n")
    outlet.drain()

    outlet.write(b"line\n")
    os.close(writer)


def run(count: int, last: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-c", COMMAND.format(count=count, last=last))
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_last_lines_of_a_process_are_written() -> None:
    done = run(500, "logger('test').error('the end')")

    *lines, last = (json.loads(line) for line in done.stderr.splitlines())
    assert [line["number"] for line in lines] == list(range(500))
    assert (last["event"], last["level"], done.returncode) == ("the end", "error", 0)


def test_traceback_follows_the_log_lines_before_it() -> None:
    done = run(3, "raise ValueError('unheard of')")

    lines = done.stderr.splitlines()
    assert [json.loads(line)["number"] for line in lines[:3]] == [0, 1, 2]
    assert lines[3].startswith("Traceback")
    assert lines[-1] == "ValueError: unheard of"
    assert done.returncode == 1


def test_log_of_other_libraries_is_buffered_and_a_gap_is_a_log_line() -> None:
    last = "print('done', flush=True); input(); import logging; logging.error('beside')"
    with subprocess.Popen(
        (sys.executable, "-c", COMMAND.format(count=20_000, last=last)),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "done\n", "the log was not read until now"
        written = [json.loads(next(process.stderr))]
        while "number" in written[-1]:
            written.append(json.loads(next(process.stderr)))
        reported = written.pop()
        process.stdin.write("\n")
        process.stdin.flush()
        rest = process.stderr.read()

    assert [line["number"] for line in written] == list(range(len(written)))
    assert reported["event"] == "log lines dropped, standard error was not read"
    assert (reported["level"], reported["lines"]) == ("warning", 20_000 - len(written))
    assert "beside" in rest


def fill(writer: int) -> None:
    """Fill a pipe, so that a later writer blocks."""
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 64)
    os.set_blocking(writer, True)


def test_plugin_answers_hooks_while_its_log_is_not_read(
    tmp_path: Path, pipe: tuple[int, int]
) -> None:
    site = Site(tmp_path)

    async def scenario(process: subprocess.Popen[str]) -> None:
        async with RuntimeServer(str(site.socket)) as server:
            runtime = await server.connection()
            await runtime.handshake()
            fill(pipe[1])
            site.allocate("uid-s1")
            for sandbox in ("s1", "plain"):  # the first one's refusal is logged
                message = pod_message(sandbox, netns="/nowhere")
                call = runtime.runtime.pod_event(PodEventKind.RUN, message)
                await runtime.answer(call)
            process.send_signal(SIGTERM)
            assert await asyncio.to_thread(process.wait, 30) == 0

    with subprocess.Popen(site.command(), cwd=ROOT, stderr=pipe[1], text=True) as process:
        try:
            asyncio.run(scenario(process))
        finally:
            process.kill()


@pytest.mark.parametrize("flag", ["--no-such-flag", "--kubeconfig=absent"])
@pytest.mark.parametrize("program", ["dra_shim", "dranet_nri"])
def test_daemon_that_cannot_start_exits_while_its_log_is_not_read(
    tmp_path: Path, pipe: tuple[int, int], program: str, flag: str
) -> None:
    fill(pipe[1])
    done = subprocess.run(
        (sys.executable, "-m", program, "run", flag),
        cwd=tmp_path, env=ENVIRONMENT, stderr=pipe[1], check=False, timeout=120,
    )  # fmt: skip

    assert done.returncode == (1 if program == "dra_shim" and "absent" in flag else 2)


def test_shim_runs_while_its_log_is_not_read(tmp_path: Path, pipe: tuple[int, int]) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    state = StatePaths(tmp_path / "state", tmp_path / "run")
    state.directory.mkdir()
    other = PluginLock(state.daemon_lock)
    assert other.try_acquire(), "so that it waits there, and does not touch this machine"
    kubelet = tmp_path / "kubelet"
    (kubelet / "plugins").mkdir(parents=True)
    flags = ("--kubeconfig", "kubeconfig", "--state-dir", "state", "--run-dir", "run",
             "--kubelet-root-dir", str(kubelet), "--db-path", "logged")  # fmt: skip
    fill(pipe[1])
    with subprocess.Popen(
        command("run", *flags), cwd=tmp_path, env=ENVIRONMENT, stderr=pipe[1]
    ) as process:  # fmt: skip
        try:
            lock = sockets_of(kubelet, DRIVER_NAME).lock
            wait_until(
                "the kubelet's side or the process's end",
                lambda: process.poll() is not None or (lock.exists() and lock.read_text()),
            )
            assert process.poll() is None
            process.send_signal(SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
    other.release()


def test_standard_error_without_a_descriptor_is_unchanged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    captured = sys.stderr

    with non_blocking_stderr():
        assert sys.stderr is captured
        sys.stderr.write("a line\n")

    assert capsys.readouterr().err == "a line\n"
