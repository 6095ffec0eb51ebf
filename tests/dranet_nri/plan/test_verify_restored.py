"""Result of one restore try, and its message."""

from dataclasses import replace
from errno import EINVAL, ENETUNREACH

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.model import (
    Device,
    DeviceKey,
    Link,
    LinkState,
    NextHop,
    Ns,
    Observed,
    ObservedRdma,
    RdmaLink,
    RdmaMode,
    Route,
    Sysctl,
)
from dranet_nri.plan.ops import AddRoute, Op, SetSysctl
from dranet_nri.plan.restore import RestoreTarget
from dranet_nri.plan.retry import RestoreResult, verify_restored

MLX5 = RdmaLink(3, "mlx5_2", "0c42:a103:0065:5a1e")
NIC = Device("nic-2", DeviceKey("pci", "0000:02:00.0", "eth2", "0000:02:00.0"))
VIRTUAL = Device("dummy", DeviceKey("", "", "dummy0"))
PLAIN = LinkState(Link(4, "eth2", bus="pci", parent="0000:02:00.0", mac="02:00:00:00:00:02"))
ROUTE, FILTER = Route("10.9.0.0/16", gateway="10.1.0.1"), Sysctl("ipv4", "rp_filter", "2")
WANTED = RestoreTarget(
    replace(PLAIN, link=replace(PLAIN.link, up=True), routes=(ROUTE,)), rdma=(MLX5,)
)
UP = LinkState(replace(PLAIN.link, up=True))

Failed = list[tuple[Op, KernelError]]
NO_ROUTE: Failed = [
    (AddRoute(Ns.HOST, "eth2", ROUTE), KernelError("add route 10.9.0.0/16", ENETUNREACH))
]
NO_ROUTE_TEXT = (
    "device nic-2 (eth2): add route 10.9.0.0/16: ENETUNREACH; its gateway is not reachable: an"
    " address or a route to it was deleted; add that again"
)
NO_SYSCTL: Failed = [
    (SetSysctl(Ns.HOST, "eth2", FILTER), KernelError("set sysctl rp_filter", EINVAL))
]
LOST = "RDMA device mlx5_2 is gone: load its driver again"


def rdma(host: tuple[RdmaLink, ...] = (), pod: tuple[RdmaLink, ...] = ()) -> ObservedRdma:
    return ObservedRdma(RdmaMode.EXCLUSIVE, host, pod)


def result_of(
    observed: Observed,
    failed: Failed | None = None,
    target: RestoreTarget = WANTED,
    device: Device = NIC,
    *,
    netns_exists: bool = True,
    tries_left: bool = True,
) -> RestoreResult:
    return verify_restored(
        device, target, observed, failed or [], netns_exists=netns_exists, tries_left=tries_left
    )


AT_HOME = Observed(host=WANTED.snapshot, rdma=rdma(host=(MLX5,)))
ROUTELESS = Observed(host=UP, rdma=rdma(host=(MLX5,)))


def test_unchanged_device_is_restored_without_a_message() -> None:
    assert result_of(AT_HOME) == RestoreResult(restored=True, usable=True)


def test_rejected_operation_is_reported_and_given_up_after_the_limit() -> None:
    given_back = f"{NO_ROUTE_TEXT}; restored without it after 10 tries"

    assert result_of(ROUTELESS, NO_ROUTE) == RestoreResult(
        restored=False, text=NO_ROUTE_TEXT, usable=True
    )
    assert result_of(ROUTELESS, NO_ROUTE, tries_left=False) == RestoreResult(
        restored=True, text=given_back, usable=True
    )


def test_permanently_rejected_operation_is_given_up_at_once() -> None:
    desired = replace(WANTED, snapshot=replace(UP, sysctls=(FILTER,)))

    back = result_of(ROUTELESS, NO_SYSCTL, desired)

    assert (back.restored, back.usable) == (True, True)
    assert back.text.endswith(
        "set sysctl rp_filter: EINVAL; the kernel no longer accepts that value; set it"
        " by hand; restored without it"
    )


def test_missing_virtual_device_counts_as_restored_with_the_reason() -> None:
    desired = RestoreTarget(LinkState(Link(5, "dummy0")))

    assert result_of(Observed(), target=desired, device=VIRTUAL).text.startswith(
        "device dummy (dummy0) no longer exists: it was deleted"
    )
    ambiguous = result_of(Observed(ambiguous=("ib0", "ib1")), target=desired, device=VIRTUAL)
    assert not ambiguous.restored
    assert "ib0" in ambiguous.text


def test_deleted_child_of_a_virtual_device_is_restored_without_a_message() -> None:
    desired = RestoreTarget(None, child=True)

    assert result_of(Observed(), target=desired, device=VIRTUAL) == RestoreResult(
        restored=True, usable=True
    )


def test_missing_hardware_is_never_given_up() -> None:
    assert not result_of(Observed(), NO_ROUTE, tries_left=False).restored


def test_rdma_device_in_a_dying_namespace_is_awaited_without_a_message() -> None:
    nowhere = replace(AT_HOME, rdma=rdma())

    assert result_of(nowhere, netns_exists=False) == RestoreResult(restored=False)
    assert result_of(nowhere) == RestoreResult(restored=False, text=LOST)


def test_rdma_device_returned_under_another_name_is_reported() -> None:
    misnamed = replace(AT_HOME, rdma=rdma(host=(replace(MLX5, name="hca0"),)))

    assert "is called hca0" in result_of(misnamed, netns_exists=False).text


TAKEN = (
    "interface eth2 is called dra4: its name is taken; give the link that has it another"
    " (ip link set eth2 name NAME; ip link property del dev LINK altname eth2 if it is an"
    " alternative one)"
)


@pytest.mark.parametrize("netns_exists", [True, False])
def test_interface_with_a_taken_name_is_awaited_with_a_message(*, netns_exists: bool) -> None:
    spare = replace(WANTED.snapshot or PLAIN, link=replace(UP.link, name="dra4"))
    misnamed = replace(AT_HOME, host=spare, taken_host_names=frozenset({"eth2"}))

    assert result_of(misnamed, netns_exists=netns_exists, tries_left=False) == RestoreResult(
        restored=False, text=TAKEN
    )
    assert result_of(replace(misnamed, rdma=rdma())).text == f"{TAKEN}; {LOST}"
    assert result_of(misnamed, NO_ROUTE).text == NO_ROUTE_TEXT


@pytest.mark.parametrize(
    ("there", "text"),
    [
        pytest.param(rdma(), LOST, id="gone"),
        pytest.param(
            rdma(host=(replace(MLX5, name="hca0"),)),
            "RDMA device mlx5_2 is called hca0: its name is taken; give the device that has it"
            " another (rdma dev set mlx5_2 name NAME)",
            id="renamed",
        ),
        pytest.param(rdma(pod=(MLX5,)), "RDMA device mlx5_2 is still in the pod", id="away"),
    ],
)
def test_missing_rdma_device_is_never_given_up(there: ObservedRdma, text: str) -> None:
    back = result_of(replace(ROUTELESS, rdma=there), NO_ROUTE, tries_left=False)

    assert (back.restored, back.usable) == (False, False)
    assert back.text == f"{NO_ROUTE_TEXT}; {text}"


def test_rdma_device_of_a_virtual_device_is_not_awaited_on_the_host() -> None:
    soft = RestoreTarget(LinkState(Link(5, "dummy0")), rdma=(MLX5,))
    here = Observed(host=soft.snapshot, rdma=rdma())

    assert result_of(here, target=soft, device=VIRTUAL) == RestoreResult(
        restored=True, text=LOST, usable=True
    )
    rdma_in_pod = replace(here, rdma=rdma(pod=(MLX5,)))
    assert not result_of(rdma_in_pod, target=soft, device=VIRTUAL).restored


def test_operation_without_effect_is_reported_and_given_up_like_a_refusal() -> None:
    reported = (
        "device nic-2 (eth2): without effect: add route 10.9.0.0/16 via 10.1.0.1 dev eth2 in host"
    )

    assert result_of(ROUTELESS) == RestoreResult(restored=False, text=reported, usable=True)
    assert (
        result_of(ROUTELESS, tries_left=False).text
        == f"{reported}; restored without it after 10 tries"
    )


def test_ipv4_route_without_one_nexthop_is_reported_and_counts_as_restored() -> None:
    nexthops = (NextHop("10.1.0.1"), NextHop("10.3.0.1", device="eth3"))
    desired = RestoreTarget(replace(UP, routes=(Route("10.9.0.0/16", nexthops=nexthops),)))
    partly = replace(UP, routes=(Route("10.9.0.0/16", gateway="10.1.0.1"),))

    assert result_of(Observed(host=partly), target=desired) == RestoreResult(
        restored=True,
        text="device nic-2 (eth2): route 10.9.0.0/16 without its nexthop over eth3, which is not on"
        " the host",
        usable=True,
    )


def test_absent_master_and_taken_altname_are_reported_and_count_as_restored() -> None:
    names = replace(UP.link, altnames=("enp2s0", "rail2"))
    desired = RestoreTarget(LinkState(names, master_name="blue"))
    now = LinkState(replace(names, altnames=("rail2",)))

    assert result_of(
        Observed(host=now, taken_host_names=frozenset({"eth9", "enp2s0"})), target=desired
    ) == RestoreResult(
        restored=True,
        text="device nic-2 (eth2): its master blue is not on the host; create it, then add the link"
        " again (ip link set eth2 master blue); device nic-2 (eth2): another link has its altname"
        " enp2s0; delete that, then add it again (ip link property add dev eth2 altname enp2s0)",
        usable=True,
    )
