"""The cost of a command: its wall time, and the CPU time of every process below it.

Usage: measure.py FILE COMMAND...

FILE gets two numbers, in seconds: wall time and CPU time (user and system). The exit status is the
command's. A process whose parent has ended counts as well. A process that is killed together with
its pid namespace does not: the kernel adds its time to no parent.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
GRACE_S = 10  # for processes that outlive the command


def run(command: list[str]) -> int:
    """Run the command and return its exit status; collect the processes that it left behind."""
    pid = os.posix_spawnp(command[0], command, os.environ)
    ended, status = os.wait()
    while ended != pid:
        ended, status = os.wait()
    code = os.waitstatus_to_exitcode(status)
    end = time.monotonic() + GRACE_S
    with suppress(ChildProcessError):  # no child is left
        while time.monotonic() < end:
            ended, _ = os.waitpid(-1, os.WNOHANG)
            if not ended:
                time.sleep(0.05)
    return code if code >= 0 else 128 - code


def main(file: str, *command: str) -> int:
    """Run the command, write what it cost, and return its exit status."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, lambda *_: None)  # the command decides
    began = time.monotonic()
    code = run(list(command))
    wall = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(file).write_text(f"{wall:.1f} {used.ru_utime + used.ru_stime:.1f}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
