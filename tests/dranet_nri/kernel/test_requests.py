"""Requests for addresses, routes and link settings, against those that pyroute2 encodes."""

import struct
from collections.abc import Mapping, Sequence
from errno import ENODEV
from typing import Any

import pytest
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from dranet_nri.errors import KernelError
from dranet_nri.kernel.ip.addresses import put_address
from dranet_nri.kernel.ip.route_requests import route_request
from dranet_nri.kernel.links import MoveEnd, move, rename, set_master, set_settings
from dranet_nri.linux.netlink.codec import HEADER_LEN, attribute, walk
from dranet_nri.linux.netlink.links import INFO, RTM_GETLINK
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import Address, IpoibState, NextHop, Ns, OffloadSizes, Route
from dranet_nri.plan.ops import LinkSettings, MoveLink

INDEX, TABLE = 5, 1000
IPOIB_MAC = "00:00:10:29:fe:80:00:00:00:00:00:00:00:15:5d:ff:fd:33:ff:05"

Attrs = Sequence[tuple[str, object]]


class Recorder(RtnetlinkSocket):
    """A socket of a namespace with one link; it records what is requested to change."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.requests: list[bytes] = []

    def do(self, what: str, kind: int, flags: int, body: bytes) -> None:
        self.requests.append(body)

    def get(self, what: str, kind: int, body: bytes) -> bytes:
        assert kind == RTM_GETLINK
        if not self._names or (len(body) > 24 and self._names[0].encode() not in body):
            raise KernelError(what, ENODEV, "no such link")
        named = attribute(3, self._names[0].encode() + b"\0")
        return INFO.pack(0, 1, INDEX, 0, 0) + named


def encoded(message: Any, fields: Mapping[str, int], attrs: Attrs) -> bytes:
    """Return the body as pyroute2 encodes it."""
    request = message()
    request.update(fields)
    request["attrs"] = [list(attr) for attr in attrs]
    request.encode()
    return bytes(request.data[HEADER_LEN:])


@pytest.mark.parametrize(
    ("address", "fields", "attrs"),
    [
        (
            Address("10.1.0.5/24"),
            {"family": 2, "prefixlen": 24},
            [("IFA_LOCAL", "10.1.0.5"), ("IFA_ADDRESS", "10.1.0.5")],
        ),
        (
            Address("fd00::5/64", scope=253, flags=0x202, valid_s=60, preferred_s=30),
            {"family": 10, "prefixlen": 64, "scope": 253},
            [
                ("IFA_LOCAL", "fd00::5"),
                ("IFA_ADDRESS", "fd00::5"),
                ("IFA_FLAGS", 0x202),
                ("IFA_CACHEINFO", {"ifa_preferred": 30, "ifa_valid": 60}),
            ],
        ),
        (
            Address(
                "10.1.0.5/32",
                peer="10.1.0.9",
                broadcast="10.1.0.255",
                label="eth1:ä",
                metric=70,
                proto=3,
            ),
            {"family": 2, "prefixlen": 32},
            [
                ("IFA_LOCAL", "10.1.0.5"),
                ("IFA_ADDRESS", "10.1.0.9"),
                ("IFA_BROADCAST", "10.1.0.255"),
                ("IFA_LABEL", "eth1:ä"),
                ("IFA_RT_PRIORITY", 70),
                ("IFA_PROTO", 3),
            ],
        ),
    ],
    ids=["plain", "lifetimes", "all of IPv4"],
)
def test_address_is_requested_as_by_pyroute2(
    address: Address, fields: Mapping[str, int], attrs: Attrs
) -> None:
    socket = Recorder()

    put_address(socket, "add", INDEX, address)

    assert socket.requests == [encoded(ifaddrmsg, {**fields, "index": INDEX}, attrs)]


def hop(link: int, flags: int, hops: int, *attrs: tuple[str, object]) -> dict[str, object]:
    """Return a nexthop in pyroute2's form."""
    return {"oif": link, "flags": flags, "hops": hops, "attrs": list(attrs)}


@pytest.mark.parametrize(
    ("route", "hops", "fields", "attrs"),
    [
        (
            Route("10.9.0.0/16", gateway="10.1.0.1", metric=7, protocol=4, realms=9),
            [],
            {"family": 2, "dst_len": 16, "table": 254, "proto": 4},
            [
                ("RTA_TABLE", 254),
                ("RTA_DST", "10.9.0.0"),
                ("RTA_OIF", INDEX),
                ("RTA_GATEWAY", "10.1.0.1"),
                ("RTA_PRIORITY", 7),
                ("RTA_FLOW", 9),
            ],
        ),
        (
            Route("0.0.0.0/0", gateway="fd00::1", source="10.1.0.5", table=TABLE, onlink=True),
            [],
            {"family": 2, "dst_len": 0, "flags": 4},
            [
                ("RTA_TABLE", TABLE),
                ("RTA_OIF", INDEX),
                ("RTA_VIA", {"family": 10, "addr": "fd00::1"}),
                ("RTA_PREFSRC", "10.1.0.5"),
            ],
        ),
        (
            Route("fd01::/32", scope=253, tos=4, type=6, preference=1, expires_s=60),
            [],
            {"family": 10, "dst_len": 32, "table": 254, "tos": 4, "scope": 253, "type": 6},
            [
                ("RTA_TABLE", 254),
                ("RTA_DST", "fd01::"),
                ("RTA_OIF", INDEX),
                ("RTA_PREF", 1),
                ("RTA_EXPIRES", struct.pack("=I", 60)),
            ],
        ),
        (
            Route("10.9.0.0/16"),
            [
                (NextHop("10.1.0.1", weight=3), INDEX),
                (NextHop("fd00::1", onlink=True, device="eth2"), 6),
                (NextHop(device="eth2"), 6),
            ],
            {"family": 2, "dst_len": 16, "table": 254},
            [
                ("RTA_TABLE", 254),
                ("RTA_DST", "10.9.0.0"),
                (
                    "RTA_MULTIPATH",
                    [
                        hop(INDEX, 0, 2, ("RTA_GATEWAY", "10.1.0.1")),
                        hop(6, 4, 0, ("RTA_VIA", {"family": 10, "addr": "fd00::1"})),
                        hop(6, 0, 0),
                    ],
                ),
            ],
        ),
    ],
    ids=["IPv4", "other family", "IPv6", "multipath"],
)
def test_route_is_requested_as_by_pyroute2(
    route: Route,
    hops: Sequence[tuple[NextHop, int]],
    fields: Mapping[str, int],
    attrs: Attrs,
) -> None:
    defaults = {"type": route.type, "proto": route.protocol, "scope": route.scope}

    assert route_request(INDEX, route, hops) == encoded(rtmsg, {**defaults, **fields}, attrs)


SETTINGS = LinkSettings(
    mtu=9000, txqlen=0, alias="", group=7, flags=0x1000, sizes=OffloadSizes(gso=65536, gro=4096)
)
SETTINGS_ATTRS = (
    ("IFLA_IFALIAS", ""),
    ("IFLA_MTU", 9000),
    ("IFLA_TXQLEN", 0),
    ("IFLA_GROUP", 7),
    ("IFLA_GSO_MAX_SIZE", 65536),
    ("IFLA_GRO_MAX_SIZE", 4096),
)
CHANGED = 0x4 | 0x20 | 0x80 | 0x100 | 0x200 | 0x1000 | 0x2000 | 0x4000 | 0x8000


def test_settings_of_a_link_are_requested_as_by_pyroute2() -> None:
    socket = Recorder()

    set_settings(socket, "set", INDEX, SETTINGS)
    rename(socket, "rename", INDEX, "net1")
    set_master(socket, "set", INDEX, 7)

    fields = {"index": INDEX}
    changed = {"index": INDEX, "flags": 0x1000, "change": CHANGED}
    assert socket.requests == [
        encoded(ifinfmsg, changed, SETTINGS_ATTRS),
        encoded(ifinfmsg, fields, [("IFLA_IFNAME", "net1")]),
        encoded(ifinfmsg, fields, [("IFLA_MASTER", 7)]),
    ]


def test_move_is_requested_as_by_pyroute2() -> None:
    source, target = Recorder("eth1"), Recorder()

    operation = MoveLink(Ns.HOST, INDEX, Ns.POD, "net1", SETTINGS)
    move(MoveEnd(source, 7), MoveEnd(target, 8), operation)

    changed = {"index": INDEX, "flags": 0x1000, "change": CHANGED}
    where = ("IFLA_NET_NS_FD", 8), ("IFLA_IFNAME", "net1")
    assert source.requests == [encoded(ifinfmsg, changed, [*where, *SETTINGS_ATTRS])]
    assert not target.requests


@pytest.mark.parametrize(
    ("settings", "attrs"),
    [
        (LinkSettings(mac=IPOIB_MAC), {1: bytes.fromhex(IPOIB_MAC.replace(":", ""))}),
        (
            LinkSettings(sizes=OffloadSizes(gso_ipv4=4096, gro_ipv4=8192)),
            {63: struct.pack("=I", 4096), 64: struct.pack("=I", 8192)},
        ),
        (LinkSettings(kept=attribute(17, b"\1").hex()), {17: b"\1"}),
        (
            LinkSettings(ipoib=IpoibState(connected=True, umcast=False)),
            {
                18: attribute(1, b"ipoib\0")
                + attribute(2, attribute(2, b"\1\0") + attribute(3, b"\0\0"))
            },
        ),
    ],
    ids=["address of 20 bytes", "sizes for IPv4", "kept", "IPoIB"],
)
def test_setting_that_pyroute2_cannot_encode_is_as_in_if_link_h(
    settings: LinkSettings, attrs: Mapping[int, bytes]
) -> None:
    socket = Recorder()

    set_settings(socket, "set", INDEX, settings)

    (request,) = socket.requests
    assert dict(walk(request, INFO.size)) == attrs


def test_name_that_is_not_utf_8_is_kept() -> None:
    socket = Recorder()

    rename(socket, "rename", INDEX, "net\udcff")

    assert dict(walk(socket.requests[0], INFO.size)) == {3: b"net\xff\0"}
