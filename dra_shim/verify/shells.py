"""Shells in pods: one `kubectl exec` for many commands.

On a busy node, `kubectl exec` takes longer than most measurements. So an idle shell runs the next
command of its pod. A shell is closed when its command reaches the limit or its connection is lost.
At the limit of shells, the oldest idle one is closed before another starts, because each is a
kubectl process.
"""

import os
import re
import secrets
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import RLock
from typing import IO, Final

from dra_shim.verify.types import CommandResult

Process = subprocess.Popen[bytes]
CHUNK: Final = 65536
MOST: Final = 64  # both ends of all pairs that are measured at a time
EXIT_S: Final = 5.0  # seconds for kubectl to exit after its output ended
# Prints a mark on both outputs after the command. The command cannot read the shell's input.
FRAMED: Final = "{command} </dev/null; printf '\\n{mark} %s\\n' $?; printf '\\n{mark} 0\\n' >&2\n"


class PodShells:
    """Runs commands in shells of pods.

    Args:
        start: starts a shell in a pod, with pipes for its input and its outputs, in a process
            group of its own.
    """

    def __init__(self, start: Callable[[str], Process]) -> None:
        self._start = start
        self._lock = RLock()  # a signal handler may interrupt `close`, and call it
        self._idle: list[tuple[str, _Shell]] = []  # (pod, shell), the last used at the end
        self._busy: set[_Shell] = set()
        self._closed = False

    def run(self, pod: str, command: Sequence[str], limit_s: float) -> CommandResult:
        """Run a command to its end; 124 is the exit status of one that reached the limit.

        Raises:
            KubectlError: kubectl cannot be started.
        """
        shell = self._take(pod)
        if shell is None:
            return CommandResult(1, "", "the verification was interrupted")
        result = shell.run(command, limit_s)
        with self._lock:
            self._busy.discard(shell)
            if shell.is_usable and not self._closed:
                self._idle.append((pod, shell))
                return result
        shell.close()
        return result

    def close(self) -> None:
        """End all shells: running commands fail, and no other command starts."""
        with self._lock:
            self._closed = True
            for shell in self._busy:  # the thread that waits for the shell closes it
                shell.kill()
            idle, self._idle = self._idle, []
        for _, shell in idle:
            shell.close()

    def _take(self, pod: str) -> "_Shell | None":
        with self._lock:
            if self._closed:
                return None
            shell = self._idle_shell(pod) or self._new_shell(pod)
            self._busy.add(shell)
            return shell

    def _idle_shell(self, pod: str) -> "_Shell | None":
        for index in reversed(range(len(self._idle))):
            if self._idle[index][0] == pod:
                _, shell = self._idle.pop(index)
                if shell.is_usable:
                    return shell
                shell.close()
        return None

    def _new_shell(self, pod: str) -> "_Shell":
        while self._idle and len(self._idle) + len(self._busy) >= MOST:
            self._idle.pop(0)[1].close()
        return _Shell(self._start(pod))


class _Shell:
    """A shell of one pod, which runs one command at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._usable = True

    @property
    def is_usable(self) -> bool:
        """Return whether the shell accepts another command."""
        return self._usable and self._process.poll() is None

    def run(self, command: Sequence[str], limit_s: float) -> CommandResult:
        """Run a command to its end."""
        until = time.monotonic() + limit_s
        mark = secrets.token_hex(8)
        text = FRAMED.format(command=shlex.join(command), mark=mark)
        outputs = [_Output(pipe, mark) for pipe in (self._process.stdout, self._process.stderr)]
        try:
            os.write(_descriptor(self._process.stdin), text.encode())
        except OSError:
            self._usable = False
        self._read(outputs, until)
        stdout, stderr = (output.text for output in outputs)
        if all(output.status is not None for output in outputs):
            return CommandResult(int(outputs[0].status or 0), stdout, stderr)
        self._usable = False
        if not all(output.ended for output in outputs):
            return CommandResult(124, "", f"no answer within {limit_s:.0f} s")
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_S)
        return CommandResult(self._process.returncode or 1, stdout, stderr)

    def kill(self) -> None:
        """Kill its process: a running command fails."""
        self._usable = False
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the shell; no command may be running."""
        self.kill()
        with self._process:  # waits, and closes the pipes
            pass

    @staticmethod
    def _read(outputs: Sequence["_Output"], until: float) -> None:
        """Read until both outputs have the mark or end, or until the limit."""
        # `poll` needs no descriptor: those of all shells are near the limit of a laptop (256).
        with selectors.PollSelector() as selector:
            for output in outputs:
                selector.register(output.descriptor, selectors.EVENT_READ, output)
            while selector.get_map() and (left := until - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    if not key.data.read():
                        selector.unregister(key.fd)


class _Output:
    """One of the two outputs of a command."""

    def __init__(self, pipe: IO[bytes] | None, mark: str) -> None:
        self.descriptor = _descriptor(pipe)
        self.ended = False
        self._last = re.compile(rf"\n{mark} (\d+)\n\Z".encode())
        self._bytes = b""
        self.status: str | None = None

    @property
    def text(self) -> str:
        """Return the output of the command, without the mark."""
        return self._last.sub(b"", self._bytes).decode(errors="replace")

    def read(self) -> bool:
        """Read once; return whether more output is expected."""
        chunk = os.read(self.descriptor, CHUNK)
        self._bytes += chunk
        found = self._last.search(self._bytes)
        self.status = found[1].decode() if found else None
        self.ended = not chunk
        return not (found or self.ended)


def _descriptor(pipe: IO[bytes] | None) -> int:
    if pipe is None:
        raise ValueError("a shell is started with pipes for its input and its outputs")
    return pipe.fileno()
