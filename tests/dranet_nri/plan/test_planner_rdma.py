"""Plans for RDMA devices: attach and restore."""

from dataclasses import replace

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    Link,
    LinkState,
    Ns,
    Observed,
    ObservedRdma,
    RdmaLink,
    RdmaMode,
)
from dranet_nri.plan.ops import MoveLink, MoveRdma, RenameRdma, SetLink
from dranet_nri.plan.planner import AttachTarget, is_incomplete, is_restored, is_usable, make_plan
from dranet_nri.plan.pod_network import PodNetwork
from dranet_nri.plan.restore import RestoreTarget

GUID = "0c42:a103:0065:5a1e"
MLX5 = RdmaLink(3, "mlx5_2", GUID)
REBORN = RdmaLink(7, "mlx5_5", GUID)
ETHERNET = LinkState(Link(4, "eth1", bus="pci", parent="0000:8a:00.0", mac="02:00:00:00:00:01"))
IPOIB = replace(ETHERNET, link=replace(ETHERNET.link, name="ib0", arphrd=32, mac="00:11:22:33"))
NET = PodNetwork("net1")


def rdma(
    host: tuple[RdmaLink, ...] = (),
    pod: tuple[RdmaLink, ...] = (),
    taken_host: frozenset[str] = frozenset(),
    taken_pod: frozenset[str] = frozenset(),
) -> ObservedRdma:
    return ObservedRdma(RdmaMode.EXCLUSIVE, host, pod, taken_host, taken_pod)


def test_rdma_device_is_moved_to_the_pod_before_its_net_device() -> None:
    desired = AttachTarget(NET, ETHERNET, (MLX5,))

    ops = make_plan(desired, Observed(host=ETHERNET, rdma=rdma(host=(MLX5,))))

    assert ops[0] == MoveRdma(Ns.HOST, 3, Ns.POD, "mlx5_2")
    assert any(isinstance(op, MoveLink) for op in ops[1:])
    assert str(ops[0]) == "move RDMA device mlx5_2 from host to pod"


def test_rdma_device_without_a_net_device_is_moved_alone() -> None:
    ops = make_plan(AttachTarget(rdma=(MLX5,)), Observed(rdma=rdma(host=(MLX5,))))

    assert ops == (MoveRdma(Ns.HOST, 3, Ns.POD, "mlx5_2"),)


def test_rdma_device_in_the_pod_is_not_moved() -> None:
    assert make_plan(AttachTarget(rdma=(MLX5,)), Observed(rdma=rdma(pod=(MLX5,)))) == ()


def test_rdma_name_is_set_in_the_pod_after_the_move() -> None:
    ops = make_plan(AttachTarget(rdma=(MLX5,), rdma_name="hca0"), Observed(rdma=rdma(host=(MLX5,))))

    assert ops == (MoveRdma(Ns.HOST, 3, Ns.POD, "mlx5_2"), RenameRdma(Ns.POD, 3, "hca0"))
    assert str(ops[1]) == "rename RDMA device 3 to hca0 in pod"


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param(rdma(host=(MLX5,), taken_host=frozenset({"hca0"})), id="on the host"),
        pytest.param(rdma(host=(MLX5,), taken_pod=frozenset({"hca0"})), id="in the pod"),
    ],
)
def test_taken_rdma_name_is_refused(observed: ObservedRdma) -> None:
    with pytest.raises(RefusedError, match=r"rdma\.name 'hca0' is taken; set rdma.name to another"):
        make_plan(AttachTarget(rdma=(MLX5,), rdma_name="hca0"), Observed(rdma=observed))


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param(rdma(), id="nowhere"),
        pytest.param(rdma(host=(REBORN,)), id="reborn"),
        pytest.param(rdma(host=(RdmaLink(3, "mlx5_9", "1:2:3:4"),)), id="index reused"),
    ],
)
def test_missing_rdma_device_is_refused_with_the_remedy(observed: ObservedRdma) -> None:
    with pytest.raises(RefusedError, match="mlx5_2 is neither on the host nor in the pod: its dri"):
        make_plan(AttachTarget(rdma=(MLX5,)), Observed(rdma=observed))


def test_rdma_device_is_moved_to_the_host_before_its_net_device() -> None:
    renamed = replace(MLX5, name="hca0")
    desired = RestoreTarget(ETHERNET, rdma=(MLX5,))

    ops = make_plan(desired, Observed(pod=ETHERNET, rdma=rdma(pod=(renamed,))))

    assert ops[:2] == (RenameRdma(Ns.POD, 3, "mlx5_2"), MoveRdma(Ns.POD, 3, Ns.HOST, "mlx5_2"))
    assert any(isinstance(op, MoveLink) for op in ops[2:])
    assert not is_restored(desired, Observed(host=ETHERNET, rdma=rdma(pod=(renamed,))))


def test_missing_rdma_device_gives_an_empty_plan() -> None:
    assert make_plan(RestoreTarget(None, rdma=(MLX5,)), Observed(rdma=rdma())) == ()


def test_taken_host_name_does_not_prevent_the_move_of_an_rdma_device() -> None:
    renamed = replace(MLX5, name="hca0")
    observed = rdma(pod=(renamed,), taken_host=frozenset({"mlx5_2"}))

    ops = make_plan(RestoreTarget(None, rdma=(MLX5,)), Observed(rdma=observed))

    assert ops == (MoveRdma(Ns.POD, 3, Ns.HOST, "hca0"),)


def test_rdma_device_returned_by_the_kernel_is_renamed_on_the_host() -> None:
    renamed = replace(MLX5, name="hca0")
    desired = RestoreTarget(None, rdma=(MLX5,))

    assert make_plan(desired, Observed(rdma=rdma(host=(renamed,)))) == (
        RenameRdma(Ns.HOST, 3, "mlx5_2"),
    )
    assert not is_restored(desired, Observed(rdma=rdma(host=(renamed,))))
    assert not is_usable(desired, Observed(rdma=rdma(host=(renamed,))))


@pytest.mark.parametrize(
    ("observation", "verdict"),
    [
        pytest.param(rdma(host=(MLX5,)), (True, True), id="on the host"),
        pytest.param(rdma(pod=(MLX5,)), (False, False), id="in the pod"),
        pytest.param(rdma(), (False, False), id="gone"),
        pytest.param(rdma(host=(REBORN,)), (True, True), id="its driver was reloaded"),
    ],
)
def test_rdma_device_is_restored_with_its_index_or_recreated(
    observation: ObservedRdma, verdict: tuple[bool, bool]
) -> None:
    desired, observed = RestoreTarget(None, rdma=(MLX5,)), Observed(rdma=observation)

    assert (is_restored(desired, observed), is_usable(desired, observed)) == verdict


def test_recreated_rdma_device_does_not_count_for_one_in_the_pod() -> None:
    desired = RestoreTarget(None, rdma=(MLX5, RdmaLink(4, "mlx5_3")))
    observed = rdma(host=(REBORN,), pod=(RdmaLink(4, "mlx5_3"),))

    assert not is_restored(desired, Observed(rdma=observed))


def test_move_that_recreates_the_net_device_ends_the_plan() -> None:
    into = AttachTarget(NET, IPOIB, (MLX5,))
    target = RestoreTarget(IPOIB, rdma=(MLX5,))

    first = make_plan(into, Observed(host=IPOIB, rdma=rdma(host=(MLX5,))))
    back = make_plan(target, Observed(pod=IPOIB, rdma=rdma(pod=(MLX5,))))

    assert first == (MoveRdma(Ns.HOST, 3, Ns.POD, "mlx5_2"),)
    assert back == (MoveRdma(Ns.POD, 3, Ns.HOST, "mlx5_2"),)
    assert is_incomplete(IPOIB, first)
    assert not is_incomplete(IPOIB, make_plan(into, Observed(host=IPOIB, rdma=rdma(pod=(MLX5,)))))
    assert not is_incomplete(ETHERNET, first)
    assert not is_incomplete(None, first)


def test_address_of_an_ipoib_link_is_not_restored() -> None:
    recreated = replace(IPOIB, link=replace(IPOIB.link, mac="00:99:22:33", index=9, mtu=9000))

    ops = make_plan(RestoreTarget(IPOIB), Observed(host=recreated))

    (op,) = ops
    assert isinstance(op, SetLink)
    assert (op.settings.mac, op.settings.mtu) == (None, 1500)
