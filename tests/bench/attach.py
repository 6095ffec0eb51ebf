"""Attach and detach of NICs: against netlink messages alone, and within a call of a runtime."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from dranet_nri.attach.execution.executor import PlanExecutor
from dranet_nri.attach.rdma import RdmaOptions
from dranet_nri.attach.records import AttachmentRecords
from dranet_nri.component.clock import SystemClock
from dranet_nri.kernel.session import NetlinkKernel
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import Allocation, Attachment, NetnsId, Phase
from dranet_nri.model import Pod as SandboxPod
from dranet_nri.state.store import AllocationStore, AttachmentStore
from tests.bench.drivers import drift
from tests.bench.floor import MESSAGES, Side, Wire, transfer
from tests.bench.nics import allocation, make_wires
from tests.bench.table import Row, ms, print_now, spread
from tests.box.cri import Cri
from tests.box.nics import ip
from tests.box.plugin import ALLOCATIONS, Plugin
from tests.box.waiting import wait_until

SPACE: Final = "bench-pod"
SPACE_PATH: Final = f"/run/netns/{SPACE}"
BUDGET: Final = 1.2
ROUNDS: Final = {1: 100, 8: 24}
PODS: Final = {1: 16, 8: 8}
WARM_UP: Final = 2
BEAT_S: Final = 0.02  # longer than a grace period


@dataclass(slots=True)
class Times:
    """Seconds of each round, by way."""

    attach: list[float] = field(default_factory=list)
    detach: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Round:
    """What one call of the executor took, in seconds.

    Attributes:
        whole: from call to return.
        kernel: of it, in messages that the kernel acknowledges.
        own: CPU time of our thread outside of them.
    """

    whole: float
    kernel: float
    own: float


@dataclass(slots=True)
class Measured:
    """What the same rounds took: the executor's calls by way, and the messages alone."""

    attach: list[Round] = field(default_factory=list)
    detach: list[Round] = field(default_factory=list)
    floor: Times = field(default_factory=Times)


def timed(work: Callable[[], object], into: list[float]) -> None:
    """Run work and note the seconds it took."""
    drift(BEAT_S)
    begin = time.perf_counter()
    work()
    into.append(time.perf_counter() - begin)


class Counted:
    """Measures the kernel's part of our work: the messages that it acknowledges."""

    def __init__(self) -> None:
        """Start with none."""
        self._seconds = 0.0
        self._cpu = 0.0

    def run(self, work: Callable[[], object]) -> Round:
        """Run work; what it sends is counted while `counting` lasts."""
        drift(BEAT_S)
        self._seconds = self._cpu = 0.0
        begin, begin_cpu = time.perf_counter(), time.thread_time()
        work()
        whole, cpu = time.perf_counter() - begin, time.thread_time() - begin_cpu
        return Round(whole, self._seconds, cpu - self._cpu)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count while this lasts."""
        plain = RtnetlinkSocket.do

        def do(netlink: RtnetlinkSocket, what: str, kind: int, flags: int, body: bytes) -> None:
            begin, begin_cpu = time.perf_counter(), time.thread_time()
            try:
                plain(netlink, what, kind, flags, body)
            finally:
                self._seconds += time.perf_counter() - begin
                self._cpu += time.thread_time() - begin_cpu

        RtnetlinkSocket.do = do  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            RtnetlinkSocket.do = plain  # type: ignore[method-assign]


@dataclass(slots=True)
class Subject:
    """The real executor, a pod, and a claim.

    Attributes:
        record: what the last call returned.
    """

    executor: PlanExecutor
    netns: NetnsId
    claim: Allocation
    record: Attachment | None = None

    def attach(self) -> None:
        """Bring the claim's NICs in."""
        pod = SandboxPod("bench-sandbox", self.claim.pod.uid, "default", "bench", SPACE_PATH)
        (self.record,) = self.executor.attach(pod, self.netns, (self.claim,), {})

    def detach(self) -> None:
        """Restore them."""
        assert self.record is not None
        self.record = self.executor.detach(self.record, netns_exists=True)
        assert self.record.phase is Phase.RESTORED


@contextmanager
def executing(claim: Allocation) -> Iterator[Subject]:
    """Return an executor on the kernel's netlink with its records on tmpfs."""
    kernel = NetlinkKernel()
    netns = kernel.identify(SPACE_PATH)
    assert netns is not None
    assert kernel.hold(netns)
    gc.freeze()  # as the daemon does
    attachments = AttachmentRecords(AttachmentStore(Path("/run/bench/attachments")))
    try:
        yield Subject(PlanExecutor(kernel, attachments, SystemClock(), RdmaOptions()), netns, claim)
    finally:
        attachments.close()
        kernel.release(netns)


def interleaved(wires: Sequence[Wire]) -> Measured:
    """Attach and detach the NICs by executor and by messages alone, in turn."""
    measured, counted = Measured(), Counted()
    host, space = Side("/proc/self/ns/net"), Side(SPACE_PATH)
    with executing(allocation(wires)) as subject, counted.counting():
        for number in range(-WARM_UP, ROUNDS[len(wires)]):
            if number == 0:
                measured = Measured()  # The rounds before only warmed things up.
            measured.attach.append(counted.run(subject.attach))
            made = shown() if number < 0 else ""
            measured.detach.append(counted.run(subject.detach))
            timed(partial(transfer, host, space, wires), measured.floor.attach)
            assert number >= 0 or made == shown(), "the two made different things"
            timed(partial(transfer, space, host, wires), measured.floor.detach)
    host.close()
    space.close()
    return measured


def shown() -> str:
    """Return what the pod has."""
    return "".join(
        ip("-n", SPACE, *words)
        for words in (
            ("-o", "addr", "show", "scope", "global"),
            ("-4", "route"),
            ("-6", "route", "show", "root", "fd00::/16"),
        )
    )


def in_process(rows: list[Row], notes: list[str], wires: Sequence[Wire]) -> dict[int, Times]:
    """Add rows for each count and way; return the times of the messages alone by count."""
    ip("netns", "add", SPACE)
    floors = {}
    for count in ROUNDS:
        print_now(f"attach: {ROUNDS[count]} rounds of {count} NICs: executor and messages alone")
        measured = interleaved(wires[:count])
        floors[count] = measured.floor
        for way, rounds, floor in (
            ("attach", measured.attach, measured.floor.attach),
            ("detach", measured.detach, measured.floor.detach),
        ):
            what = f"{way} {count} NIC"
            rows += compared(what, rounds, floor)
            notes.append(
                f"{what}, middle half: executor {spread([sample.whole for sample in rounds])},"
                f" messages {spread(floor)}"
            )
    ip("netns", "del", SPACE)
    notes.append(
        f"messages alone: the {MESSAGES} that a NIC takes (down, move, two addresses, up, route),"
        " sockets open, numbers known. Nearly all of it is the move: the kernel waits for RCU"
        " grace periods, so equal work varies by several milliseconds"
    )
    notes.append(
        "our CPU time: of our thread, outside of the messages that the kernel acknowledges,"
        " look-ups and records included; what other processes take from a busy machine is not in it"
    )
    return floors


def compared(what: str, rounds: Sequence[Round], floor: Sequence[float]) -> tuple[Row, Row]:
    """Compare the executor with the messages alone, and with the kernel's part of its time."""
    median = statistics.median
    executor_median, floor_median = median(sample.whole for sample in rounds), median(floor)
    own, kernel = (
        median(sample.own for sample in rounds),
        median(sample.kernel for sample in rounds),
    )
    budget = f"≤ {BUDGET:.2f}"
    ratio = (own + kernel) / kernel
    return (
        Row(
            f"{what}, executor and records",
            ms(executor_median),
            f"{ms(floor_median)} messages alone",
            executor_median / floor_median,
            budget,
            executor_median / floor_median <= BUDGET,
        ),
        Row(
            f"{what}, our CPU time on top of the kernel's part",
            f"+{ms(own)}",
            f"{ms(kernel)} in acknowledged messages",
            ratio,
            budget,
            ratio <= BUDGET,
        ),
    )


def end_to_end(rows: list[Row], cri: Cri, wires: Sequence[Wire], floors: dict[int, Times]) -> None:
    """Add what a claim adds to a runtime's RunPodSandbox and StopPodSandbox.

    The shim's records are written here: what the shim takes is not part of the hook.
    """
    store = AllocationStore(ALLOCATIONS)
    for count in PODS:
        print_now(f"attach: {PODS[count]} pods with {count} NICs and as many without, in turn")
        claimed, plain = Times(), Times()
        for number in range(PODS[count]):
            one_pod(cri, f"plain{count}-{number}", plain)
            claim = allocation(wires[:count], f"claimed{count}-{number}")
            store.put(claim)
            one_pod(cri, claim.pod.name, claimed)
            store.remove(claim.claim.uid)
            wait_until("the NICs to be restored", lambda: wires[-1].name in ip("-o", "link"))
        for call, attached, base, floor_median in (
            ("RunPodSandbox", claimed.attach, plain.attach, floors[count].attach),
            ("StopPodSandbox", claimed.detach, plain.detach, floors[count].detach),
        ):
            executor_median, without = statistics.median(attached), statistics.median(base)
            rows.append(
                Row(
                    f"{call}, {count} NIC claim, against no claim",
                    f"{ms(executor_median)} (+{ms(executor_median - without)})",
                    f"{ms(without)} + {ms(statistics.median(floor_median))} floor",
                    executor_median / (without + statistics.median(floor_median)),
                )
            )


def one_pod(cri: Cri, name: str, times: Times) -> None:
    """Start and end a sandbox."""
    begin = time.perf_counter()
    pod = cri.run_pod(name)
    times.attach.append(time.perf_counter() - begin)
    timed(lambda: cri.stop_pod(pod.sandbox_id), times.detach)
    cri.remove_pod(pod.sandbox_id)


def run(rows: list[Row], notes: list[str], cri: Cri) -> None:
    """Measure everything about attach."""
    wires = make_wires(max(ROUNDS), "nic")
    floors = in_process(rows, notes, wires)
    plugin = Plugin()
    plugin.start()
    try:
        one_pod(cri, "first", Times())
        end_to_end(rows, cri, wires, floors)
    finally:
        plugin.stop()
