"""Process metrics, with the names that Prometheus clients use."""

import os
from pathlib import Path
from typing import Final

from dranet_nri.component.metrics import Counter, Gauge, exposition

_STAT: Final = Path("/proc/self/stat")  # proc_pid_stat(5)
_UTIME, _STIME, _THREADS, _START, _VSIZE, _RSS = 13, 14, 19, 21, 22, 23  # fields, from 0
_BTIME: Final = "btime "


def process_text() -> str:
    """Return the current metrics of the process.

    Raises:
        OSError: /proc is not mounted.
    """
    # The second field is a name in parentheses, which can contain spaces and parentheses.
    fields = ["", "", *_STAT.read_text().rpartition(")")[2].split()]
    tick = os.sysconf("SC_CLK_TCK")
    cpu = Counter("process_cpu_seconds_total", "CPU time of user and system.")
    cpu.add(by=(int(fields[_UTIME]) + int(fields[_STIME])) / tick)
    families: list[Counter | Gauge] = [cpu]
    for name, text, value in (
        ("start_time_seconds", "Start of the process, Unix time.",
         _booted_s() + int(fields[_START]) / tick),
        ("virtual_memory_bytes", "Size of its address space.", int(fields[_VSIZE])),
        ("resident_memory_bytes", "Part of it in memory.",
         int(fields[_RSS]) * os.sysconf("SC_PAGE_SIZE")),
        ("open_fds", "Open file descriptors.", len(tuple(Path("/proc/self/fd").iterdir())) - 1),
        ("threads", "Threads.", int(fields[_THREADS])),
    ):  # fmt: skip
        gauge = Gauge(f"process_{name}", text)
        gauge.set(value)
        families.append(gauge)
    return exposition(families)


def _booted_s() -> int:
    """Return the boot time of the machine, in Unix seconds."""
    lines = Path("/proc/stat").read_text().splitlines()
    return next(int(line.removeprefix(_BTIME)) for line in lines if line.startswith(_BTIME))
