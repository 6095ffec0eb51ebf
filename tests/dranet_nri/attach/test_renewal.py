"""Renewal of leases, with the plugin on a kernel in memory."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from errno import EIO
from pathlib import Path

import pytest

from dranet_nri.attach.renewal import LeaseRenewer
from dranet_nri.errors import KernelError, OutdatedError
from dranet_nri.model import (
    FOREVER,
    NOT_READY,
    Addressing,
    Attachment,
    InterfaceConfig,
    Lease,
    NetworkConfig,
    Phase,
    Pod,
)
from dranet_nri.plan.lease_ops import DropAddress, LeaseAddress
from tests.fakes.dhcp import SERVER_MAC, FakeDhcpServer
from tests.fakes.node import Node

pytestmark = pytest.mark.process

LEASED = NetworkConfig(InterfaceConfig(name="net1", addressing=Addressing.DHCP))
CLAIM = "claim-nics"


class Leased:
    """A node with a pod whose NIC has a lease of 3600 s."""

    def __init__(self, root: Path) -> None:
        self.node = Node(root, nics=2)
        self.server = self.node.kernel.dhcp["net1"] = FakeDhcpServer()
        self.pod: Pod = self.node.pod("web")
        self.node.allocate(self.pod, 1, config=LEASED)
        self.node.run_pod(self.pod)
        self.server.got.clear()
        self.node.kernel.log.clear()

    @property
    def record(self) -> Attachment:
        found = self.node.attachments.get(CLAIM)
        assert found is not None
        return found

    @property
    def lease(self) -> Lease | None:
        return self.record.devices[0].lease

    def rename(self, name: str) -> None:
        """Rename the NIC, as the pod does."""
        inside = self.node.kernel.space(self.node.netns(self.pod)).named("pod", "net1")
        inside.link = replace(inside.link, name=name)
        self.node.kernel.dhcp[name] = self.server

    def renew(self, at_s: int) -> Attachment | None:
        """Run the renewal that is due at the given seconds after the attach."""
        self.node.clock.seconds = 1000 + at_s
        plugin = self.node.plugin
        return asyncio.run(LeaseRenewer(plugin.attacher, plugin.reconciler.is_desired).renew(CLAIM))


@pytest.fixture
def leased(tmp_path: Path) -> Iterator[Leased]:
    """Return a node whose pod has a lease."""
    made = Leased(tmp_path)
    yield made
    made.node.close()


def test_renewed_lease_is_recorded(leased: Leased) -> None:
    before = leased.record

    record = leased.renew(1800)

    assert record == leased.record
    assert leased.lease == Lease("10.77.0.50/24", "10.77.0.1", SERVER_MAC, 2800, 3600, 1800, 3150)
    assert replace(leased.record, devices=before.devices) == before
    (op,) = leased.node.kernel.log
    assert isinstance(op, LeaseAddress)
    assert (op.name, op.address.valid_s) == ("net1", 3600)
    ((message, target, mac),) = leased.server.got
    assert (message.client, target, mac) == ("10.77.0.50", "10.77.0.1", SERVER_MAC)
    assert leased.server.opened == 0


def test_renewal_sends_nothing_before_it_is_due(leased: Leased) -> None:
    assert leased.renew(1799) == leased.record
    assert leased.server.got == []


def test_renewal_without_an_answer_changes_nothing(leased: Leased) -> None:
    before, leased.server.silent = leased.record, True

    assert leased.renew(3200) == before
    assert leased.record == before
    assert {target for _, target, _ in leased.server.got} == {"255.255.255.255"}


def test_expired_lease_closes_the_gate_and_is_acquired_again(leased: Leased) -> None:
    leased.server.silent = True

    lost = leased.renew(3600)

    assert lost == leased.record
    assert (lost.phase, leased.lease, lost.devices[0].addresses) == (Phase.INTENT, None, ())
    assert lost.failure
    assert "device pci-0000-01-00-0: the lease" in lost.failure.message
    assert "no DHCP server extended it" in lost.failure.message
    assert lost.failure.reason == NOT_READY
    allocation = leased.node.plugin.allocations.reader.get(CLAIM)
    assert allocation
    assert not leased.node.gate.is_open(allocation)
    assert leased.node.reconcile_requests[-1] == "wake"
    assert [type(op) for op in leased.node.kernel.log] == [DropAddress]

    leased.server.silent = False
    leased.server.gives = replace(leased.server.gives, offered="10.77.0.51")
    asyncio.run(leased.node.plugin.reconcile())

    assert (leased.record.phase, leased.record.failure) == (Phase.ATTACHED, None)
    assert leased.record.devices[0].addresses == ("10.77.0.51/24",)
    assert leased.node.gate.is_open(allocation)


def test_pod_keeps_its_nic_without_a_dhcp_server(leased: Leased) -> None:
    leased.server.silent = True
    leased.renew(3600)

    asyncio.run(leased.node.plugin.reconcile())

    assert leased.record.phase is Phase.FAILED
    assert leased.record.failure
    assert "no DHCP server granted net1" in leased.record.failure.message
    assert leased.record.failure.reason == NOT_READY
    state = leased.node.kernel.state("net1", leased.node.netns(leased.pod))
    assert state
    assert state.link.up


def test_rejected_renewal_drops_the_lease(leased: Leased) -> None:
    leased.server.refuses = True

    lost = leased.renew(1800)

    assert lost
    assert lost.failure
    assert "withdrew 10.77.0.50/24" in lost.failure.message


@pytest.mark.parametrize(
    ("answer", "lease"),
    [
        pytest.param(
            {"server": "10.77.0.2"},
            Lease("10.77.0.50/24", "10.77.0.2", SERVER_MAC, 2800, 3600, 1800, 3150),
            id="another server identifier",
        ),
        pytest.param(
            {"mask": None},
            Lease("10.77.0.50/24", "10.77.0.1", SERVER_MAC, 2800, 3600, 1800, 3150),
            id="no mask",
        ),
        pytest.param(
            {"lease_s": FOREVER},
            Lease(
                "10.77.0.50/24", "10.77.0.1", SERVER_MAC, 2800, FOREVER, FOREVER // 2, 3758096383
            ),
            id="infinite",
        ),
        pytest.param(
            {"lease_s": 0},
            Lease("10.77.0.50/24", "10.77.0.1", SERVER_MAC, 1000, 3600, 1800, 3150),
            id="a lease of 0 s changes nothing",
        ),
        pytest.param(
            {"server": ""},
            Lease("10.77.0.50/24", "10.77.0.1", SERVER_MAC, 1000, 3600, 1800, 3150),
            id="an answer of nobody changes nothing",
        ),
    ],
)
def test_unusual_answer_to_a_renewal(
    leased: Leased, answer: dict[str, int | str | None], lease: Lease
) -> None:
    leased.server.gives = replace(leased.server.gives, **answer)  # type: ignore[arg-type]

    leased.renew(1800)

    assert (leased.lease, leased.record.phase) == (lease, Phase.ATTACHED)
    leased.node.stop_pod(leased.pod)
    assert leased.server.got[-1][1] == lease.server  # its release


def test_renewal_ignores_a_claim_that_is_not_attached(leased: Leased) -> None:
    leased.node.stop_pod(leased.pod)
    leased.server.got.clear()

    assert leased.renew(1800) is None
    leased.node.attachments.remove(CLAIM)
    assert leased.renew(1800) is None
    assert leased.server.got == []


def test_renewal_ignores_a_removed_namespace(leased: Leased) -> None:
    netns = leased.node.netns(leased.pod)
    leased.node.kernel.release(netns)
    leased.node.kernel.remove_netns(netns)

    assert leased.renew(1800) is None


def test_lease_of_a_nic_that_the_pod_renamed_is_extended_and_released(leased: Leased) -> None:
    leased.rename("data0")

    leased.renew(1800)

    assert leased.lease
    assert leased.lease.since_s == 2800
    (op,) = leased.node.kernel.log
    assert isinstance(op, LeaseAddress)
    assert op.name == "data0"
    leased.node.stop_pod(leased.pod)
    assert [message.kind.name for message, _, _ in leased.server.got] == ["REQUEST", "RELEASE"]
    assert leased.server.opened == 0


def test_expired_address_is_deleted_from_a_nic_that_the_pod_renamed(leased: Leased) -> None:
    leased.rename("data0")
    leased.server.silent = True

    lost = leased.renew(3600)

    assert lost
    assert lost.phase is Phase.INTENT
    (op,) = leased.node.kernel.log
    assert isinstance(op, DropAddress)
    assert op.name == "data0"


def test_renewal_skips_a_nic_that_left_the_pod(leased: Leased) -> None:
    before = leased.record
    leased.node.kernel.remove_link("net1", leased.node.netns(leased.pod))

    assert leased.renew(1800) == before
    assert leased.server.got == []


def test_renewal_ends_with_the_sandbox(leased: Leased) -> None:
    leased.server.silent = True
    leased.node.plugin.reconciler.synchronized = True
    leased.node.plugin.attacher.live.remove(leased.pod.sandbox_id)

    with pytest.raises(OutdatedError):
        leased.renew(1800)

    assert leased.server.opened == 0


def test_kernel_error_in_a_renewal_keeps_the_record(leased: Leased) -> None:
    before, leased.server.fails = leased.record, KernelError("send", EIO)

    with pytest.raises(KernelError):
        leased.renew(1800)

    assert leased.record == before
    assert leased.server.opened == 0


def test_lease_is_renewed_and_released_after_a_restart(leased: Leased) -> None:
    leased.node.restart()

    assert leased.renew(1800)
    assert leased.lease
    assert leased.lease.since_s == 2800
    leased.node.stop_pod(leased.pod)
    assert [message.kind.name for message, _, _ in leased.server.got] == ["REQUEST", "RELEASE"]
