"""Snapshots, the detach of whole claims, and the verification of attached claims."""

import re
from dataclasses import replace
from errno import EBUSY, EINVAL, ENOENT

import pytest

from dranet_nri.errors import KernelError, RefusedError
from dranet_nri.model import (
    DETACH_FAILED,
    Address,
    InterfaceConfig,
    NetnsId,
    NetworkConfig,
    Ns,
    Phase,
    RouteConfig,
    TcxProgram,
    TcxSide,
)
from dranet_nri.plan.ops import AddAddress, MoveLink, Op, RenameLink
from dranet_nri.plan.settings.programs import AttachTcx, DetachTcx
from tests.dranet_nri.attach.execution.journal import Crash
from tests.dranet_nri.attach.execution.node import (
    CLAIMS,
    DATA,
    NAMED,
    RDMA_ONLY,
    VIRTUAL,
    Node,
    claim,
    failure_of,
    given,
    pci,
)
from tests.fakes.kernel import FakeKernel

pytestmark = pytest.mark.process


@pytest.fixture
def node() -> Node:
    """Return a fresh node."""
    return Node()


STRANGE = TcxProgram(TcxSide.EGRESS, 99)

# --------------------------------------------------------------------------- snapshots


def test_second_attempt_keeps_the_snapshot_of_the_first(node: Node) -> None:
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


def test_devices_of_a_claim_are_detached_in_reverse_order_of_attach(node: Node) -> None:
    node.attach()
    attached = len(node.kernel.log)

    node.detach()

    moves = [op.name for op in node.kernel.log[attached:] if isinstance(op, MoveLink)]
    assert moves == ["eth2", "eth1", "eth3"]  # the first claim has eth1 and eth2


def test_repeated_attempts_keep_the_first_snapshot_after_the_state_was_lost(node: Node) -> None:
    node.attach()
    for number in range(2, 5):
        node.kernel.destroy_netns(node.netns)
        state = node.kernel.state("eth2")
        assert state is not None
        assert state.addresses == ()
        node.netns = node.add_netns(f"/run/netns/{number}")
        node.attach()
        node.assert_attached()

    node.detach()

    node.assert_restored()


@pytest.mark.parametrize("killed", [False, True])
def test_tcx_program_of_the_pod_is_removed_and_that_of_the_host_is_kept(
    node: Node, *, killed: bool
) -> None:
    node.attach()
    for name in ("net1", "eth2"):
        node.kernel.space(node.netns).named("arrange", name).tcx.append(STRANGE)
    if killed:
        node.kernel.destroy_netns(node.netns)

    node.detach(netns_exists=not killed)

    node.assert_restored()
    assert node.tcx("eth1") != ()


@pytest.mark.parametrize("killed", [False, True])
def test_claimed_altname_is_removed_and_those_of_the_host_are_kept(
    node: Node, *, killed: bool
) -> None:
    config = NetworkConfig(InterfaceConfig(name="net1", altnames=("rail-0",)))
    node.attach((claim(DATA, given(pci(1), config)),))
    if killed:
        node.kernel.destroy_netns(node.netns)

    node.detach(netns_exists=not killed)

    node.assert_restored()


DISABLED = NetworkConfig(InterfaceConfig(name="net1", disable_ebpf=True))


@pytest.mark.parametrize("loaded", [True, False])
def test_disabled_tcx_programs_are_restored_if_still_loaded(node: Node, *, loaded: bool) -> None:
    claims = (claim(DATA, given(pci(1), DISABLED)),)
    held = TcxProgram(TcxSide.EGRESS, 8, link=3)
    node.kernel.space().named("arrange", "eth1").tcx.append(held)

    records = node.attach(claims)

    assert node.kernel.space(node.netns).named("look", "net1").tcx == []
    warnings = [text for record in records for device in record.devices for text in device.warnings]
    assert [text for text in warnings if "TCX programs 8, which BPF links attach" in text]
    if not loaded:
        node.kernel.fail_on(AttachTcx, KernelError("attach", ENOENT))

    node.detach()

    record = node.journal.records[DATA]
    assert record.phase is Phase.RESTORED
    assert bool(node.tcx("eth1")) is loaded
    text = "no longer loaded; load and attach it again; restored without it"
    assert (text in record.failure.message if record.failure else False) is not loaded


def test_detach_on_a_kernel_without_tcx_ignores_tcx(node: Node) -> None:
    node.kernel.reports_programs = False
    node.attach()
    node.kernel.fail_on(DetachTcx, KernelError("detach", EINVAL))

    node.detach()

    node.assert_restored()


def test_dad_is_restored_on_a_nic_that_was_set_to_noarp(node: Node) -> None:
    entry = node.kernel.space().named("arrange", "eth2")
    entry.link = replace(entry.link, flags=0x80)
    node.start = node.host()

    node.attach()
    node.detach()

    node.assert_restored()


def test_returned_device_gets_a_new_snapshot_at_the_next_attach(node: Node) -> None:
    node.attach()
    node.detach()
    node.kernel.space().named("arrange", "eth2").addresses.append(Address("10.77.0.1/24"))

    node.attach()

    snapshot = node.journal.records[DATA].devices[1].snapshot
    assert snapshot is not None
    assert Address("10.77.0.1/24") in snapshot.addresses


def test_address_lifetimes_are_reduced_by_the_time_in_the_pod(node: Node) -> None:
    lease = Address("10.0.2.77/24", valid_s=100, preferred_s=50)
    node.kernel.space().named("arrange", "eth2").addresses.append(lease)
    node.attach()
    node.clock.now += 30

    node.detach()

    state = node.kernel.state("eth2")
    assert state is not None
    assert replace(lease, valid_s=70, preferred_s=20) in state.addresses


# --------------------------------------------------------------------------- detach


def test_detach_restores_the_devices_of_one_claim_and_keeps_the_other_attached(node: Node) -> None:
    data, storage = node.attach()

    record = node.executor.detach(data, netns_exists=True)

    assert record == node.journal.records[DATA]
    assert record.phase is Phase.RESTORED
    assert all(device.restored for device in record.devices)
    assert node.kernel.state("eth3") is None, "the other claim's device stays in the pod"
    assert node.executor.detach(storage, netns_exists=True).phase is Phase.RESTORED
    node.assert_restored()


def test_features_that_the_pod_disabled_are_restored(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(pci(2))),))
    inside = node.kernel.space(node.netns).named("arrange", "eth2")
    inside.features |= {"tx-checksum-ip-generic": False, "rx-gro": True}

    node.executor.detach(record, netns_exists=True)

    node.assert_restored()


def test_detaching_phase_is_recorded_before_the_first_operation(node: Node) -> None:
    data, _ = node.attach()
    node.kernel.fail_at(1, Crash())

    with pytest.raises(Crash):
        node.executor.detach(data, netns_exists=True)

    assert node.journal.records[DATA].phase is Phase.DETACHING


def test_failed_address_does_not_prevent_the_rest_of_the_restore(
    node: Node,
) -> None:
    (record,) = node.attach((claim(DATA, given(pci(2))),))
    node.kernel.fail_on(AddAddress, times=1)

    record = node.executor.detach(record, netns_exists=True)

    state = node.kernel.state("eth2")
    assert state is not None
    assert state.link.up
    assert [address.cidr for address in state.addresses] == ["2001:db8:2::5/64"]
    assert (record.phase, record.devices[0].restored) == (Phase.DETACHING, False)
    assert "add address 10.0.2.5/24" in failure_of(node).message


def test_hardware_of_a_dead_namespace_is_restored_after_the_kernel_returns_it(node: Node) -> None:
    (data,) = node.attach((CLAIMS[0],))
    node.kernel.remove_netns(node.netns)  # its cleanup waits: another process holds it

    waiting = node.executor.detach(data, netns_exists=False)

    assert waiting.phase is Phase.DETACHING
    assert waiting.failure is None
    assert [device.restored for device in waiting.devices] == [False, False]
    assert node.executor.detach(waiting, netns_exists=False) == waiting

    node.kernel.release(node.netns)
    assert node.executor.detach(waiting, netns_exists=False).phase is Phase.RESTORED
    node.assert_restored()


def test_repeated_detach_without_progress_writes_no_record(node: Node) -> None:
    (data,) = node.attach((CLAIMS[0],))
    node.kernel.remove_netns(node.netns)
    waiting = node.executor.detach(data, netns_exists=False)
    written = len(node.journal.history)

    node.executor.detach(waiting, netns_exists=False)

    assert len(node.journal.history) == written


def test_virtual_device_is_deleted_with_its_namespace(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(VIRTUAL, NAMED)),))
    node.kernel.destroy_netns(node.netns)

    record = node.executor.detach(record, netns_exists=False)

    assert record.phase is Phase.RESTORED
    assert node.kernel.state("dummy0") is None


def test_c07_lost_virtual_device_is_reported_with_the_command_that_finds_it(
    node: Node,
) -> None:
    (record,) = node.attach((claim(DATA, given(VIRTUAL)),))
    node.kernel.remove_netns(node.netns)  # a process keeps the namespace
    node.restart()

    record = node.executor.detach(record, netns_exists=False)

    assert record.phase is Phase.RESTORED
    assert node.kernel.state("dummy0", node.netns) is not None
    assert "device dummy (dummy0) no longer exists" in failure_of(node).message
    assert "lsns --type net" in failure_of(node).message


def test_virtual_device_is_restored_from_a_live_namespace(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(VIRTUAL)),))

    record = node.executor.detach(record, netns_exists=True)

    assert record.phase is Phase.RESTORED
    node.assert_restored()


@pytest.mark.parametrize("index_is_free", [True, False], ids=["its index", "another index"])
def test_c20_virtual_device_renamed_by_a_daemon_is_not_reported_as_gone(
    node: Node, monkeypatch: pytest.MonkeyPatch, *, index_is_free: bool
) -> None:
    own = node.kernel.space().named("arrange", "dummy0")
    own.link = replace(own.link, mac="02:00:00:00:00:09")
    node.start = node.host()
    node.attach((claim(DATA, given(VIRTUAL)),))
    apply = FakeKernel.do
    renamed: list[Op] = []

    def apply_beside_a_daemon(kernel: FakeKernel, op: Op, netns: NetnsId | None) -> None:
        apply(kernel, op, netns)
        if isinstance(op, MoveLink) and op.target is Ns.HOST and not renamed:
            link = node.kernel.space().named("daemon", op.name)
            index = link.link.index if index_is_free else 999
            link.link = replace(link.link, name="enp9s0", index=index)
            renamed.append(op)

    monkeypatch.setattr(FakeKernel, "do", apply_beside_a_daemon)
    node.detach()

    assert renamed
    if not index_is_free:
        assert "it may be enp9s0" in failure_of(node).message
        found = node.kernel.space().named("administrator", "enp9s0")
        found.link = replace(found.link, name="dummy0", index=own.link.index)
    node.retry()
    assert node.journal.phases() == {DATA: Phase.RESTORED}
    node.assert_restored()


@pytest.mark.parametrize("refused", [MoveLink, RenameLink])
def test_link_that_takes_the_name_during_a_restore_is_not_configured(
    node: Node, monkeypatch: pytest.MonkeyPatch, refused: type[Op]
) -> None:
    node.attach((claim(DATA, given(pci(2))),))
    if refused is RenameLink:
        node.kernel.add_link("eth2", parent="0000:77:00.0")
        node.detach()  # it gets a temporary name
        node.kernel.remove_link("eth2")
    apply = FakeKernel.do

    def apply_after_a_daemon(kernel: FakeKernel, op: Op, netns: NetnsId | None) -> None:
        if isinstance(op, refused):
            kernel.add_link("eth2", up=False)
        apply(kernel, op, netns)

    with monkeypatch.context() as patch:
        patch.setattr(FakeKernel, "do", apply_after_a_daemon)
        node.detach()

    other = node.kernel.state("eth2")
    assert other is not None
    assert (other.link.up, other.addresses, other.routes) == (False, (), ())
    assert "EEXIST" in failure_of(node).message
    node.kernel.remove_link("eth2")
    node.retry()
    assert node.journal.phases() == {DATA: Phase.RESTORED}
    node.assert_restored()


def test_refused_rename_in_the_pod_does_not_prevent_the_move(node: Node) -> None:
    node.attach((claim(DATA, given(pci(2), NetworkConfig(InterfaceConfig(name="net1")))),))
    node.kernel.fail_on(RenameLink, EBUSY)

    node.detach()

    assert node.journal.phases() == {DATA: Phase.RESTORED}
    node.assert_restored()


def test_missing_device_keeps_the_claim_in_detaching(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(pci(2))),))
    node.kernel.remove_link("eth2", node.netns)

    record = node.executor.detach(record, netns_exists=True)

    assert record.phase is Phase.DETACHING
    assert not record.devices[0].restored


def test_taken_interface_name_is_reported_until_the_name_is_free(node: Node) -> None:
    node.attach((claim(DATA, given(pci(2))),))
    node.kernel.add_link("eth2", parent="0000:77:00.0")

    node.detach()

    assert node.journal.phases() == {DATA: Phase.DETACHING}
    failure = failure_of(node)
    assert failure.reason == DETACH_FAILED
    assert re.match(
        r"interface eth2 is called dra\d+: its name is taken; give the", failure.message
    )
    node.kernel.remove_link("eth2")
    node.retry()
    assert node.journal.phases() == {DATA: Phase.RESTORED}
    node.assert_restored()


@pytest.mark.parametrize("fault", ["observe", "session", "operation"])
def test_failed_detach_is_recorded_and_repeated(node: Node, fault: str) -> None:
    (record,) = node.attach((claim(DATA, given(pci(2))),))
    match fault:
        case "observe":
            node.kernel.fail_observe()
        case "session":
            node.kernel.release(node.netns)
        case "operation":
            node.kernel.fail_on(MoveLink)

    record = node.executor.detach(record, netns_exists=True)

    assert record.phase is Phase.DETACHING
    failure = failure_of(node)
    assert (failure.reason, failure.count) == (DETACH_FAILED, 1)
    assert failure.message
    node.restart()
    node.kernel.hold(node.netns)
    assert (
        node.executor.detach(node.journal.records[DATA], netns_exists=True).phase is Phase.RESTORED
    )
    node.assert_restored()


def test_detach_of_a_record_without_snapshots_runs_no_operations(node: Node) -> None:
    with pytest.raises(RefusedError):
        node.attach((claim(DATA, given(pci(7))),))

    record = node.executor.detach(node.journal.records[DATA], netns_exists=True)

    assert record.phase is Phase.RESTORED
    assert node.kernel.log == []


# --------------------------------------------------------------------------- verify


def test_verify_fails_after_a_device_has_left_the_pod(node: Node) -> None:
    data, storage = node.attach()
    assert node.executor.verify(data, CLAIMS[0]) == data

    node.kernel.remove_link("eth2", node.netns)

    assert node.executor.verify(data, CLAIMS[0]) is None
    assert node.executor.verify(storage, CLAIMS[1]) == storage
    assert node.kernel.open_sessions == 0


def test_verify_and_detach_do_not_read_the_whole_pod_namespace(
    node: Node,
) -> None:
    data, _ = node.attach()
    node.kernel.whole_pods = 0

    assert node.executor.verify(data, CLAIMS[0]) == data
    node.kernel.fail_on(MoveLink, KernelError("move", EBUSY))
    node.detach()
    assert node.kernel.state("eth1") is None
    node.kernel.clear_faults()
    node.detach()

    assert node.kernel.whole_pods == 0
    node.assert_restored()


def test_verify_of_a_claim_without_interfaces_succeeds(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(RDMA_ONLY)),))

    assert node.executor.verify(record, None) == record


def test_routes_of_the_claim_are_added_in_the_pod(node: Node) -> None:
    config = NetworkConfig(routes=(RouteConfig("10.99.0.0/16", gateway="10.0.2.1"),))

    node.attach((claim(DATA, given(pci(2), config)),))

    state = node.kernel.state("eth2", node.netns)
    assert state is not None
    assert "10.99.0.0/16" in {route.destination for route in state.routes}
