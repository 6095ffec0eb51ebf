"""Attach plans for an IP-over-InfiniBand link that the kernel recreates during the move."""

from dataclasses import replace

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    InterfaceConfig,
    IpoibState,
    LinkState,
    NetworkConfig,
    Ns,
    Observed,
    ObservedRdma,
    OffloadSizes,
    RdmaLink,
    RdmaMode,
    Switches,
)
from dranet_nri.plan.ops import LinkSettings, MoveLink, MoveRdma, Plan, SetLink, SetUp
from dranet_nri.plan.planner import AttachTarget, make_plan
from dranet_nri.plan.pod_network import pod_network
from tests.dranet_nri.plan.examples import NIC

CONNECTED, DATAGRAM = IpoibState(connected=True, umcast=True), IpoibState(connected=False)
MLX5 = RdmaLink(3, "mlx5_2", "0c42:a103:0065:5a1e")
LINK = replace(NIC, kind="ipoib", arphrd=32, mac="80:00:10:29:fe:80", max_mtu=65520)
HOST = LinkState(replace(LINK, mtu=65520, ipoib=CONNECTED, txqlen=4096, flags=0x1200, group=7))
ANEW = LinkState(
    replace(LINK, index=9, mtu=2044, ipoib=DATAGRAM, txqlen=256, flags=0x1000, group=0, up=False)
)
ON_HOST = Observed(host=HOST, rdma=ObservedRdma(RdmaMode.EXCLUSIVE, (MLX5,)))


def into_pod(
    interface: InterfaceConfig = InterfaceConfig(), host: LinkState = HOST
) -> AttachTarget:
    return AttachTarget(pod_network(NetworkConfig(interface), host), host, (MLX5,))


def made_anew(now: LinkState = ANEW) -> Observed:
    return Observed(pod=now, rdma=ObservedRdma(RdmaMode.EXCLUSIVE, pod=(MLX5,)))


def set_in_pod(*settings: LinkSettings) -> Plan:
    return (*(SetLink(Ns.POD, "eth1", setting) for setting in settings), SetUp(Ns.POD, "eth1"))


def test_recreated_ipoib_link_gets_the_host_settings_with_the_mode_before_the_mtu() -> None:
    rest = LinkSettings(txqlen=4096, flags=0x1200, group=7)

    ops = make_plan(into_pod(), made_anew())

    assert ops == set_in_pod(rest, LinkSettings(ipoib=CONNECTED), LinkSettings(mtu=65520))
    assert make_plan(into_pod(), made_anew(HOST)) == ()


def test_claimed_settings_take_precedence() -> None:
    desired = into_pod(InterfaceConfig(mtu=9000, gso_max_size=32768))
    rest = LinkSettings(txqlen=4096, sizes=OffloadSizes(gso=32768), flags=0x1200, group=7)

    ops = make_plan(desired, made_anew())

    assert ops == set_in_pod(rest, LinkSettings(ipoib=CONNECTED), LinkSettings(mtu=9000))


def test_claimed_hardware_address_is_planned() -> None:
    ops = make_plan(into_pod(InterfaceConfig(hardware_addr="02:00:00:00:00:99")), made_anew(HOST))

    assert ops == (SetLink(Ns.POD, "eth1", LinkSettings(mac="02:00:00:00:00:99")),)


def test_link_of_unknown_ipoib_mode_keeps_the_settings_of_the_kernel() -> None:
    old = replace(HOST, link=replace(HOST.link, ipoib=None))

    assert make_plan(into_pod(host=old), made_anew()) == set_in_pod()


def test_link_moved_without_its_rdma_device_keeps_its_settings() -> None:
    desired = replace(into_pod(), rdma=())

    (move,) = (op for op in make_plan(desired, ON_HOST) if isinstance(op, MoveLink))

    assert move.settings == LinkSettings()


@pytest.mark.parametrize(
    ("mode", "mtu", "message"),
    [
        pytest.param(DATAGRAM, 4092, "", id="the most in datagram mode"),
        pytest.param(
            DATAGRAM,
            4093,
            "interface.mtu 4093 is above what device eth1 can do in datagram mode; its maximum is"
            " 4092; lower it, or put eth1 into connected mode on the host",
            id="above that",
        ),
        pytest.param(DATAGRAM, 72, "", id="the least in datagram mode"),
        pytest.param(
            DATAGRAM,
            71,
            "interface.mtu 71 is below what device eth1 can do in datagram mode; its minimum is 72",
            id="below that",
        ),
        pytest.param(CONNECTED, 65520, "", id="the most in connected mode"),
        pytest.param(
            CONNECTED,
            65521,
            "interface.mtu 65521 is above what device eth1 can do in connected mode; its maximum is"
            " 65520",
            id="above that as well",
        ),
    ],
)
@pytest.mark.parametrize("reported", [0, 65520, 65535])
def test_mtu_unsupported_by_the_ipoib_mode_is_refused_before_any_move(
    mode: IpoibState, mtu: int, message: str, reported: int
) -> None:
    host = LinkState(replace(HOST.link, ipoib=mode, mtu=2044, max_mtu=reported))
    desired, observed = into_pod(InterfaceConfig(mtu=mtu), host), replace(ON_HOST, host=host)

    if not message:
        assert make_plan(desired, observed) == (MoveRdma(Ns.HOST, 3, Ns.POD, "mlx5_2"),)
        return
    with pytest.raises(RefusedError) as caught:
        make_plan(desired, observed)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("features", "flags"),
    [
        pytest.param(Switches(on=("tx-gso",)), Switches(), id="feature"),
        pytest.param(Switches(), Switches(off=("rx_pause",)), id="private flag"),
    ],
)
def test_ethtool_settings_of_a_recreated_link_are_refused_before_any_move(
    features: Switches, flags: Switches
) -> None:
    plain = into_pod()
    assert plain.network is not None
    network = replace(plain.network, features=features, private_flags=flags)

    with pytest.raises(
        RefusedError, match=r"ethtool for device eth1: .* recreates .*; remove ethtool"
    ):
        make_plan(replace(plain, network=network), ON_HOST)
    moved = make_plan(replace(plain, network=network, rdma=()), ON_HOST)
    assert MoveLink in map(type, moved), "alone it stays the same link"
