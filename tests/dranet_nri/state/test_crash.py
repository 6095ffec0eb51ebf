"""A writer killed at any moment: records are complete, and acknowledged writes are kept."""

import os
import random
import signal
from pathlib import Path

import pytest

from dranet_nri.model import Allocation
from dranet_nri.state.reader import AllocationReader
from dranet_nri.state.store import AllocationStore
from tests.dranet_nri.state.directories import ME
from tests.dranet_nri.state.examples import allocation_of

pytestmark = pytest.mark.process


ROUNDS = 20
CLAIMS = ("a", "b", "c")
ACKNOWLEDGED = 4  # bytes


def number(record: Allocation | None) -> int:
    """Return the writer's count in the record."""
    return -1 if record is None else int(record.nonce)


def write_for_ever(directory: Path, start: int, acknowledge: int) -> None:
    """Write increasing numbers, and acknowledge each one."""
    with AllocationStore(directory) as store:
        n = start
        while True:
            store.put(allocation_of(CLAIMS[n % 3], nonce=str(n)))
            os.write(acknowledge, n.to_bytes(ACKNOWLEDGED))
            n += 1


def start_writer(directory: Path, start: int) -> tuple[int, int]:
    """Return the child's pid and the pipe on which it acknowledges."""
    acknowledged, acknowledge = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(acknowledged)
            write_for_ever(directory, start, acknowledge)
        finally:
            os._exit(1)
    os.close(acknowledge)
    return child, acknowledged


def last_acknowledged(pipe: int) -> int:
    """Return the last number that was said, reading to the end."""
    with os.fdopen(pipe, "rb") as file:
        message = file.read()
    return int.from_bytes(message[-ACKNOWLEDGED:])


def test_killed_writer_corrupts_no_record_and_loses_no_acknowledged_write(tmp_path: Path) -> None:
    rng = random.Random(2026)
    highest = -1
    with AllocationReader(tmp_path, owner=ME) as reader:
        for _ in range(ROUNDS):
            child, pipe = start_writer(tmp_path, highest + 1)
            observed = [-1, -1, -1]
            for _ in range(rng.randrange(1, 40)):  # its reads are what we wait with
                first = os.read(pipe, ACKNOWLEDGED)
                highest = int.from_bytes(first)
                reader.refresh()
                assert not reader.broken
                now = [number(reader.get(claim)) for claim in CLAIMS]
                assert all(new >= old for new, old in zip(now, observed, strict=True))
                assert max(now) >= highest
                observed = now
            for _ in range(rng.randrange(3000)):
                pass  # the moment of death is anywhere in the writer's loop
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            highest = max(highest, last_acknowledged(pipe))

            reader.refresh()
            on_disk = max(number(reader.get(claim)) for claim in CLAIMS)
            assert not reader.broken
            assert on_disk in {highest, highest + 1}, "the last write may lack its acknowledgement"
            highest = on_disk

    with AllocationStore(tmp_path) as store:
        assert max(number(record) for record in store.records()) == highest
        assert {path.suffix for path in tmp_path.iterdir()} == {".json", ""}, "no staged file left"
