"""Attach and detach of whole pods: every failure, every crash, and what the record then says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from errno import EBUSY, EIO
from itertools import count

import pytest

from dranet_nri.errors import AttachError, InvalidValueError, KernelError, RefusedError
from dranet_nri.executor import ATTACH_FAILED, DETACH_FAILED, Executor
from dranet_nri.model import (
    Address,
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    CharDevice,
    Device,
    DeviceKey,
    Failure,
    InterfaceConfig,
    Link,
    LinkState,
    NetnsId,
    NetworkConfig,
    ObjectRef,
    Phase,
    Pod,
    Route,
    RouteConfig,
    Sysctl,
)
from dranet_nri.plan.ops import AddAddress, AddRoute, MoveLink
from dranet_nri.state.record import decode_attachment, encode_attachment
from tests.fakes.kernel import FakeKernel

POD = Pod("sandbox-1", "uid-web", "default", "web", "/run/netns/1")
DATA, STORAGE = "claim-data", "claim-storage"


class Crash(BaseException):
    """The process is gone."""


@dataclass
class Journal:
    """Records in memory, through the real encoding.

    Attributes:
        history: each record that was written, in order.
        fails_at: the n-th write from now on fails, 0 none.
        error: what the failing write raises.
        now, times: what to ask at each write, and the answers.
    """

    records: dict[str, Attachment] = field(default_factory=dict)
    history: list[Attachment] = field(default_factory=list)
    fails_at: int = 0
    now: Callable[[], int] = lambda: 0
    times: list[int] = field(default_factory=list)
    error: BaseException = field(default_factory=lambda: OSError(EIO, "injected"))

    def put(self, attachment: Attachment) -> None:
        """Write, or fail."""
        record = decode_attachment(encode_attachment(attachment))
        self.fails_at -= 1
        if self.fails_at == 0:
            raise self.error
        self.records[record.claim.uid] = record
        self.history.append(record)
        self.times.append(self.now())

    def phases(self) -> dict[str, Phase]:
        """Return the phase of each claim."""
        return {uid: record.phase for uid, record in self.records.items()}


@dataclass
class Clock:
    """Stands still until told."""

    now: int = 1000

    def wall(self) -> int:
        return 1_800_000_000 + self.now

    def boot(self) -> int:
        return self.now


def pci(number: int) -> Device:
    """Return the number-th NIC."""
    address = f"0000:{number:02x}:00.0"
    key = DeviceKey("pci", address, f"eth{number}", address)
    return Device(f"nic-{number}", key, rdma_devices=(f"mlx5_{number}",))


VIRTUAL = Device("dummy", DeviceKey("", "", "dummy0"))
RDMA_ONLY = Device(
    "efa", DeviceKey("pci", "0000:09:00.0", "", "0000:09:00.0"), rdma_devices=("mlx5_9",)
)
NAMED = NetworkConfig(InterfaceConfig(name="net1", mtu=9000, hardware_addr="02:00:00:00:00:99"))


def claim(uid: str, *devices: AllocatedDevice) -> Allocation:
    """Return an allocation of our pod."""
    ref = ObjectRef("default", uid.removeprefix("claim-"), uid)
    return Allocation(ref, ObjectRef("default", "web", "uid-web"), devices, "c0ffee", "8a1f5b1c")


def given(device: Device, config: NetworkConfig = NetworkConfig()) -> AllocatedDevice:
    """Return a device as allocated to a request of its own."""
    return AllocatedDevice(device.name, "node", device, config)


CLAIMS = (
    claim(DATA, given(pci(1), NAMED), given(pci(2))),
    claim(STORAGE, given(pci(3)), replace(given(pci(4)), admin_access=True)),
)
EVERYWHERE = ("eth1", "eth2", "eth3", "dummy0")


class Node:
    """A host with four NICs and a dummy, a pod's namespace, and an executor that may die."""

    def __init__(self) -> None:
        self.kernel = FakeKernel()
        self.journal = Journal()
        self.clock = Clock()
        self.kernel.add_link("br0", kind="bridge")
        for number in range(1, 5):
            link = Link(0, f"eth{number}", mac=f"02:00:00:00:00:0{number}", up=True, max_mtu=9000)
            self.kernel.add_link(
                f"eth{number}",
                parent=f"0000:{number:02x}:00.0",
                link=replace(link, altnames=(f"enp{number}", "net1") if number == 1 else ()),
                master="br0" if number == 3 else "",
                addresses=(Address(f"10.0.{number}.5/24"), Address(f"2001:db8:{number}::5/64")),
                routes=(
                    Route(f"10.{number}.0.0/16", gateway=f"10.0.{number}.1"),
                    Route("0.0.0.0/0", gateway=f"10.0.{number}.1", table=100 + number),
                ),
            )
        self.kernel.space().named("arrange", "eth1").sysctls["ipv4", "rp_filter"] = "2"
        self.kernel.add_link("dummy0", kind="dummy", addresses=(Address("10.0.9.5/24"),))
        self.netns = self.add_netns("/run/netns/1")
        self.start = self.host()
        self.restart()

    def add_netns(self, path: str) -> NetnsId:
        netns = self.kernel.add_netns(path)
        self.kernel.add_link("eth0", netns, kind="veth")
        self.kernel.hold(netns)
        return netns

    def restart(self) -> None:
        """Start anew from what the journal holds; whatever was broken works again."""
        self.kernel.heal()
        self.journal.fails_at = 0
        self.executor = Executor(self.kernel, self.journal, self.clock, self.char_devices)

    def char_devices(self, name: str) -> tuple[CharDevice, ...]:
        number = int(name.rpartition("_")[2])
        return (CharDevice(f"/dev/infiniband/uverbs{number}", 231, 192 + number),)

    def attach(self, claims: tuple[Allocation, ...] = CLAIMS) -> tuple[Attachment, ...]:
        previous = dict(self.journal.records)
        return self.executor.attach(POD, self.netns, claims, previous)

    def detach(self, *, netns_alive: bool = True) -> None:
        for record in list(self.journal.records.values()):
            self.executor.detach(record, netns_alive=netns_alive)

    def host(self) -> Mapping[str, LinkState | None]:
        """Return the devices' states on the host, without what a move may change."""
        return {name: comparable(self.kernel.state(name)) for name in EVERYWHERE}

    def assert_home(self) -> None:
        """Check that every device is on the host as it was, and nothing is left behind."""
        assert self.host() == self.start
        assert self.kernel.open_sessions == 0

    def assert_attached(self) -> None:
        """Check that every device is in the pod, configured."""
        assert self.journal.phases() == {DATA: Phase.ATTACHED, STORAGE: Phase.ATTACHED}
        for name, number in (("net1", 1), ("eth2", 2), ("eth3", 3)):
            state = self.kernel.state(name, self.netns)
            assert state is not None
            assert state.link.up
            assert [each.cidr for each in state.addresses] == [
                f"10.0.{number}.5/24",
                f"2001:db8:{number}::5/64",
            ]
            assert len(state.routes) == 2
        assert self.kernel.open_sessions == 0


def comparable(state: LinkState | None) -> LinkState | None:
    """Return the state without indexes and the order of things."""
    if state is None:
        return None
    return replace(
        state,
        link=replace(state.link, index=0, altnames=tuple(sorted(state.link.altnames))),
        addresses=tuple(sorted(state.addresses, key=repr)),
        routes=tuple(sorted(state.routes, key=repr)),
    )


@pytest.fixture
def node() -> Node:
    """Return a fresh node."""
    return Node()


def failure_of(node: Node, uid: str = DATA) -> Failure:
    """Return the recorded failure of the claim."""
    failure = node.journal.records[uid].failure
    assert failure is not None
    return failure


def attached_ops() -> int:
    """Return how many operations an attach without failures takes."""
    node = Node()
    node.attach()
    return len(node.kernel.log)


OPS = attached_ops()

# --------------------------------------------------------------------------- attach


def test_both_claims_are_attached_and_say_where_their_devices_are(node: Node) -> None:
    data, storage = node.attach()

    node.assert_attached()
    assert (data, storage) == (node.journal.records[DATA], node.journal.records[STORAGE])
    assert (data.sandbox_id, data.netns, data.attempt, data.failure) == (
        "sandbox-1",
        node.netns,
        1,
        None,
    )
    first, second = data.devices
    assert (first.pod_name, first.mac, first.mtu) == ("net1", "02:00:00:00:00:99", 9000)
    assert first.addresses == ("10.0.1.5/24", "2001:db8:1::5/64")
    assert first.char_devices == (CharDevice("/dev/infiniband/uverbs1", 231, 193),)
    assert (second.pod_name, second.mac, second.mtu) == ("eth2", "02:00:00:00:00:02", 1500)
    assert [each.device.name for each in storage.devices] == ["nic-3"], "adminAccess moves nothing"


def test_the_snapshot_is_the_hosts_state_with_what_a_move_resets(node: Node) -> None:
    before = node.kernel.state("eth1")

    data, _ = node.attach()

    assert data.devices[0].snapshot == before
    assert before is not None
    assert before.sysctls == (Sysctl("ipv4", "rp_filter", "2"),)
    assert data.devices[0].snapshot_s == 1000


def test_the_record_says_intent_before_the_first_operation_and_the_result_after_the_last(
    node: Node,
) -> None:
    node.journal.now = lambda: len(node.kernel.log)

    node.attach()

    assert list(
        zip(node.journal.times, (each.phase for each in node.journal.history), strict=True)
    ) == [
        (0, Phase.INTENT),
        (0, Phase.INTENT),
        (OPS, Phase.ATTACHED),
        (OPS, Phase.ATTACHED),
    ]
    assert all(each.snapshot is not None for each in node.journal.history[0].devices)


def test_an_rdma_device_without_an_interface_gets_its_files_and_no_plan(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(RDMA_ONLY)),))

    assert node.kernel.log == []
    assert record.phase is Phase.ATTACHED
    assert record.devices == (
        AttachedDevice(
            "efa", RDMA_ONLY, char_devices=(CharDevice("/dev/infiniband/uverbs9", 231, 201),)
        ),
    )
    assert node.executor.detach(record, netns_alive=True).phase is Phase.HOME


def test_attaching_twice_does_nothing_more(node: Node) -> None:
    first, _ = node.attach()

    second, _ = node.attach()

    assert len(node.kernel.log) == OPS
    assert second == replace(first, attempt=2)


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        pytest.param(
            (
                claim(DATA, given(pci(1), NAMED)),
                claim(STORAGE, given(pci(2), NetworkConfig(InterfaceConfig(name="net1")))),
            ),
            "'net1' is wanted by two devices",
            id="one name for two devices of two claims",
        ),
        pytest.param(
            (claim(DATA, given(pci(1), NetworkConfig(InterfaceConfig(mtu=9001)))),),
            "interface.mtu 9001 is above",
            id="a plan that can't be had",
        ),
        pytest.param(
            (claim(DATA, given(pci(1)), given(pci(7))),),
            r"nic-7 \(eth7\) is not on the host",
            id="a device that is not there",
        ),
    ],
)
def test_a_refused_pod_keeps_its_hands_off_and_records_why(
    node: Node, claims: tuple[Allocation, ...], words: str
) -> None:
    with pytest.raises(RefusedError, match=words) as caught:
        node.attach(claims)

    assert node.kernel.log == []
    assert set(node.journal.phases().values()) == {Phase.FAILED}
    failure = failure_of(node)
    assert failure == Failure(ATTACH_FAILED, str(caught.value), node.clock.wall(), 1)
    node.assert_home()


def test_a_record_that_breaks_the_rules_is_refused_with_the_count_before_anything_is_done(
    node: Node,
) -> None:
    for number in range(513):
        route = Route(f"172.16.{number // 256}.{number % 256}/32", scope=253)
        node.kernel.space().add_route("arrange", "eth1", route)
    node.start = node.host()

    with pytest.raises(InvalidValueError, match="at most 512"):
        node.attach()

    assert node.kernel.log == []
    assert node.journal.phases() == {DATA: Phase.FAILED, STORAGE: Phase.FAILED}
    assert "at most 512" in failure_of(node).message
    node.assert_home()


def test_failures_are_counted_for_a_pod_and_forgotten_for_the_next(node: Node) -> None:
    for _ in range(2):
        node.kernel.fail_at(1)
        with pytest.raises(AttachError):
            node.attach()

    assert failure_of(node).count == 2
    assert node.journal.records[DATA].attempt == 2

    node.kernel.fail_at(1)
    other = replace(CLAIMS[0], pod=ObjectRef("default", "web", "uid-other"))
    with pytest.raises(AttachError):
        node.executor.attach(
            replace(POD, uid="uid-other"), node.netns, (other,), dict(node.journal.records)
        )
    assert failure_of(node).count == 1


def test_a_namespace_that_cannot_be_entered_is_recorded(node: Node) -> None:
    node.kernel.release(node.netns)

    with pytest.raises(AttachError, match="enter the pod's network namespace failed"):
        node.attach()

    assert node.journal.phases() == {DATA: Phase.FAILED, STORAGE: Phase.FAILED}
    assert "not held" in failure_of(node).message
    node.assert_home()


def test_a_kernel_that_cannot_be_read_is_recorded(node: Node) -> None:
    node.kernel.fail_observe()

    with pytest.raises(KernelError):
        node.attach()

    assert node.journal.phases() == {DATA: Phase.FAILED, STORAGE: Phase.FAILED}
    node.assert_home()


def test_a_refusal_from_outside_is_recorded_unless_a_record_says_where_a_device_is(
    node: Node,
) -> None:
    node.executor.refuse(POD, CLAIMS, {}, "no namespace")

    assert failure_of(node) == Failure(ATTACH_FAILED, "no namespace", node.clock.wall(), 1)
    assert failure_of(node, STORAGE).message == "no namespace"

    node.attach()
    before = dict(node.journal.records)
    node.executor.refuse(POD, CLAIMS, before, "held elsewhere")
    assert node.journal.records == before


# --------------------------------------------------------------------------- every failure


def failed_at(n: int, *, done: bool) -> tuple[Node, AttachError | None]:
    """Return a node whose n-th operation failed, and the error, None if there was no n-th."""
    node = Node()
    node.kernel.fail_at(n, EBUSY, done=done)
    try:
        node.attach()
    except AttachError as error:
        return node, error
    return node, None


@pytest.mark.parametrize("done", [False, True], ids=["refused", "half done"])
def test_whichever_operation_fails_every_device_is_home_and_restored(*, done: bool) -> None:
    for n in range(1, OPS + 1):
        node, error = failed_at(n, done=done)
        assert error is not None
        assert error.undo_failures == ()
        node.assert_home()
        for uid in (DATA, STORAGE):
            record = node.journal.records[uid]
            assert record.phase is Phase.FAILED
            assert all(each.home for each in record.devices)
            assert failure_of(node, uid).count == 1
            assert failure_of(node, uid).message == f"{error.step} failed: {error.cause}"
        node.attach()
        node.assert_attached()

    assert failed_at(OPS + 1, done=done)[1] is None, "every operation failed in turn"


def test_what_cannot_be_undone_is_said_and_a_later_detach_finishes_it(node: Node) -> None:
    node.kernel.fail_on(AddRoute)

    with pytest.raises(AttachError, match=r"not undone: .*nic-1.*add route") as caught:
        node.attach()

    assert len(caught.value.undo_failures) == 1, "only the device whose route was lost"
    record = node.journal.records[DATA]
    assert [each.home for each in record.devices] == [False, True]
    assert node.kernel.state("eth1") is not None, "one thing must not keep the rest from home"

    node.restart()
    node.detach()

    node.assert_home()
    assert node.journal.phases() == {DATA: Phase.HOME, STORAGE: Phase.HOME}


def test_an_undo_that_cannot_look_says_so_and_a_later_detach_finishes_it(node: Node) -> None:
    def blinding(name: str) -> tuple[CharDevice, ...]:
        node.kernel.fail_observe()
        raise KernelError(f"read sysfs of {name}", EIO)

    node.executor = Executor(node.kernel, node.journal, node.clock, blinding)

    with pytest.raises(AttachError) as caught:
        node.attach()

    assert caught.value.undo_failures == ("dump links in host: EINTR (injected)",)
    assert not node.journal.records[STORAGE].devices[0].home, "the last one in is undone first"
    assert all(each.home for each in node.journal.records[DATA].devices)
    node.restart()
    node.detach()
    node.assert_home()


def test_device_files_that_cannot_be_resolved_undo_the_attach(node: Node) -> None:
    def broken(name: str) -> tuple[CharDevice, ...]:
        raise KernelError(f"read sysfs of {name}", EIO)

    node.executor = Executor(node.kernel, node.journal, node.clock, broken)

    with pytest.raises(AttachError, match="record the result failed: read sysfs of mlx5_1"):
        node.attach()

    node.assert_home()
    assert node.journal.phases() == {DATA: Phase.FAILED, STORAGE: Phase.FAILED}


# --------------------------------------------------------------------------- every crash

Fault = Callable[[Node, int], None]


def journal_fails(node: Node, n: int) -> None:
    node.journal.fails_at = n


def journal_crashes(node: Node, n: int) -> None:
    node.journal.fails_at, node.journal.error = n, Crash()


def crashes_before(node: Node, n: int) -> None:
    node.kernel.fail_at(n, Crash())


def crashes_after(node: Node, n: int) -> None:
    node.kernel.fail_at(n, Crash(), done=True)


FAULTS = pytest.mark.parametrize(
    ("fault", "stops"),
    [
        pytest.param(journal_fails, 4, id="a write fails"),
        pytest.param(journal_crashes, 4, id="crash at a write"),
        pytest.param(crashes_before, OPS, id="crash before an operation"),
        pytest.param(crashes_after, OPS, id="crash after an operation"),
    ],
)


def stopped(fault: Fault, n: int) -> Node | None:
    """Return a node whose attach stopped at the n-th step; None if it went through."""
    node = Node()
    fault(node, n)
    try:
        node.attach()
    except (Crash, OSError):
        assert node.kernel.open_sessions == 0
        node.restart()
        return node
    return None


@FAULTS
def test_after_any_stop_an_attach_finishes_it(fault: Fault, stops: int) -> None:
    for n in range(1, stops + 1):
        node = stopped(fault, n)
        assert node is not None
        node.attach()
        node.assert_attached()
        node.detach()
        node.assert_home()

    assert stopped(fault, stops + 1) is None, "every step was stopped at"


@FAULTS
def test_after_any_stop_a_detach_brings_everything_home(fault: Fault, stops: int) -> None:
    for n in range(1, stops + 1):
        node = stopped(fault, n)
        assert node is not None
        node.detach()
        node.assert_home()
        assert set(node.journal.phases().values()) <= {Phase.HOME}


@FAULTS
def test_after_any_stop_and_the_death_of_the_pod_everything_is_restored(
    fault: Fault, stops: int
) -> None:
    for n in range(1, stops + 1):
        node = stopped(fault, n)
        assert node is not None
        node.kernel.destroy_netns(node.netns)
        node.detach(netns_alive=False)
        node.assert_home()
        assert set(node.journal.phases().values()) <= {Phase.HOME}


@FAULTS
def test_after_any_stop_and_the_death_of_the_pod_the_next_sandbox_has_everything(
    fault: Fault, stops: int
) -> None:
    for n in range(1, stops + 1):
        node = stopped(fault, n)
        assert node is not None
        node.kernel.destroy_netns(node.netns)
        node.netns = node.add_netns("/run/netns/2")
        node.attach()
        node.assert_attached()
        node.detach()
        node.assert_home()


@pytest.mark.parametrize("n", range(1, 4))
def test_a_failure_that_cannot_be_written_leaves_what_a_detach_can_finish(n: int) -> None:
    node = Node()
    node.kernel.fail_on(AddAddress, times=1)
    node.journal.fails_at = n

    with pytest.raises(OSError, match="injected"):
        node.attach()

    node.restart()
    node.detach()
    node.assert_home()


def test_after_any_crash_of_a_detach_the_next_one_finishes_it() -> None:
    for n in count(1):
        node = Node()
        node.attach()
        node.kernel.fail_at(n, Crash())
        try:
            node.detach()
        except Crash:
            node.restart()
        else:
            break
        node.detach()
        node.assert_home()
        assert node.journal.phases() == {DATA: Phase.HOME, STORAGE: Phase.HOME}

    assert n > OPS // 2, "every operation of the way back was stopped at"


@pytest.mark.parametrize("done", [False, True], ids=["refused", "half done"])
def test_whichever_operation_of_a_detach_fails_the_rest_comes_home(*, done: bool) -> None:
    for n in count(1):
        node = Node()
        node.attach()
        operations = len(node.kernel.log)
        node.kernel.fail_at(n, EBUSY, done=done)
        node.detach()
        if len(node.kernel.log) - operations + 1 < n:
            break
        assert sum(node.kernel.state(name) is not None for name in ("eth1", "eth2", "eth3")) >= 2
        node.detach()
        node.assert_home()
        assert node.journal.phases() == {DATA: Phase.HOME, STORAGE: Phase.HOME}

    assert n > OPS // 2, "every operation of the way back failed in turn"


# --------------------------------------------------------------------------- snapshots


def test_a_second_attempt_keeps_the_snapshot_of_the_first(node: Node) -> None:
    node.kernel.fail_on(AddAddress, Crash(), times=1)
    with pytest.raises(Crash):
        node.attach()
    first = node.journal.records[DATA].devices[0]
    node.restart()
    node.clock.now += 50

    node.attach()

    second = node.journal.records[DATA].devices[0]
    assert (second.snapshot, second.snapshot_s) == (first.snapshot, 1000)
    assert node.journal.records[DATA].attempt == 2


def test_emptiness_never_becomes_the_snapshot_however_often_it_is_tried(node: Node) -> None:
    node.attach()
    for number in range(2, 5):
        node.kernel.destroy_netns(node.netns)
        bare = node.kernel.state("eth2")
        assert bare is not None
        assert bare.addresses == ()
        node.netns = node.add_netns(f"/run/netns/{number}")
        node.attach()
        node.assert_attached()

    node.detach()

    node.assert_home()


def test_a_device_that_was_verified_home_is_looked_at_anew(node: Node) -> None:
    node.attach()
    node.detach()
    node.kernel.space().named("arrange", "eth2").addresses.append(Address("10.77.0.1/24"))

    node.attach()

    snapshot = node.journal.records[DATA].devices[1].snapshot
    assert snapshot is not None
    assert Address("10.77.0.1/24") in snapshot.addresses


def test_lifetimes_go_on_while_the_device_is_away(node: Node) -> None:
    lease = Address("10.0.2.77/24", valid_s=100, preferred_s=50)
    node.kernel.space().named("arrange", "eth2").addresses.append(lease)
    node.attach()
    node.clock.now += 30

    node.detach()

    state = node.kernel.state("eth2")
    assert state is not None
    assert replace(lease, valid_s=70, preferred_s=20) in state.addresses


# --------------------------------------------------------------------------- detach


def test_a_detach_restores_the_host_and_forgets_failures_of_nobody(node: Node) -> None:
    data, storage = node.attach()

    record = node.executor.detach(data, netns_alive=True)

    assert record == node.journal.records[DATA]
    assert record.phase is Phase.HOME
    assert all(each.home for each in record.devices)
    assert node.kernel.state("eth3") is None, "the other claim's device stays in the pod"
    assert node.executor.detach(storage, netns_alive=True).phase is Phase.HOME
    node.assert_home()


def test_a_detach_says_so_before_the_first_operation(node: Node) -> None:
    data, _ = node.attach()
    node.kernel.fail_at(1, Crash())

    with pytest.raises(Crash):
        node.executor.detach(data, netns_alive=True)

    assert node.journal.records[DATA].phase is Phase.DETACHING


def test_one_thing_that_cannot_be_restored_does_not_keep_the_rest_from_coming_back(
    node: Node,
) -> None:
    (record,) = node.attach((claim(DATA, given(pci(2))),))
    node.kernel.fail_on(AddAddress, times=1)

    record = node.executor.detach(record, netns_alive=True)

    state = node.kernel.state("eth2")
    assert state is not None
    assert state.link.up
    assert [each.cidr for each in state.addresses] == ["2001:db8:2::5/64"]
    assert (record.phase, record.devices[0].home) == (Phase.DETACHING, False)
    assert "add address 10.0.2.5/24" in failure_of(node).message


def test_hardware_of_a_dead_namespace_is_home_once_the_kernel_returned_it(node: Node) -> None:
    (data,) = node.attach((CLAIMS[0],))
    node.kernel.remove_netns(node.netns)  # its cleanup waits: somebody still holds it

    waiting = node.executor.detach(data, netns_alive=False)

    assert waiting.phase is Phase.DETACHING
    assert waiting.failure is None
    assert [each.home for each in waiting.devices] == [False, False]
    assert node.executor.detach(waiting, netns_alive=False) == waiting

    node.kernel.release(node.netns)
    assert node.executor.detach(waiting, netns_alive=False).phase is Phase.HOME
    node.assert_home()


def test_repeating_a_detach_that_waits_writes_nothing(node: Node) -> None:
    (data,) = node.attach((CLAIMS[0],))
    node.kernel.remove_netns(node.netns)
    waiting = node.executor.detach(data, netns_alive=False)
    written = len(node.journal.history)

    node.executor.detach(waiting, netns_alive=False)

    assert len(node.journal.history) == written


def test_a_virtual_device_goes_with_its_namespace(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(VIRTUAL, NAMED)),))
    node.kernel.destroy_netns(node.netns)

    record = node.executor.detach(record, netns_alive=False)

    assert record.phase is Phase.HOME
    assert node.kernel.state("dummy0") is None


def test_a_virtual_device_comes_home_from_a_living_namespace(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(VIRTUAL)),))

    record = node.executor.detach(record, netns_alive=True)

    assert record.phase is Phase.HOME
    node.assert_home()


def test_a_device_that_is_nowhere_is_waited_for(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(pci(2))),))
    node.kernel.remove_link("eth2", node.netns)

    record = node.executor.detach(record, netns_alive=True)

    assert record.phase is Phase.DETACHING
    assert not record.devices[0].home


@pytest.mark.parametrize("fault", ["observe", "session", "operation"])
def test_a_detach_that_fails_records_why_and_is_repeated(node: Node, fault: str) -> None:
    (record,) = node.attach((claim(DATA, given(pci(2))),))
    match fault:
        case "observe":
            node.kernel.fail_observe()
        case "session":
            node.kernel.release(node.netns)
        case "operation":
            node.kernel.fail_on(MoveLink)

    record = node.executor.detach(record, netns_alive=True)

    assert record.phase is Phase.DETACHING
    failure = failure_of(node)
    assert (failure.reason, failure.count) == (DETACH_FAILED, 1)
    assert failure.message
    node.restart()
    node.kernel.hold(node.netns)
    assert node.executor.detach(node.journal.records[DATA], netns_alive=True).phase is Phase.HOME
    node.assert_home()


def test_a_record_without_snapshots_is_home(node: Node) -> None:
    with pytest.raises(RefusedError):
        node.attach((claim(DATA, given(pci(7))),))

    record = node.executor.detach(node.journal.records[DATA], netns_alive=True)

    assert record.phase is Phase.HOME
    assert node.kernel.log == []


# --------------------------------------------------------------------------- verify


def test_an_attached_claim_is_verified_until_a_device_leaves(node: Node) -> None:
    data, storage = node.attach()
    assert node.executor.verify(data)

    node.kernel.remove_link("eth2", node.netns)

    assert not node.executor.verify(data)
    assert node.executor.verify(storage)
    assert node.kernel.open_sessions == 0


def test_a_claim_without_interfaces_has_nothing_that_could_leave(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(RDMA_ONLY)),))

    assert node.executor.verify(record)


def test_routes_of_the_claim_reach_the_pod(node: Node) -> None:
    config = NetworkConfig(routes=(RouteConfig("10.99.0.0/16", gateway="10.0.2.1"),))

    node.attach((claim(DATA, given(pci(2), config)),))

    state = node.kernel.state("eth2", node.netns)
    assert state is not None
    assert "10.99.0.0/16" in {route.destination for route in state.routes}
