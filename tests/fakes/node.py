"""A node in memory: the real plugin, attacher, executor, gate and stores on a FakeKernel."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from errno import ENOSPC
from pathlib import Path
from typing import TypeVar

import structlog

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
from dranet_nri.hooks.handler import HookHandler
from dranet_nri.model import (
    Address,
    AllocatedDevice,
    Allocation,
    Attachment,
    Container,
    ContainerClaim,
    Device,
    DeviceKey,
    Edits,
    Mount,
    NetnsId,
    NetworkConfig,
    ObjectRef,
    Phase,
    Pod,
)
from dranet_nri.state.reader import AllocationReader
from dranet_nri.state.store import AllocationStore, AttachmentStore
from tests.fakes.kernel import FakeKernel

T = TypeVar("T")

BOOT_ID = "8a1f5b1c-0000-4000-8000-000000000000"
LATER = 1e9  # a deadline nobody meets


@dataclass(slots=True)
class FixedClock(SystemClock):
    """Two clocks that stand still until told."""

    seconds: int = 1000

    def wall(self) -> int:
        """Return Unix seconds."""
        return 1_800_000_000 + self.seconds

    def boot(self) -> int:
        """Return seconds since boot."""
        return self.seconds

    def sleep(self, _: float) -> None:
        """Return at once."""


class FullFs(FileSystem):
    """A file system that may be full.

    Attributes:
        room: how many files still fit; None: as many as you like.
        recovers: whether there is room again after the first file that did not fit.
    """

    room: int | None = None
    recovers: bool = False

    def write(self, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        """See Fs."""
        self._fit(path)
        super().write(path, data, mode, durable=durable)

    def create(self, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        """See Fs."""
        self._fit(path)
        super().create(path, data, mode, durable=durable)

    def _fit(self, path: Path) -> None:
        if self.room == 0:
            self.room = None if self.recovers else 0
            raise OSError(ENOSPC, "No space left on device", str(path))
        self.room = self.room and self.room - 1


class PausedExecutor(PlanExecutor):
    """An executor whose next attach begins only when told."""

    def __init__(self, node: "Node") -> None:
        """Work on the node's kernel and records."""
        super().__init__(node.kernel, node.attachments, node.clock, RdmaOptions())
        self.begun = threading.Event()
        self.go = threading.Event()

    def attach(
        self,
        pod: Pod,
        netns: NetnsId,
        allocations: tuple[Allocation, ...],
        previous: Mapping[str, Attachment],
        is_live: Callable[[], bool] = lambda: True,
    ) -> tuple[Attachment, ...]:
        """Say that it began and wait."""
        self.begun.set()
        assert self.go.wait(30)
        return super().attach(pod, netns, allocations, previous, is_live)


def pci_key(number: int) -> DeviceKey:
    """Return the key of the node's number-th NIC."""
    address = f"0000:{number:02x}:00.0"
    return DeviceKey("pci", address, f"eth{number}", address)


@dataclass
class Node:
    """One node with NICs eth1, eth2, … (10.0.N.5/24 each).

    Attributes:
        disk: where attachment records and the gate's files are written.
        reconcile_requests: requests for a reconcile, "request" or "wake", in order.
    """

    root: Path
    nics: int = 2
    kernel: FakeKernel = field(default_factory=FakeKernel)
    clock: FixedClock = field(default_factory=FixedClock)
    disk: FullFs = field(default_factory=FullFs)
    reconcile_requests: list[str] = field(default_factory=list)
    options: EditOptions = field(default_factory=EditOptions)

    def __post_init__(self) -> None:
        """Put the NICs into the host's namespace and start the plugin."""
        for number in range(1, self.nics + 1):
            self.kernel.add_link(
                f"eth{number}",
                parent=f"0000:{number:02x}:00.0",
                addresses=(Address(f"10.0.{number}.5/24"),),
            )
        self.allocations = AllocationStore(self.root / "allocations")
        self.start()

    def start(self) -> None:
        """Start a fresh plugin from what is on disk, as after a restart."""
        records = AttachmentStore(self.root / "run" / "attachments", fs=self.disk)
        self.attachments = AttachmentRecords(records)
        self.gate = Gate(self.disk, self.root / "cdi", self.root / "run" / "metadata")
        log: structlog.typing.FilteringBoundLogger = logger("test")
        reader = AllocationReader(self.root / "allocations", owner=None)
        attacher = AttachController(
            kernel=self.kernel,
            executor=PlanExecutor(self.kernel, self.attachments, self.clock, RdmaOptions()),
            attachments=self.attachments,
            gate=self.gate,
            options=self.options,
            log=log,
            wake=lambda: self.reconcile_requests.append("wake"),
            clock=self.clock,
            allocation=reader.get,
        )
        allocations = PodAllocations(
            *(reader, self.kernel, log),
            *(
                lambda: self.reconcile_requests.append("request"),
                lambda: self.reconcile_requests.append("wake"),
            ),
            BOOT_ID,
        )
        reconciler = Reconciler(attacher, allocations, log)
        self.plugin = HookHandler(attacher, allocations, reconciler, log)
        self.plugin.may_reject = True
        reconciler.turn_s = LATER  # in turn, however busy the machine

    def stop(self) -> None:
        """End the plugin, however abruptly: nothing is written."""
        self.plugin.allocations.reader.close()
        self.attachments.close()

    def close(self) -> None:
        """End everything."""
        self.stop()
        self.allocations.close()

    def restart(self) -> None:
        """End the plugin and start it again. What it held in memory is gone."""
        self.stop()
        for netns in tuple(self.kernel.held):
            self.kernel.release(netns)
        self.start()

    def pod(self, name: str, sandbox: str = "", *, uid: str = "") -> Pod:
        """Return a sandbox with a network namespace of its own."""
        sandbox = sandbox or f"sandbox-{name}"
        path = f"/run/netns/{sandbox}"
        if self.kernel.identify(path) is None:
            self.kernel.add_netns(path)
        return Pod(sandbox, uid or f"uid-{name}", "default", name, path)

    def netns(self, pod: Pod) -> NetnsId:
        """Return the pod's namespace, which must exist."""
        netns = self.kernel.identify(pod.netns_path)
        assert netns is not None
        return netns

    def allocate(
        self,
        pod: Pod,
        *numbers: int,
        claim: str = "nics",
        containers: tuple[ContainerClaim, ...] = (),
        config: NetworkConfig | None = None,
        rdma: bool = False,
    ) -> Allocation:
        """Record that the pod's claim has these NICs, as the shim would."""
        allocation = Allocation(
            claim=ObjectRef("default", claim, f"claim-{claim}"),
            pod=ObjectRef(pod.namespace, pod.name, pod.uid),
            devices=tuple(
                AllocatedDevice(
                    f"nic{number}",
                    "node",
                    Device(
                        f"pci-0000-{number:02x}-00-0",
                        pci_key(number),
                        (("dra.net/ifName", f"eth{number}"),),
                        (f"mlx5_{number}",) if rdma else (),
                    ),
                    config or NetworkConfig(),
                )
                for number in numbers
            ),
            nonce="c0ffee",
            boot_id=BOOT_ID,
            containers=containers,
        )
        self.allocations.put(allocation)
        for number in numbers if rdma else ():
            self.kernel.add_rdma(f"mlx5_{number}", parent=pci_key(number).parent)
        return allocation

    def pause(self) -> PausedExecutor:
        """Let the next attach wait until it is told to go on."""
        paused = PausedExecutor(self)
        self.plugin.attacher.executor = paused
        return paused

    def run(self, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """Run one coroutine of the plugin to its end."""
        return asyncio.run(work())

    # ------------------------------------------------------------------ hooks and what they did

    def run_pod(self, pod: Pod) -> None:
        """Do RunPodSandbox."""
        self.run(lambda: self.plugin.run_pod_sandbox(pod, LATER))

    def stop_pod(self, pod: Pod) -> None:
        """Do StopPodSandbox."""
        self.run(lambda: self.plugin.stop_pod_sandbox(pod))

    def create(self, pod: Pod, *mounts: Mount, name: str = "app") -> Edits:
        """Do CreateContainer."""
        container = Container("c", pod.sandbox_id, name, mounts=mounts)
        return self.run(lambda: self.plugin.create_container(pod, container, LATER))

    def synchronize(self, *pods: Pod, rounds: int = 1) -> None:
        """Do Synchronize and what follows it."""

        async def work() -> None:
            await self.plugin.synchronize(pods)
            for _ in range(rounds):
                await self.plugin.reconcile()

        self.run(work)

    def reconcile(self) -> bool:
        """Do one round of repair; return whether something is left."""
        return self.run(self.plugin.reconcile)

    def phase(self, claim: Allocation) -> Phase | None:
        """Return the recorded phase of the claim."""
        record = self.attachments.get(claim.claim.uid)
        return record.phase if record else None

    def gate_open(self, claim: Allocation) -> bool:
        """Whether the claim's CDI spec exists."""
        return self.gate.spec_path(claim.claim.uid).exists()

    def is_on_host(self, number: int) -> bool:
        """Whether the NIC is on the host as it was."""
        state = self.kernel.state(f"eth{number}")
        return (
            state is not None
            and state.link.up
            and [address.cidr for address in state.addresses] == [f"10.0.{number}.5/24"]
        )

    def in_pod(self, number: int, pod: Pod) -> bool:
        """Whether the NIC is in the sandbox."""
        return self.kernel.state(f"eth{number}", self.netns(pod)) is not None
