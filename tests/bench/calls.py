"""Benchmark of the kubelet's calls in the shim, against the means that they need.

dra-shim and the three kinds of means.py serve the same claims in turn, on one node. Where the
peer's program is given, it is called in turn as well: its ratio to the means is what a shim in
Python could reach without any work of its own.
"""

import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import grpc

from tests.bench.drivers import PEER, Driver, drift, kubelet_call, own_driver, peer, process_cpu
from tests.bench.hooks import create_pod, delete_pod
from tests.bench.table import Row, ms, print_now, spread
from tests.box.waiting import wait_until

ROUNDS: Final = 60
WARM_UP: Final = 3
PAUSE_S: Final = 0.2  # the longest; calls without pauses reach the peer's limit of API requests
CALLS: Final = ("Prepare", "Unprepare")
OWN: Final = "dra-shim"
KINDS: Final = {
    "shim": "gRPC, GETs and files alone",
    "aio": "gRPC with asyncio alone",
    "threads": "gRPC with threads alone",
}


@dataclass(frozen=True, slots=True)
class Server:
    """A process that answers the kubelet's calls.

    Attributes:
        node: whose API server has the claims.
        call: makes a call for a claim, and returns its seconds.
        cpu: returns the seconds of CPU so far.
    """

    node: Driver
    call: Callable[[str, Mapping[str, str]], float]
    cpu: Callable[[], float]


class Means:
    """A process of means.py on a node."""

    def __init__(self, node: Driver, kind: str) -> None:
        """Spawn it and connect."""
        path = node.root / f"means-{kind}.sock"
        module = (sys.executable, "-m", "tests.bench.means", path, kind)
        self._process = subprocess.Popen(
            ("ip", "netns", "exec", node.host, *module), stdin=subprocess.PIPE
        )
        wait_until(f"the means of kind {kind}", path.exists)
        self._channel = grpc.insecure_channel(f"unix:{os.fspath(path)}")
        cpu = partial(process_cpu, self._process.pid)
        self.server = Server(node, partial(kubelet_call, self._channel), cpu)

    def close(self) -> None:
        """End it."""
        self._channel.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def one_round(server: Server, identity: str) -> dict[str, float]:
    """Return the seconds of each call for a new claim, and the CPU time of the process."""
    claim, _ = create_pod(server.node, identity, (0,))
    taken: dict[str, float] = {}
    for verb in CALLS:
        drift(PAUSE_S)
        begin_cpu = server.cpu()
        taken[verb] = server.call(verb, claim)
        taken[f"{verb}, CPU"] = server.cpu() - begin_cpu
    delete_pod(server.node, identity)
    return taken


def rounds(servers: Mapping[str, Server]) -> dict[str, dict[str, list[float]]]:
    """Return server → what → seconds of each round."""
    taken: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in servers}
    identities = itertools.count()
    for number in range(-WARM_UP, ROUNDS):
        for name in random.sample([*servers], len(servers)):
            for what, seconds in one_round(servers[name], f"call-{next(identities)}").items():
                taken[name][what] += [seconds] if number >= 0 else []
    return taken


def row(what: str, own: Sequence[float], other: Sequence[float], name: str) -> Row:
    """Return the row of two servers, with the median of the ratios of pairs."""
    ratio = statistics.median(here / there for here, there in zip(own, other, strict=True))
    shown = f"{ms(statistics.median(other))} {name}"
    return Row(what, ms(statistics.median(own)), shown, ratio)


def run(rows: list[Row], notes: list[str]) -> None:
    """Measure the calls of one claim with one NIC."""
    nodes = {OWN: own_driver(1, "calls")}
    if shutil.which(PEER):
        nodes[PEER] = peer(1, "calls-peer")
    print_now(f"calls: {ROUNDS} claims for each of {', '.join((*nodes, *KINDS))}")
    servers: dict[str, Server] = {}
    for name, node in nodes.items():
        node.build()
        node.start()
        node.device("nic0")
        cpu = partial(node.cpu_of, OWN) if name == OWN else node.cpu
        servers[name] = Server(node, node.kubelet, cpu)
    means = {kind: Means(nodes[OWN], kind) for kind in KINDS}
    servers |= {kind: process.server for kind, process in means.items()}
    taken = rounds(servers)
    for process in means.values():
        process.close()
    for node in nodes.values():
        node.close()
    for what in taken[OWN]:
        others = {"shim": "means"} | ({PEER: "peer"} if PEER in taken else {})
        for name, title in others.items():
            rows.append(row(f"{what} of the shim", taken[OWN][what], taken[name][what], title))
        for kind, title in KINDS.items():
            if PEER in taken:
                rows.append(row(f"{what}, {title}", taken[kind][what], taken[PEER][what], "peer"))
            else:
                rows.append(Row(f"{what}, {title}", ms(statistics.median(taken[kind][what]))))
        halves = (f"{name} {spread(values[what])}" for name, values in taken.items())
        notes.append(f"calls: {what}, middle half: {', '.join(halves)}")
    notes.extend(staged())


def staged() -> Iterator[str]:
    """Yield the median of each stage of a call, from a shim with timers."""
    file = Path("/tmp/bench-stages")
    node = own_driver(1, "stages", (sys.executable, "-m", "tests.bench.stages", os.fspath(file)))
    node.build()
    node.start()
    node.device("nic0")
    server = Server(node, node.kubelet, node.cpu)
    called = [one_round(server, f"stage-{number}") for number in range(ROUNDS)]
    node.close()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for verb in CALLS:
        taken = [line["stages"] for line in lines if line["call"] == verb.lower()]
        pairs = zip(called, taken, strict=True)
        medians = {
            "gRPC on both sides": statistics.median(
                call[verb] - sum(stages.values()) for call, stages in pairs
            )
        }
        for stage in taken[0]:
            medians[stage] = statistics.median(stages[stage] for stages in taken)
        shown = ", ".join(f"{stage} {ms(seconds)}" for stage, seconds in medians.items())
        yield f"calls: stages of {verb}, medians: {shown}"
