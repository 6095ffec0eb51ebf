"""dra-shim with timers: python3 -m tests.bench.stages FILE ARGUMENT...

It appends one line to FILE for each Prepare and Unprepare: a JSON object with the call, and its
stages in seconds.
"""

import inspect
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from dra_shim.checkpoint.transaction import CheckpointTransaction
from dra_shim.cli import main
from dra_shim.daemon.sources import ServerSource
from dra_shim.prepare import preparer, transactions

CLAIM: Final = "GET of the claim"
POD: Final = "GET of the pod"
READING: Final = "reading of claim and pod"
CHECKS: Final = "checks and record"
WRITE: Final = "durable write"
THREAD: Final = "thread and locks"
REST: Final = "rest of the shim"
TIMED: Final = (
    (CLAIM, ServerSource, "claim"),
    (POD, ServerSource, "pod"),
    (READING, preparer, "requested_claim"),
    (READING, preparer, "read_pod_use"),
    (CHECKS, transactions, "record"),
    (CHECKS, transactions, "forget"),
    (WRITE, CheckpointTransaction, "record"),
    (WRITE, CheckpointTransaction, "forget"),
    (THREAD, preparer.Preparer, "_transact"),
)
CALLS: Final = ("prepare", "unprepare")

Function = Callable[..., Any]
taken: Final[dict[str, float]] = defaultdict(float)


@contextmanager
def timer(stage: str) -> Iterator[None]:
    """Add the time of the block to a stage."""
    begin = time.perf_counter()
    yield
    taken[stage] += time.perf_counter() - begin


def timed(function: Function, stage: str) -> Function:
    """Return the function with a timer."""
    if inspect.iscoroutinefunction(function):

        async def wait(*arguments: Any, **named: Any) -> Any:
            with timer(stage):
                return await function(*arguments, **named)

        return wait

    def call(*arguments: Any, **named: Any) -> Any:
        with timer(stage):
            return function(*arguments, **named)

    return call


def reported(function: Function, name: str, file: Path) -> Function:
    """Return a call of the driver that writes its stages; calls must not overlap."""

    async def wait(*arguments: Any, **named: Any) -> Any:
        taken.clear()
        with timer(REST):
            answer = await function(*arguments, **named)
        with file.open("a") as out:
            out.write(json.dumps({"call": name, "stages": stages(taken)}) + "\n")
        return answer

    return wait


def stages(found: Mapping[str, float]) -> dict[str, float]:
    """Return the stages without those that they contain."""
    alone = dict(found)
    alone[REST] -= sum(found.get(stage, 0.0) for stage in (CLAIM, POD, READING, THREAD))
    alone[THREAD] = found.get(THREAD, 0.0) - found.get(CHECKS, 0.0)
    alone[CHECKS] = found.get(CHECKS, 0.0) - found.get(WRITE, 0.0)
    return alone


if __name__ == "__main__":
    for label, owner, attribute in TIMED:
        setattr(owner, attribute, timed(getattr(owner, attribute), label))
    for call_name in CALLS:
        served = reported(getattr(preparer.Preparer, call_name), call_name, Path(sys.argv[1]))
        setattr(preparer.Preparer, call_name, served)
    sys.exit(main(sys.argv[2:]))
