"""Attach of whole pods: operations, refusals and records."""

from dataclasses import replace

import pytest

from dranet_nri.errors import AttachError, InvalidValueError, KernelError, RefusedError
from dranet_nri.model import (
    ATTACH_FAILED,
    Address,
    Allocation,
    AttachedDevice,
    CharDevice,
    Failure,
    InterfaceConfig,
    Link,
    NetworkConfig,
    Ns,
    ObjectRef,
    Phase,
    RdmaConfig,
    RdmaLink,
    Route,
    Sysctl,
)
from dranet_nri.plan.ops import MoveRdma
from tests.dranet_nri.attach.execution.node import (
    CLAIMS,
    DATA,
    NAMED,
    POD,
    RDMA_ONLY,
    STORAGE,
    Node,
    attached_ops,
    claim,
    failure_of,
    given,
    pci,
    refusal,
)
from tests.fakes.rdma import RDMA_CM

pytestmark = pytest.mark.process


OPS = attached_ops(Node)
HCA0 = NetworkConfig(rdma=RdmaConfig(name="hca0"))


@pytest.fixture
def node() -> Node:
    """Return a fresh node."""
    return Node()


# --------------------------------------------------------------------------- attach


@pytest.mark.parametrize("destination", ["0.0.0.0/0", "::/0"])
def test_device_that_became_the_uplink_is_refused(node: Node, destination: str) -> None:
    gateway = "10.0.2.1" if destination == "0.0.0.0/0" else "fe80::1"
    node.kernel.space().add_route("arrange", "eth2", Route(destination, gateway, metric=100))
    node.start = node.host()

    message = refusal(node, given(pci(2)))

    assert (
        "device nic-2: eth2: the node's default route goes through it; it stays on the" in message
    )
    better = Route(destination, gateway.replace("10.0.2", "10.0.4"), metric=50)
    node.kernel.space().add_route("arrange", "eth4", better)
    node.attach((claim(DATA, given(pci(2))),))
    assert node.kernel.state("eth2", node.netns) is not None


def test_ethtool_settings_are_refused_on_a_kernel_without_feature_support(node: Node) -> None:
    node.kernel.reports_features = False

    message = refusal(node, given(pci(1), NAMED))

    assert message == "device nic-1: ethtool needs Linux 5.7 or newer on the node; remove it"
    node.attach((claim(DATA, given(pci(2))),))
    node.detach()
    node.assert_restored()


def test_nic_below_a_tunnel_of_the_host_is_refused(node: Node) -> None:
    below = node.kernel.space().named("arrange", "eth2").link.index
    node.kernel.add_link("flannel.1", link=Link(0, "flannel.1", kind="vxlan", lower=below))

    message = refusal(node, given(pci(2)))

    assert (
        "device nic-2: eth2: carries flannel.1, which the kernel deletes when it leaves" in message
    )
    assert node.kernel.state("flannel.1") is not None


def test_nic_below_a_vlan_with_host_addresses_is_refused(node: Node) -> None:
    below = node.kernel.space().named("arrange", "eth2").link.index
    vlan, address = Link(0, "vlan7", kind="vlan", lower=below), Address("10.7.0.5/24")
    node.kernel.add_link("vlan7", link=vlan, addresses=(address,))

    message = refusal(node, given(pci(2)))

    assert "device nic-2: eth2: carries vlan7, a VLAN that the host uses: its routes and" in message
    node.kernel.space().named("arrange", "vlan7").addresses.clear()
    node.attach((claim(DATA, given(pci(2))),))
    assert node.kernel.state("eth2", node.netns) is not None


def test_both_claims_are_attached_and_their_records_describe_the_devices(node: Node) -> None:
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
    assert first.char_devices == (RDMA_CM, CharDevice("/dev/infiniband/uverbs1", 231, 193))
    assert [(rdma.name, rdma.index) for rdma in first.rdma] == [("mlx5_1", 1)]
    assert (second.pod_name, second.mac, second.mtu) == ("eth2", "02:00:00:00:00:02", 1500)
    assert [device.device.name for device in storage.devices] == ["nic-3"], (
        "adminAccess moves nothing"
    )


def test_host_routes_that_cannot_be_restored_are_reported(node: Node) -> None:
    routes = tuple(f"10.{n}.0.0/16 in table 254, which has nexthop object 7" for n in range(4))
    node.kernel.space().named("arrange", "eth1").unrestorable = routes
    data, _ = node.attach()

    (warning,) = data.devices[0].warnings
    assert warning.startswith(f"not restored on the host: route {routes[0]}; {routes[1]}")
    assert routes[3] not in warning
    assert "and others" in warning
    assert node.executor.verify(data, None) == data
    assert node.executor.verify(data, CLAIMS[0]) == data
    node.detach()
    assert node.journal.records[DATA].phase is Phase.RESTORED


def test_stable_secret_is_restored_before_addr_gen_mode(node: Node) -> None:
    secret = Sysctl("ipv6", "stable_secret", "2001:0db8:0000:0000:0000:0000:0000:0007")
    node.kernel.space().named("arrange", "eth1").set_sysctl("arrange", secret)
    mode = Sysctl("ipv6", "addr_gen_mode", "2")

    data, _ = node.attach()
    assert data.devices[0].snapshot is not None
    assert {secret, mode} < {*data.devices[0].snapshot.sysctls}
    node.detach()

    assert node.journal.records[DATA].phase is Phase.RESTORED
    restored = node.kernel.state("eth1")
    assert restored is not None
    assert {secret, mode} < {*restored.sysctls}


def test_snapshot_contains_the_host_state_that_a_move_resets(node: Node) -> None:
    before = node.kernel.state("eth1")
    assert before is not None
    lost = (Sysctl("ipv4", "rp_filter", "2"),)
    assert set(lost) < set(before.sysctls)
    own = replace(before, sysctls=lost, ethtool=node.ethtool("eth1"), tcx=node.tcx("eth1"))

    data, _ = node.attach()

    assert own.ethtool
    assert own.tcx
    assert data.devices[0].snapshot == own
    assert data.devices[0].snapshot_s == 1000


def test_record_is_written_before_the_first_and_after_the_last_operation(
    node: Node,
) -> None:
    node.journal.now = lambda: len(node.kernel.log)

    node.attach()

    assert list(
        zip(node.journal.times, (record.phase for record in node.journal.history), strict=True)
    ) == [
        (0, Phase.INTENT),
        (0, Phase.INTENT),
        (OPS, Phase.ATTACHED),
        (OPS, Phase.ATTACHED),
    ]
    assert all(device.snapshot is not None for device in node.journal.history[0].devices)


def test_rdma_device_without_an_interface_is_moved_alone(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(RDMA_ONLY)),))

    assert node.kernel.log == [MoveRdma(Ns.HOST, 0, Ns.POD, "mlx5_9")]
    assert record.phase is Phase.ATTACHED
    assert record.devices == (
        AttachedDevice(
            "efa",
            RDMA_ONLY,
            rdma=(RdmaLink(0, "mlx5_9"),),
            char_devices=(RDMA_CM, CharDevice("/dev/infiniband/uverbs0", 231, 192)),
        ),
    )
    assert node.executor.verify(record, None) == record
    assert node.executor.detach(record, netns_exists=True).phase is Phase.RESTORED
    node.assert_restored()


def test_second_attach_runs_no_operations(node: Node) -> None:
    first, _ = node.attach()

    second, _ = node.attach()

    assert len(node.kernel.log) == OPS
    assert second == replace(first, attempt=2)


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param(
            (
                claim(DATA, given(pci(1), NAMED)),
                claim(STORAGE, given(pci(2), NetworkConfig(InterfaceConfig(name="net1")))),
            ),
            "'net1' is requested for two devices",
            id="one name for two devices of two claims",
        ),
        pytest.param(
            (claim(DATA, given(pci(1), HCA0), given(pci(2), HCA0)),),
            "rdma name 'hca0' is requested for two devices",
            id="one name for the RDMA devices of two",
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
def test_refused_pod_changes_nothing_and_the_reason_is_recorded(
    node: Node, claims: tuple[Allocation, ...], expected: str
) -> None:
    with pytest.raises(RefusedError, match=expected) as caught:
        node.attach(claims)

    assert node.kernel.log == []
    assert set(node.journal.phases().values()) == {Phase.FAILED}
    failure = failure_of(node)
    assert failure == Failure(ATTACH_FAILED, str(caught.value), node.clock.wall(), 1)
    node.assert_restored()


def test_record_above_the_route_limit_is_refused_before_any_operation(
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
    node.assert_restored()


def test_failure_count_grows_for_one_pod_and_restarts_for_the_next(node: Node) -> None:
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


def test_namespace_that_cannot_be_entered_is_recorded_as_a_failure(node: Node) -> None:
    node.kernel.release(node.netns)

    with pytest.raises(AttachError, match="enter the pod's network namespace failed"):
        node.attach()

    assert node.journal.phases() == {DATA: Phase.FAILED, STORAGE: Phase.FAILED}
    assert "not referenced" in failure_of(node).message
    node.assert_restored()


def test_failed_kernel_read_is_recorded_as_a_failure(node: Node) -> None:
    node.kernel.fail_observe()

    with pytest.raises(KernelError):
        node.attach()

    assert node.journal.phases() == {DATA: Phase.FAILED, STORAGE: Phase.FAILED}
    node.assert_restored()


def test_external_refusal_is_recorded_unless_a_record_places_the_device(
    node: Node,
) -> None:
    node.executor.refuse(POD, CLAIMS, {}, "no namespace")

    assert failure_of(node) == Failure(ATTACH_FAILED, "no namespace", node.clock.wall(), 1)
    assert failure_of(node, STORAGE).message == "no namespace"

    node.attach()
    before = dict(node.journal.records)
    node.executor.refuse(POD, CLAIMS, before, "held elsewhere")
    assert node.journal.records == before
