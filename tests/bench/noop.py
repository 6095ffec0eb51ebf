"""Benchmark of pods without claims: time in a hook, and the runtime with and without the plugin."""

import asyncio
import gc
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from dranet_nri._gen import nri_pb2
from dranet_nri.attach.allocations import PodAllocations
from dranet_nri.attach.controller import AttachController
from dranet_nri.attach.execution.executor import PlanExecutor
from dranet_nri.attach.rdma import RdmaOptions
from dranet_nri.attach.reconciler import Reconciler
from dranet_nri.attach.records import AttachmentRecords
from dranet_nri.cdi.edits import EditOptions
from dranet_nri.cdi.gate import Gate
from dranet_nri.component.clock import SystemClock
from dranet_nri.component.files import FileSystem
from dranet_nri.component.log import logger
from dranet_nri.facts.host import boot_id
from dranet_nri.hooks.handler import HookHandler
from dranet_nri.kernel.session import NetlinkKernel
from dranet_nri.model import Attachment, Container, NetnsId, ObjectRef, Phase, Pod
from dranet_nri.nri.stub import Outcome
from dranet_nri.nri.stub.dispatcher import Dispatcher
from dranet_nri.nri.stub.transport import Transport
from dranet_nri.nri.wire.messages import PodEventKind
from dranet_nri.nri.wire.session import ContainerEvent, PluginSession, PodEvent, SessionEvent
from dranet_nri.state.reader import AllocationReader
from dranet_nri.state.store import AllocationStore, AttachmentStore
from tests.bench.nics import allocation, make_wires
from tests.bench.table import Row, ms, percentile, print_now, spread
from tests.box.cri import Cri
from tests.box.plugin import ALLOCATIONS
from tests.box.plugin import Plugin as PluginProcess
from tests.fakes.runtime import FakeRuntime, pod_message

EVENTS: Final = 1000
PASSES: Final = 5
BUDGET_S: Final = 0.0003
ROUNDS: Final = 12
PODS_A_BLOCK: Final = 3


class UnsubscribedHandler(HookHandler):
    """The wire alone: every hook is answered on the spot, nothing is looked up."""

    def is_unclaimed(self, pod: Pod, container: Container | None = None) -> bool:
        """Say so without a look."""
        return True


@dataclass(frozen=True, slots=True)
class Case:
    """Which hooks answer, and on which node.

    Attributes:
        other: whether another pod of the node has its claim.
    """

    kind: type[HookHandler]
    other: bool

    @property
    def node(self) -> str:
        """Return what the table says of it."""
        return "beside a claimed pod" if self.other else "no claim on the node"


CASES: Final = (
    Case(UnsubscribedHandler, other=False),
    Case(HookHandler, other=False),
    Case(HookHandler, other=True),
)


class Stopped(asyncio.Transport):
    """A transport that notes when an answer has been handed to the kernel."""

    def __init__(self, inner: asyncio.Transport) -> None:
        """Write to inner."""
        super().__init__()
        self._inner = inner
        self.written_s = 0.0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write, then stop the watch."""
        self._inner.write(data)
        self.written_s = time.thread_time()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Pass it on."""
        self._inner.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Pass it on."""
        return self._inner.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Pass it on."""
        return self._inner.is_closing()

    def abort(self) -> None:
        """Pass it on."""
        self._inner.abort()


class Stopwatch(asyncio.Protocol):
    """A link on a real socket, timed from the bytes of a call to those of its answer.

    Attributes:
        started_s: CPU time of the thread when the last bytes came.
        transport: what the link writes to.
    """

    def __init__(self, link: Transport) -> None:
        """Watch link."""
        self._link = link
        self.started_s = 0.0
        self.transport: Stopped | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Put the watch between link and socket."""
        self.transport = Stopped(cast("asyncio.Transport", transport))
        self._link.connection_made(self.transport)

    def data_received(self, data: bytes) -> None:
        """Start the watch."""
        self.started_s = time.thread_time()
        self._link.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on."""
        self._link.connection_lost(exc)


@contextmanager
def plugin(kind: type[HookHandler], *, other: bool) -> Iterator[HookHandler]:
    """Return the hooks on this node's kernel and tmpfs, with another pod's claim or without."""
    root = Path(tempfile.mkdtemp(dir="/run"))  # a tmpfs of the box, gone with it
    kernel = NetlinkKernel()
    attachments = AttachmentRecords(AttachmentStore(root / "attachments"))
    (root / "allocations").mkdir()
    allocations = AllocationReader(root / "allocations", owner=None)
    if other:
        attachments.put(someone())
    attacher = AttachController(
        kernel=kernel,
        executor=PlanExecutor(kernel, attachments, SystemClock(), RdmaOptions()),
        attachments=attachments,
        gate=Gate(FileSystem(), root / "cdi", root / "metadata"),
        options=EditOptions(),
        log=logger("bench"),
        wake=lambda: None,
        clock=SystemClock(),
        allocation=allocations.get,
    )
    gc.freeze()  # as the daemon does
    try:
        log = logger("bench")
        of_pods = PodAllocations(allocations, kernel, log, lambda: None, lambda: None, boot_id())
        yield kind(attacher, of_pods, Reconciler(attacher, of_pods, log), log)
    finally:
        allocations.close()
        attachments.close()


def someone() -> Attachment:
    """Return the record of another pod that has its claim."""
    return Attachment(
        claim=ObjectRef("default", "other", "other-claim-uid"),
        pod=ObjectRef("default", "other", "other-uid"),
        sandbox_id="other-sandbox",
        netns=NetnsId("/run/netns/other", 4, 4026531999),
        phase=Phase.ATTACHED,
        devices=(),
    )


def messages() -> tuple[nri_pb2.PodSandbox, nri_pb2.Container]:
    """Return a pod and a container as large as containerd describes ordinary ones."""
    pod = pod_message("box", netns="/var/run/netns/cni-5c8bd1b3")
    container = nri_pb2.Container(id="c" * 64, pod_sandbox_id="box", name="main")
    for number in range(8):
        pod.labels[f"app.kubernetes.io/label-{number}"] = "value" * 6
        pod.annotations[f"example.com/annotation-{number}"] = "value" * 12
        container.mounts.add(
            source=f"/var/lib/kubelet/pods/uid/volumes/{number}",
            destination=f"/mnt/{number}",
            type="bind",
            options=["rbind", "ro"],
        )
    container.env.extend(f"SERVICE_{number}_HOST=10.0.0.{number}" for number in range(30))
    return pod, container


@dataclass(frozen=True, slots=True)
class Peer:
    """A runtime in memory, and its end of the socket."""

    runtime: FakeRuntime
    end: socket.socket

    async def send(self) -> None:
        """Send what the runtime has to say."""
        if data := self.runtime.data_to_send():
            await asyncio.get_running_loop().sock_sendall(self.end, data)

    async def exchange(self) -> None:
        """Send what the runtime has to say, and let it hear what comes next."""
        await self.send()
        self.runtime.receive(await asyncio.get_running_loop().sock_recv(self.end, 1 << 16))

    async def register(self) -> None:
        """Take the plugin in, up to its first look at the pods."""
        await self.exchange()
        self.runtime.accept()
        await self.send()
        self.runtime.configure()
        await self.exchange()
        self.runtime.synchronize()
        await self.exchange()


async def handling(hooks: HookHandler, hook: str) -> list[float]:
    """Return seconds from a call's bytes to its answer's, for each of EVENTS calls."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    far.setblocking(False)  # noqa: FBT003 - the socket's own signature
    counts = hooks.attacher.metrics.hooks

    def answered(hook: str, _pod: Pod, outcome: Outcome, seconds: float) -> None:
        counts.answered(hook, outcome, seconds)

    shell = Dispatcher(hooks, time.monotonic, asyncio.sleep, lambda _notice: None, answered)

    def deliver(link: Transport, event: SessionEvent, arrival: float) -> None:
        if isinstance(event, PodEvent | ContainerEvent):
            shell.submit(event, link, arrival)

    link = Transport(PluginSession("dra.net", "00"), time.monotonic, deliver)
    watch = Stopwatch(link)
    await loop.create_unix_connection(lambda: watch, sock=near)
    runtime = FakeRuntime()
    peer = Peer(runtime, far)
    await peer.register()
    pod, container = messages()
    seconds = []
    for _ in range(EVENTS):
        if hook == "CreateContainer":
            stream = runtime.create_container(pod, container)
        else:
            stream = runtime.pod_event(PodEventKind.RUN, pod)
        while stream not in runtime.answers:
            await peer.exchange()
        assert watch.transport is not None
        seconds.append(watch.transport.written_s - watch.started_s)
    link.abort("measured")
    await link.lost
    await shell.cancel()
    far.close()
    return seconds[EVENTS // 10 :]


def own_time(rows: list[Row]) -> None:
    """Add our own time in a hook of a pod without claims."""
    print_now(f"noop: {PASSES} times {EVENTS} hooks of pods without claims, on a socket of our own")
    for hook in ("RunPodSandbox", "CreateContainer"):
        passes: dict[Case, list[list[float]]] = {case: [] for case in CASES}
        for _ in range(PASSES):
            for case, taken in passes.items():
                with plugin(case.kind, other=case.other) as hooks:
                    taken.append(asyncio.run(handling(hooks, hook)))
        (least, usual), *others = (quietest(taken) for taken in passes.values())
        for case, (here, median) in zip(CASES[1:], others, strict=True):
            rows.append(
                Row(
                    f"our time in {hook}, {case.node}, p99",
                    f"{ms(here)} (median {ms(median)})",
                    f"{ms(least)} (median {ms(usual)}) wire alone",
                    here / least,
                    f"≤ {ms(BUDGET_S)}",
                    here <= BUDGET_S,
                )
            )


def quietest(passes: list[list[float]]) -> tuple[float, float]:
    """Return p99 and median of the pass that other processes disturbed least."""
    return min((percentile(seconds, 0.99), statistics.median(seconds)) for seconds in passes)


def pods(cri: Cri, label: str) -> float:
    """Return seconds of RunPodSandbox and CreateContainer, the median of some pods."""
    seconds = []
    for number in range(PODS_A_BLOCK):
        begin = time.perf_counter()
        pod = cri.run_pod(f"{label}-{number}")
        container = cri.create_container(pod)
        seconds.append(time.perf_counter() - begin)
        cri.remove_container(container)
        cri.stop_pod(pod.sandbox_id)
        cri.remove_pod(pod.sandbox_id)
    return statistics.median(seconds)


def whole_pods(rows: list[Row], notes: list[str], cri: Cri) -> None:
    """Add what the plugin adds to the runtime's two calls, without claims and beside one."""
    alone: list[float] = []
    added: dict[str, list[float]] = {"no claim on the node": [], "beside a claimed pod": []}
    claim = allocation(make_wires(1, "spare"), "holder")
    process = PluginProcess()
    print_now(f"noop: {ROUNDS} rounds of pods without plugin, with it, and beside a claimed pod")
    for number in range(ROUNDS):
        alone.append(pods(cri, f"without{number}"))
        process.start()
        added["no claim on the node"].append(pods(cri, f"with{number}") - alone[-1])
        with AllocationStore(ALLOCATIONS) as store:
            store.put(claim)
            holder = cri.run_pod(claim.pod.name)
            added["beside a claimed pod"].append(pods(cri, f"beside{number}") - alone[-1])
            cri.stop_pod(holder.sandbox_id)
            cri.remove_pod(holder.sandbox_id)
            store.remove(claim.claim.uid)
        process.stop()
    base = statistics.median(alone)
    for node, differences in added.items():
        more = statistics.median(differences)
        what = f"RunPodSandbox + CreateContainer, {node}"
        rows.append(
            Row(what, f"{more * 1e3:+.2f} ms", f"{ms(base)} without plugin", (base + more) / base)
        )
        notes.append(f"{what}: middle half of the rounds' differences {spread(differences)}")


def run(rows: list[Row], notes: list[str], cri: Cri) -> None:
    """Measure everything about pods without claims."""
    own_time(rows)
    notes.append(
        "our time: of the thread's CPU, from a call's bytes off the socket to its answer's on it,"
        f" in the quietest of {PASSES} passes; the baseline answers without looking anybody up"
    )
    whole_pods(rows, notes, cri)
