"""Latency and bandwidth between two MPI ranks, and the time of an all-reduce of all ranks.

The last line is `MPI_RESULT` and JSON.
"""

import argparse
import json
import os
import sys
from array import array

from mpi4py import MPI

SMALL, LARGE = 8, 2**20  # bytes
WORLD = MPI.COMM_WORLD


def exchange(size: int, rounds: int) -> float:
    """Return the seconds that a message takes from rank 0 to rank 1, or back."""
    sent, received = bytearray(b"\x5a" * size), bytearray(size)
    WORLD.Barrier()
    start = MPI.Wtime()
    for _ in range(rounds):
        if WORLD.rank == 0:
            WORLD.Send(sent, 1)
            WORLD.Recv(received, 1)
        elif WORLD.rank == 1:
            WORLD.Recv(received, 0)
            WORLD.Send(sent, 0)
    seconds = (MPI.Wtime() - start) / rounds / 2
    if WORLD.rank < 2 and received != sent:
        raise SystemExit(f"rank {WORLD.rank}: a message of {size} bytes arrived with other bytes")
    return seconds


def reduce_all(rounds: int) -> float:
    """Return the seconds of an all-reduce of one number."""
    total = array("d", [0.0])
    WORLD.Barrier()
    start = MPI.Wtime()
    for _ in range(rounds):
        WORLD.Allreduce(array("d", [WORLD.rank + 1.0]), total)
    seconds = (MPI.Wtime() - start) / rounds
    if total[0] != WORLD.size * (WORLD.size + 1) / 2:
        raise SystemExit(f"rank {WORLD.rank}: the sum of all ranks is wrong: {total[0]}")
    return seconds


def main() -> None:
    """Print a line for each measurement, then the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = int(os.environ.get("PINGPONG_ROUNDS", "200"))
    parser.add_argument("--rounds", type=int, default=default, help="of each measurement")
    rounds = parser.parse_args().rounds
    if rounds < 1 or WORLD.size < 2:
        raise SystemExit("give --rounds 1 or more, and start 2 ranks or more")
    exchange(LARGE, 5)  # connects, and registers the buffers
    latency, large, reduction = exchange(SMALL, rounds), exchange(LARGE, rounds), reduce_all(rounds)
    if WORLD.rank == 0:
        result = {
            "ranks": WORLD.size,
            "latency_us": round(latency * 1e6, 2),
            "bandwidth_gbit_s": round(LARGE * 8 / large / 1e9, 3),
            "allreduce_us": round(reduction * 1e6, 2),
        }
        sys.stdout.write(f"MPI_RESULT {json.dumps(result)}\n")


if __name__ == "__main__":
    main()
