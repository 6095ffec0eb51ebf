"""Texts of operations, as operators read them."""

import pytest

from dranet_nri.model import (
    Address,
    Neighbour,
    NextHop,
    Ns,
    OffloadSizes,
    Route,
    Rule,
    Sysctl,
    TcxProgram,
    TcxSide,
    XdpMode,
)
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    AddNeighbour,
    AddRoute,
    AddRule,
    DelAltname,
    LinkSettings,
    MoveLink,
    Op,
    RenameLink,
    SetDown,
    SetLink,
    SetMaster,
    SetSysctl,
    SetUp,
)
from dranet_nri.plan.settings.programs import AttachTcx, DetachTcx, DetachXdp, DisableTcx

ADDRESS = Address("10.1.0.5/24")
RULE = Rule(4, 100, source="10.1.0.5/32", destination="10.9.0.0/16", table=100, oif="net1")
LEGS = (NextHop("10.1.0.1"), NextHop("10.3.0.1", device="eth2"))
SETTINGS = LinkSettings(
    9000, "02:00:00:00:00:01", 0, "", OffloadSizes(1, 2, 3, 4), flags=0x1080, group=7, kept="05"
)


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (SetDown(Ns.HOST, 7), "set link 7 down in host"),
        (RenameLink(Ns.POD, 7, "eth1"), "rename link 7 to eth1 in pod"),
        (MoveLink(Ns.HOST, 7, Ns.POD, "net1"), "move link 7 from host to pod as net1"),
        (
            MoveLink(Ns.POD, 7, Ns.HOST, "eth1", LinkSettings(mtu=1500)),
            "move link 7 from pod to host as eth1 with mtu 1500",
        ),
        (
            SetLink(Ns.POD, "net1", SETTINGS),
            "set mtu 9000, mac 02:00:00:00:00:01, txqlen 0, alias '', gso 1, gro 2, gso_ipv4 3,"
            " gro_ipv4 4, flags 0x1080, group 7, kept 05 on net1 in pod",
        ),
        (SetUp(Ns.POD, "net1"), "set net1 up in pod"),
        (AddAltname(Ns.HOST, "eth1", "enp1"), "add altname enp1 to eth1 in host"),
        (DelAltname(Ns.HOST, 7, "enp1"), "delete altname enp1 of link 7 in host"),
        (
            DetachXdp(Ns.POD, 7, XdpMode.GENERIC),
            "detach the generic XDP program of link 7 in pod",
        ),
        (
            AttachTcx(Ns.HOST, "eth1", TcxProgram(TcxSide.EGRESS, 7)),
            "attach TCX program 7 (egress) to eth1 in host",
        ),
        (DisableTcx(Ns.HOST, "eth1"), "detach all TCX programs of eth1 in host"),
        (
            DetachTcx(Ns.HOST, "eth1", (TcxProgram(TcxSide.INGRESS, 7),)),
            "detach the TCX programs of eth1 in host, 1 stay",
        ),
        (SetMaster(Ns.HOST, "eth1", "br0"), "set master of eth1 to br0 in host"),
        (SetMaster(Ns.HOST, "eth1", ""), "set master of eth1 to none in host"),
        (AddAddress(Ns.POD, "net1", ADDRESS), "add address 10.1.0.5/24 to net1 in pod"),
        (
            AddRoute(Ns.POD, "net1", Route("10.9.0.0/16", gateway="10.1.0.1", table=100)),
            "add route 10.9.0.0/16 via 10.1.0.1 dev net1 table 100 in pod",
        ),
        (
            AddRoute(Ns.HOST, "eth1", Route("10.9.0.0/16", tos=16)),
            "add route 10.9.0.0/16 tos 16 dev eth1 in host",
        ),
        (AddRoute(Ns.POD, "net1", Route("::/0")), "add route ::/0 dev net1 in pod"),
        (
            AddRoute(Ns.POD, "net1", Route("10.9.0.0/16", nexthops=LEGS)),
            "add route 10.9.0.0/16 via 10.1.0.1 and 10.3.0.1 eth2 dev net1 in pod",
        ),
        (
            AddRule(Ns.POD, RULE),
            "add rule 100 from 10.1.0.5/32 to 10.9.0.0/16 oif net1 lookup 100 in pod",
        ),
        (
            AddNeighbour(Ns.POD, "net1", Neighbour("10.1.0.1", "02:00:00:00:00:01")),
            "add neighbour 10.1.0.1 at 02:00:00:00:00:01 to net1 in pod",
        ),
        (
            AddNeighbour(Ns.POD, "net1", Neighbour("10.1.0.1", "", proxy=True)),
            "add neighbour 10.1.0.1 at no address to net1 in pod",
        ),
        (
            SetSysctl(Ns.POD, "net1", Sysctl("ipv4", "arp_ignore", "1")),
            "set sysctl net/ipv4/conf/net1/arp_ignore to 1 in pod",
        ),
        (
            SetSysctl(Ns.HOST, "eth1", Sysctl("ipv6", "stable_secret", "2001:db8::1")),
            "set sysctl net/ipv6/conf/eth1/stable_secret to what it was in host",
        ),
        (
            SetSysctl(Ns.HOST, "eth1", Sysctl("ipv6", "token", "::5")),
            "set IPv6 token of eth1 to ::5 in host",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_operations_are_printed(op: Op, text: str) -> None:
    assert str(op) == text
