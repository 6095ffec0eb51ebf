"""Many repairs hung in the kernel: progress of the others, and delays."""

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from dranet_nri.attach.reconciler import HANG_WAIT_S, TURN_S
from dranet_nri.attach.repairs import Repair, RepairRunner, RepairSubject
from dranet_nri.component.log import logger
from dranet_nri.errors import OwnedError
from dranet_nri.model import NetnsId, Phase, Pod
from dranet_nri.state.heartbeat import ROUND_S
from tests.fakes.kernel import FakeKernel
from tests.fakes.node import LATER, Node
from tests.fakes.session import FakeSession

pytestmark = pytest.mark.process


T = TypeVar("T")

HANGING = 5
SOON_S = 30.0  # for what nothing keeps from being done


class BlockingKernel(FakeKernel):
    """A kernel whose sessions in given namespaces block until released."""

    def __init__(self) -> None:
        """Begin without any."""
        super().__init__()
        self.blocked: set[NetnsId | None] = set()  # None: the host's
        self.entered: list[NetnsId | None] = []
        self.go = threading.Event()

    def session(self, netns: NetnsId | None) -> FakeSession:
        """Open one, as soon as that goes."""
        if netns in self.blocked:
            self.entered.append(netns)
            assert self.go.wait(SOON_S)
        return super().session(netns)


@pytest.fixture
def kernel() -> BlockingKernel:
    """Return the kernel of the node."""
    return BlockingKernel()


@pytest.fixture
def node(tmp_path: Path, kernel: BlockingKernel) -> Iterator[Node]:
    """Return a node with a NIC for each that hangs, and one more."""
    made = Node(tmp_path, nics=HANGING + 1, kernel=kernel)
    yield made
    made.close()


def hung_pods(node: Node, kernel: BlockingKernel) -> tuple[Pod, ...]:
    """Return pods with a NIC each, whose namespaces block every session."""
    pods = tuple(node.pod(f"stuck{number}") for number in range(1, HANGING + 1))
    for number, pod in enumerate(pods, 1):
        node.allocate(pod, number, claim=f"c{number}")
        node.run_pod(pod)
    kernel.blocked = {node.netns(pod) for pod in pods}
    return pods


async def until(true: Callable[[], bool]) -> None:
    """Return as soon as the condition holds."""
    async with asyncio.timeout(SOON_S):
        while not true():  # noqa: ASYNC110 (of threads)
            await asyncio.sleep(0)


def test_pod_is_attached_while_all_earlier_repairs_hang(node: Node, kernel: BlockingKernel) -> None:
    pods, late = hung_pods(node, kernel), node.pod("late")
    node.allocate(late, HANGING + 1, claim="late")
    node.plugin.reconciler.hang_wait_s, node.plugin.reconciler.turn_s = LATER, 0

    async def scenario() -> bool:
        await node.plugin.synchronize((*pods, late))
        rounds = asyncio.create_task(node.plugin.reconcile())
        await until(lambda: node.in_pod(HANGING + 1, late))
        await until(lambda: len(kernel.entered) >= HANGING)
        assert sorted(kernel.entered, key=str) == sorted(kernel.blocked, key=str)
        assert not rounds.done()
        kernel.go.set()
        return await rounds

    assert not node.run(scenario), "all that hung came back within the patience"


def test_hung_repair_is_started_once_over_several_passes(
    node: Node, kernel: BlockingKernel
) -> None:
    pods = hung_pods(node, kernel)
    node.plugin.reconciler.hang_wait_s = 0

    async def scenario() -> None:
        await node.plugin.synchronize(pods)
        for _ in range(5):
            assert await node.plugin.reconcile(), "all repairs are pending"
        await until(lambda: len(kernel.entered) >= HANGING)
        assert sorted(kernel.entered, key=str) == sorted(kernel.blocked, key=str)
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert sum("repair failed" in name for name in names) == HANGING
        kernel.go.set()
        node.plugin.reconciler.hang_wait_s = LATER
        while await node.plugin.reconcile():  # noqa: ASYNC110 (of threads)
            await asyncio.sleep(0)

    node.run(scenario)


def test_hung_detach_of_one_claim_does_not_delay_the_other_claim_of_the_pod(tmp_path: Path) -> None:
    kernel = BlockingKernel()
    node = Node(tmp_path, kernel=kernel)
    pod = node.pod("web")
    first = node.allocate(pod, 1, claim="a")
    second = node.allocate(pod, 2, claim="b")
    node.run_pod(pod)
    kernel.blocked = {node.netns(pod)}
    node.plugin.reconciler.hang_wait_s, node.plugin.reconciler.turn_s = LATER, 0

    async def scenario() -> None:
        stop = asyncio.create_task(node.plugin.stop_pod_sandbox(pod))
        await until(lambda: len(kernel.entered) == 2)
        kernel.go.set()
        await stop

    node.run(scenario)

    assert (node.phase(first), node.phase(second)) == (Phase.RESTORED, Phase.RESTORED)
    node.close()


def test_hung_device_delays_only_its_own_pods(
    node: Node, kernel: BlockingKernel, capsys: pytest.CaptureFixture[str]
) -> None:
    """One pod waits for a device that the kernel keeps, and has another one allocated beside it."""
    hung_pod, waiting, free = (node.pod(name) for name in ("stuck", "waiting", "free"))
    node.allocate(hung_pod, 2, claim="stuck")
    node.run_pod(hung_pod)
    kernel.blocked = {node.netns(hung_pod)}
    node.plugin.reconciler.hang_wait_s, node.plugin.attacher.hang_timeout_s = LATER, 0

    async def scenario() -> None:
        stop = asyncio.create_task(node.plugin.stop_pod_sandbox(hung_pod))
        await until(lambda: bool(kernel.entered))
        node.allocate(waiting, 1, claim="one")
        node.allocate(waiting, 2, claim="two")
        attach = asyncio.create_task(node.plugin.run_pod_sandbox(waiting, LATER))
        output = ""
        async with asyncio.timeout(SOON_S):
            while "waiting for a device" not in output:
                await asyncio.sleep(0)
                output += capsys.readouterr().out
        assert "reason='pci-0000-02-00-0: another job works on it" in output
        assert not attach.done()
        node.allocations.remove("claim-one")
        node.allocate(free, 1, claim="free")
        await asyncio.wait_for(node.plugin.run_pod_sandbox(free, LATER), SOON_S)
        assert node.in_pod(1, free)
        kernel.go.set()
        await stop
        with pytest.raises(OwnedError, match=r"pci-0000-01-00-0 .* owned by pod default/free"):
            await attach
        assert node.in_pod(1, free)

    node.run(scenario)


def test_hung_orphan_scan_is_reported(node: Node, kernel: BlockingKernel) -> None:
    attacher = node.plugin.attacher
    work = attacher.metrics.work
    attacher.watchdog = replace(attacher.watchdog, hang_timeout_s=0.5)
    kernel.blocked, node.plugin.reconciler.hang_wait_s = {None}, 0

    async def scenario() -> list[str]:
        assert await node.plugin.reconcile()
        await until(lambda: bool(work.hung))
        reported = [hung.step for hung in work.hung.values()]
        kernel.go.set()
        await until(lambda: not work.hung)
        return reported

    (step,) = node.run(scenario)
    assert step.startswith("find links of pods that ended (thread ")


# --------------------------------------------------------------------------- by the clock


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes when there is nothing else to do."""

    def __init__(self) -> None:
        """Begin at 0."""
        self.now_s = 0.0
        super().__init__(_SimulatedSelector(self))

    def time(self) -> float:
        """Return seconds."""
        return self.now_s


class _SimulatedSelector(selectors.SelectSelector):
    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing will ever happen"
            self._loop.now_s += timeout
        return ready


def run_simulated(work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a coroutine to its end on a simulated clock."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(work())


async def hang() -> None:
    """Block for ever."""
    await asyncio.Future()


@pytest.mark.parametrize(
    ("hanging", "begun_s"), [(0, 0.0), (8, 8 * TURN_S), (61, HANG_WAIT_S), (1000, HANG_WAIT_S)]
)
def test_hung_repairs_delay_a_pass_by_one_timeout(hanging: int, begun_s: float) -> None:
    repairs = RepairRunner(logger("test"))
    begun: list[float] = []

    async def healthy() -> None:
        begun.append(asyncio.get_running_loop().time())

    def differences() -> Iterator[Repair]:
        for number in range(hanging):
            yield Repair("hangs", RepairSubject("x", str(number)), hang)
        yield Repair("is well", RepairSubject("y", "y"), healthy)

    async def scenario() -> tuple[bool, float, bool, float]:
        run = partial(repairs.run, hang_wait_s=HANG_WAIT_S, turn_s=TURN_S)
        loop = asyncio.get_running_loop()
        first = await run(differences()), loop.time()
        return *first, await run(differences()), loop.time()

    first, first_s, second, second_s = run_simulated(scenario)

    assert begun == pytest.approx([begun_s, first_s])
    assert (first, second) == (hanging == 0, hanging == 0)
    assert first_s == second_s == pytest.approx(HANG_WAIT_S if hanging else 0.0)
    assert first_s < ROUND_S


def test_slow_repair_is_awaited_and_does_not_delay_the_next_one() -> None:
    repairs = RepairRunner(logger("test"))
    order: list[str] = []

    async def lasting(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        order.append(name)

    async def scenario() -> bool:
        work = (("slow", HANG_WAIT_S / 2), ("swift", 0.0))
        return await repairs.run(
            (
                Repair("x", RepairSubject(name, name), partial(lasting, name, seconds))
                for name, seconds in work
            ),
            HANG_WAIT_S,
            TURN_S,
        )

    assert run_simulated(scenario)
    assert order == ["swift", "slow"]
