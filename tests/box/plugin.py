"""Plugin in its own process, as the DaemonSet runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Final

from tests.box.waiting import wait_until

LOG: Final = Path("/tmp/dranet-nri.log")
RUN: Final = Path("/run/dranet-nri")
ALLOCATIONS: Final = Path("/var/lib/dranet-nri/allocations")
ATTACHMENTS: Final = RUN / "attachments"


def status(device: str) -> dict[str, str]:
    """Return what `dranet-nri status` shows of the device: STATE, POD, REASON and more."""
    command = ("dranet-nri", "status", "--output", "json")
    shown = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    rows: list[dict[str, str]] = shown["devices"]
    return next(row for row in rows if row["device"] == device)


class Plugin:
    """Starts, stops and kills `dranet-nri run`."""

    command: tuple[str, ...] = ("dranet-nri",)
    log_file: Path = LOG

    def __init__(self, *flags: str) -> None:
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None
        self._log_offset = 0

    def start(self, *, wait: bool = True) -> None:
        """Start it; return once the runtime has synchronised it."""
        ALLOCATIONS.mkdir(parents=True, exist_ok=True)
        self._log_offset = len(self.log())
        with self.log_file.open("ab") as log:
            command = (*self.command, "run", "--verbose", *self._flags)
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        if wait:
            wait_until(f"{self.command[0]} to serve", self._serves)

    def start_alone(self) -> None:
        """Start it where no pod has a NIC; return once the NICs of earlier pods are restored."""
        self.start()
        wait_until("earlier pods' NICs to be restored", lambda: not any(ATTACHMENTS.glob("*.json")))

    def stop(self) -> None:
        """End it as the kubelet does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash does."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop it from running without ending it, so that it answers nothing."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen one run again."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    @property
    def pid(self) -> int:
        """Return its process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """Return its log since the box was made."""
        log = self.log_file
        return log.read_text(errors="replace") if log.exists() else ""

    def since(self) -> str:
        """Return its log since it was last started."""
        return self.log()[self._log_offset :]

    def _serves(self) -> bool:
        assert self.running, f"{self.command[0]} ended:\n{self.since()[-4000:]}"
        return "serving" in self.since()

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            os.kill(self._process.pid, number)
            os.kill(self._process.pid, signal.SIGCONT)
        self._process.wait(60)
        self._process = None
