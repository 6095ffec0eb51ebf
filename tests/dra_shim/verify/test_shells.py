"""Shells in pods, with shells of this machine in the place of `kubectl exec`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from dra_shim.verify.kubectl import Kubectl, KubectlError
from dra_shim.verify.pair_checks import UNTIL_PINGED
from dra_shim.verify.shells import PodShells
from dra_shim.verify.types import CommandResult
from tests.box.waiting import wait_until

pytestmark = pytest.mark.process

LIMIT_S = 60.0


class LocalShells:
    """Starts shells of this machine, and remembers their pods, and how many others ran then."""

    def __init__(self) -> None:
        self.others: list[int] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.pods: list[str] = []

    def start(self, pod: str) -> subprocess.Popen[bytes]:
        """Start a shell as `Kubectl.start_shell` does."""
        self.others.append(sum(process.poll() is None for process in self.processes))
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            ["sh"], bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        self.processes.append(process)
        self.pods.append(pod)
        return process


@pytest.fixture
def local() -> LocalShells:
    """Return a starter of shells."""
    return LocalShells()


@pytest.fixture
def shells(local: LocalShells) -> Iterator[PodShells]:
    """Return the shells; afterwards all of them have ended."""
    with closing(PodShells(local.start)) as shells:
        yield shells
    assert all(process.poll() is not None for process in local.processes)


def test_shell_runs_several_commands(shells: PodShells, local: LocalShells) -> None:
    command = ("sh", "-c", 'printf "%s" "$1"; echo bad >&2; exit 3', "-", "a 'b'\n$HOME")

    results = [shells.run("one", command, LIMIT_S) for _ in range(3)]

    assert results == [CommandResult(3, "a 'b'\n$HOME", "bad\n")] * 3
    assert shells.run("one", ("cat",), LIMIT_S) == CommandResult(0, "", "")
    assert shells.run("two", ("true",), LIMIT_S).exit_code == 0
    assert local.pods == ["one", "two"]


def test_output_of_several_chunks_is_complete(shells: PodShells) -> None:
    result = shells.run("one", ("seq", "100000"), LIMIT_S)

    assert result.stdout == "".join(f"{number}\n" for number in range(1, 100001))


def test_oldest_idle_shell_is_closed(
    shells: PodShells, local: LocalShells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dra_shim.verify.shells.MOST", 2)

    for pod in ("one", "two", "one", "three", "one"):
        shells.run(pod, ("true",), LIMIT_S)

    assert local.pods == ["one", "two", "three"]
    assert local.others == [0, 1, 1]
    one, two, three = (process.poll() for process in local.processes)
    assert (one, three) == (None, None)
    assert two is not None


def test_concurrent_commands_of_a_pod_use_own_shells(shells: PodShells, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    with ThreadPoolExecutor(1) as pool:  # each end of a FIFO waits for the other
        output = pool.submit(shells.run, "one", ("cat", str(fifo)), LIMIT_S)
        shells.run("one", ("sh", "-c", 'echo word >"$1"', "-", str(fifo)), LIMIT_S)

    assert output.result().stdout == "word\n"


def test_command_that_reaches_its_limit_has_status_124(
    shells: PodShells, local: LocalShells
) -> None:
    result = shells.run("one", ("sleep", "60"), 0.1)

    assert result == CommandResult(124, "", "no answer within 0 s")
    assert shells.run("one", ("echo", "again"), LIMIT_S).stdout == "again\n"
    assert local.pods == ["one", "one"]


def test_lost_connection_fails_the_command(shells: PodShells, local: LocalShells) -> None:
    killed = shells.run("one", ("sh", "-c", "echo half; kill -KILL $PPID"), LIMIT_S)
    assert (killed.exit_code != 0, killed.stdout) == (True, "half\n")

    assert shells.run("one", ("echo", "again"), LIMIT_S).stdout == "again\n"
    local.processes[-1].kill()
    local.processes[-1].wait()
    assert shells.run("one", ("echo", "more"), LIMIT_S).stdout == "more\n"
    assert local.pods == ["one"] * 3


def test_close_ends_running_commands(local: LocalShells) -> None:
    shells = PodShells(local.start)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(shells.run, "one", ("sh", "-c", "echo ready; sleep 600"), LIMIT_S)
        wait_until("the shell", lambda: local.processes)
        shells.close()

    assert running.result().exit_code not in (0, 124)
    assert shells.run("one", ("true",), LIMIT_S).exit_code != 0
    assert local.pods == ["one"]


def test_missing_kubectl_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KubectlError, match="install it"):
        Kubectl("", "", "default").start_shell("one")


@pytest.mark.parametrize(
    ("pings", "then", "exit_code"),
    [
        pytest.param(3, "exit 0", 0, id="ends"),
        pytest.param(3, "sleep 600", 0, id="hangs after its last ping"),
        pytest.param(2, "exit 0", 1, id="ends too early"),
    ],
)
def test_rping_client_is_judged_by_its_pings(
    shells: PodShells, tmp_path: Path, pings: int, then: str, exit_code: int
) -> None:
    program = tmp_path / "rping"
    printed = 'for number in $(seq "$PINGS"); do echo "ping data: rdma-ping-$number"; done'
    program.write_text(
        f'#!/bin/sh\n[ "$*" = "-c -v -C 3 -a 10.9.0.2" ] || exit 2\n{printed}\n{then}\n'
    )
    program.chmod(0o755)
    path = f"PATH={tmp_path}:{os.environ['PATH']}"
    command = ("env", path, f"PINGS={pings}", "sh", "-c", UNTIL_PINGED, "-", "3", "-a", "10.9.0.2")

    result = shells.run("one", command, LIMIT_S)

    assert result.exit_code == exit_code
