"""A process of the cluster: its start, log, readiness and end."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.box.waiting import wait_until

TAIL_LINES: Final = 30
DEADLINE_S: Final = 120.0
# Dies with its parent, and does not begin if that died before the kernel was told.
BOUND: Final = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')


class ProgramError(Exception):
    """A program did not get ready. The message has the end of its log."""


class Port:
    """A free port of the loopback, held from now on for a server that shares it (SO_REUSEPORT).

    This socket never listens, so every connection goes to the server, and nobody else is given the
    port before the server has started or while it is restarted.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Let anyone have the port."""
        self._socket.close()


def tail(log: Path) -> str:
    """Return the end of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:])


class Program:
    """One program. Made stopped. The kernel kills it when the thread that started it ends."""

    def __init__(self, log: Path, command: tuple[str | Path, ...]) -> None:
        self.name = log.stem
        self._log = log
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the process id; it must be running."""
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    def start(self, ready: Callable[[], object]) -> None:
        """Start it and wait until it is ready.

        Raises:
            ProgramError: It ended before that, or it took longer than two minutes.
        """
        assert self._process is None, f"{self.name} is running already"
        bound = (*BOUND, str(os.getpid()), *self._command)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                bound, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            wait_until(f"{self.name} to be ready", lambda: self._is(ready), DEADLINE_S)
        except TimeoutError as error:
            raise ProgramError(f"{error}\n{self.tail()}") from None

    def stop(self) -> None:
        """Kill it, if it runs, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def check(self) -> None:
        """Do nothing if it runs.

        Raises:
            ProgramError: It ended.
        """
        assert self._process is not None, f"{self.name} is not running"
        if (status := self._process.poll()) is not None:
            raise ProgramError(f"{self.name} ended with status {status}\n{self.tail()}")

    def tail(self) -> str:
        """Return the end of its log."""
        return tail(self._log) if self._log.exists() else ""

    def _is(self, ready: Callable[[], object]) -> bool:
        self.check()
        return bool(ready())
