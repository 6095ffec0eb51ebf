"""Benchmark of the plugin's start: the time from spawn to serving, and its memory."""

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from dranet_nri.state.store import AllocationStore
from tests.bench.nics import allocation, make_wires
from tests.bench.table import Row, ms, print_now
from tests.box.cri import Cri
from tests.box.plugin import ALLOCATIONS, LOG

STARTS: Final = 7
MIB: Final = 1024  # KiB, the unit of /proc/PID/status
BUDGET_MIB: Final = 44
CLAIMS: Final = 5
LIMIT_S: Final = 30.0
# What the plugin cannot do without, imported as it imports it.
DEPENDENCIES: Final = (
    "import argparse, asyncio, ctypes, json, logging, socket, structlog, pyudev;"
    "import google.protobuf.descriptor_pool;"
    "import dranet_nri.kernel.messages"  # the part of pyroute2 that is needed
)
IMPORTS: Final = "import dranet_nri.cli, dranet_nri.commands.run, dranet_nri.daemon.process"
TIMED: Final = (
    "import time; begin = time.perf_counter(); {}; print(time.perf_counter() - begin);"
    "print(next(w for w in open('/proc/self/status') if w.startswith('VmRSS')).split()[1])"
)


def imported(what: str) -> tuple[float, float, float]:
    """Return seconds of spawn to exit, seconds of the import, and KiB resident after it."""
    begin = time.perf_counter()
    done = subprocess.run(
        (sys.executable, "-c", TIMED.format(what)), capture_output=True, text=True, check=True
    )
    whole = time.perf_counter() - begin
    seconds, kib = map(float, done.stdout.split())
    return whole, seconds, kib


def resident(pid: int, key: str) -> int:
    """Return KiB of the process: VmRSS now, VmHWM at its most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


class Started:
    """A plugin process, timed until it serves."""

    def __init__(self) -> None:
        """Spawn it and wait."""
        ALLOCATIONS.mkdir(parents=True, exist_ok=True)
        offset = LOG.stat().st_size if LOG.exists() else 0
        begin = time.perf_counter()
        with LOG.open("ab") as log:
            self._process = subprocess.Popen(("dranet-nri", "run"), stdout=log, stderr=log)
        while b"serving" not in LOG.read_bytes()[offset:]:
            assert self._process.poll() is None, LOG.read_text()[-2000:]
            assert time.perf_counter() < begin + LIMIT_S, "the plugin does not serve"
            time.sleep(0.001)
        self.seconds = time.perf_counter() - begin
        self.pid = self._process.pid

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(30)


def worked(cri: Cri, pid: int) -> int:
    """Return KiB resident after pods with eight NICs came and went."""
    wires = make_wires(8, "heavy")
    store = AllocationStore(ALLOCATIONS)
    for number in range(CLAIMS):
        claim = allocation(wires, f"heavy{number}")
        store.put(claim)
        pod = cri.run_pod(claim.pod.name)
        cri.stop_pod(pod.sandbox_id)
        cri.remove_pod(pod.sandbox_id)
        store.remove(claim.claim.uid)
    store.close()
    return resident(pid, "VmHWM")


def run(rows: list[Row], notes: list[str], cri: Cri) -> None:
    """Measure start, imports and memory."""
    print_now(f"start: {STARTS} starts, and imports alone")
    ready, spawn, program, floor = [], [], [], []
    size = least = peak = 0.0
    for number in range(STARTS + 1):
        plugin = Started()
        size = resident(plugin.pid, "VmRSS")
        peak = worked(cri, plugin.pid) if number == STARTS else 0.0
        plugin.stop()
        whole, seconds, least = imported(DEPENDENCIES)
        if number:  # the first compiles
            ready.append(plugin.seconds)
            spawn.append(whole)
            floor.append(seconds)
            program.append(imported(IMPORTS)[1])
    for what, measured_s, base, label in (
        ("spawn to serving", ready, spawn, "spawn to exit, dependencies alone"),
        ("imports", program, floor, "dependencies alone"),
    ):
        here, there = statistics.median(measured_s), statistics.median(base)
        rows.append(Row(f"dranet-nri, {what}", ms(here), f"{ms(there)} {label}", here / there))
    for what, kib in (("serving", size), (f"after {CLAIMS} pods with 8 NICs, peak", peak)):
        rows.append(
            Row(
                f"dranet-nri, resident, {what}",
                f"{kib / MIB:.1f} MiB",
                f"{least / MIB:.1f} MiB dependencies alone",
                kib / least,
                f"≤ {BUDGET_MIB} MiB",
                kib / MIB <= BUDGET_MIB,
            )
        )
    notes.append(f"start: medians of {STARTS}, bytecode compiled; serving = synchronised")
