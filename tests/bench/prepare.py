"""Benchmark of prepare in the shim, without the API server, on a node that has other claims."""

import asyncio
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from dra_shim.settings.common import StatePaths
from dranet_nri.component.files import FileSystem, save
from dranet_nri.state.record import encode_allocation
from tests.bench.table import Row, ms, print_now, spread
from tests.dra_shim.prepare.prepare_bench import Bench
from tests.fakes.cluster import config

OTHERS: Final = 7  # claims of one NIC each
ROUNDS: Final = 200
BUDGET_S: Final = 0.005
PARAMETERS: Final = {
    "interface": {"mtu": 9000},
    "routes": [{"destination": "10.9.0.0/16", "scope": 253}],
}
DURABLE_ROOT: Final = "/run"  # memory in the box, so that fsync costs nothing on either side


async def rounds(bench: Bench, directory: Path) -> tuple[list[float], list[float]]:
    """Return the seconds of each Prepare, and of writing its record durably, in turn."""
    prepare_s, save_s = [], []
    for number in range(ROUNDS):
        claim = bench.cluster.add("measured", "measured", "nic-measured", pod="m", pod_uid="m")
        allocation = bench.cluster.claims["measured"]["status"]["allocation"]
        allocation["devices"]["config"] = [config(PARAMETERS)]
        begin = time.perf_counter()
        (answer,) = (await bench.preparer.prepare([claim])).values()
        prepare_s.append(time.perf_counter() - begin)
        assert answer.devices, answer.error
        record = bench.record(claim)
        assert record is not None
        data = encode_allocation(record)
        begin = time.perf_counter()
        save(FileSystem(), directory / f"{number}.json", data)
        save_s.append(time.perf_counter() - begin)
        assert await bench.preparer.unprepare([claim]) == {claim.uid: ""}
    return prepare_s, save_s


def run(rows: list[Row], notes: list[str]) -> None:
    """Measure Prepare of one claim with parameters."""
    print_now(f"prepare: a claim on a node with {OTHERS} others, {ROUNDS} times")
    with tempfile.TemporaryDirectory(dir=DURABLE_ROOT) as temporary:
        directory = Path(temporary)
        with closing(Bench(StatePaths(directory / "state", directory / "run"))) as bench:
            for number in range(OTHERS):
                name = f"other-{number}"
                bench.prepare(bench.cluster.add(name, name, f"nic-{number}"))
            prepare_s, save_s = asyncio.run(rounds(bench, directory))
    middle, floor = statistics.median(prepare_s), statistics.median(save_s)
    rows.append(
        Row(
            "NodePrepareResources, 1 claim, no API server",
            ms(middle),
            f"{ms(floor)} its record, durably",
            middle / floor,
            f"≤ +{ms(BUDGET_S)}",
            middle - floor <= BUDGET_S,
        )
    )
    notes.append(f"prepare: middle half {spread(prepare_s)}, the record alone {spread(save_s)}")
