"""The list of a full node over a socket: the plugin, and a stub of containerd's NRI library."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Final

from tests.bench.table import Row, ms, print_now
from tests.fakes.full_node import Piece, full_node, pieces
from tests.fakes.runtime import RuntimeServer

PODS: Final = 1000
CONTAINERS: Final = 3
TRIES: Final = 5  # of each, in turn; the best counts
BAR: Final = 2.0
STUB: Final = "nri-stub"  # built from tests/bench/stub by hack/bench
START_S: Final = 60.0


def plugin(directory: Path, socket: Path) -> Sequence[str]:
    """Return the command of the plugin, with records of its own."""
    allocations = directory / "allocations"
    allocations.mkdir(parents=True, exist_ok=True)
    return (
        sys.executable, "-m", "dranet_nri", "run", "--nri-socket", str(socket),
        "--allocations-dir", str(allocations), "--run-dir", str(directory / "run"),
        "--cdi-dir", str(directory / "cdi"),
    )  # fmt: skip


@contextmanager
def spawned(command: Sequence[str], log: Path) -> Iterator[None]:
    """Run a program for the length of a block."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as child:
        try:
            yield
        finally:
            child.kill()


async def served(command: Sequence[str], directory: Path, parts: Sequence[Piece]) -> float:
    """Return the seconds that a program takes from the first byte of a list to its last answer."""
    async with RuntimeServer(str(directory / "nri.sock")) as server:
        with spawned(command, directory / "log"):
            runtime = await asyncio.wait_for(server.connection(), START_S)
            await runtime.register()
            await runtime.answer(runtime.runtime.configure())
            taken = 0.0
            for number, (pods, containers) in enumerate(parts, 1):
                # Encoded before the clock starts: the runtime does that for both.
                call = runtime.runtime.synchronize(pods, containers, more=number < len(parts))
                begin = time.perf_counter()
                await runtime.answer(call)
                taken += time.perf_counter() - begin
            return taken


def run(rows: list[Row], notes: list[str]) -> None:
    """Measure both, one after the other, several times."""
    stub = which(STUB)
    if stub is None:
        notes.append("list of a full node: not measured, hack/bench found no Go to build the stub")
        return
    print_now(f"list: {PODS} pods x {CONTAINERS} containers")
    parts = list(pieces(full_node(PODS, CONTAINERS)))
    plugin_s: list[float] = []
    floor: list[float] = []
    for number in range(TRIES):
        for program, found in (("ours", plugin_s), ("stub", floor)):
            with tempfile.TemporaryDirectory() as root:
                directory, socket = Path(root), Path(root) / "nri.sock"
                command = plugin(directory, socket) if program == "ours" else (stub, str(socket))
                found.append(asyncio.run(served(command, directory, parts)))
        print_now(f"list: try {number + 1}, {ms(plugin_s[-1])} and {ms(floor[-1])}")
    ratio = min(plugin_s) / min(floor)
    rows.append(
        Row(
            f"list of {PODS} pods x {CONTAINERS} containers, answered",
            ms(min(plugin_s)),
            f"{ms(min(floor))} a stub in Go",
            ratio,
            f"≤ {BAR:.0f} x the stub",
            ratio <= BAR,
        )
    )
    notes.append(
        f"list: wall time over a socket, the best of {TRIES}; the stub is containerd's NRI library"
        " with an empty Synchronize"
    )
