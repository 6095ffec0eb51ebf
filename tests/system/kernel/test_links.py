"""Decoding and encoding of link messages."""

import struct
from dataclasses import replace

import pytest

from dranet_nri.kernel.links import link_layer
from dranet_nri.kernel.messages import LinkMessage
from dranet_nri.linux.netlink import links
from dranet_nri.linux.netlink.codec import attribute, encode
from dranet_nri.linux.netlink.links import DumpedLink, link_from
from dranet_nri.model import IpoibState, Link, OffloadSizes, XdpMode, XdpProgram

IPOIB_MAC = "00:00:10:29:fe:80:00:00:00:00:00:00:00:15:5d:ff:fd:33:ff:05"

# P_Key, connected mode, umcast; as ipoib_fill_info writes them (drivers/infiniband/ulp/ipoib)
IPOIB_DATA = attribute(1, b"\x01\x80") + attribute(2, b"\1\0") + attribute(3, b"\1\0")


def dumped(flags: int = 0, arphrd: int = 1, **attrs: bytes) -> DumpedLink:
    """Return a link as dumped, with attributes by their names without IFLA_."""
    numbered = {getattr(links, f"IFLA_{name}"): value for name, value in attrs.items()}
    return DumpedLink("eth1", 3, arphrd, flags, numbered)


def u32(value: int) -> bytes:
    """Return a 32-bit attribute."""
    return struct.pack("=I", value)


def hardware() -> DumpedLink:
    """Return an IPoIB link with all attributes of the kernel."""
    names = attribute(53, b"enp7s0\0") + attribute(53, b"rail0\0")
    return dumped(
        flags=0x11143,  # up and more, promiscuous, with multicast
        arphrd=32,
        ADDRESS=link_layer(IPOIB_MAC),
        MTU=u32(4092),
        MIN_MTU=u32(68),
        MAX_MTU=u32(65520),
        OPERSTATE=b"\x06",
        CARRIER=b"\x01",
        MASTER=u32(7),
        LINK=u32(3),
        IFALIAS=b"rail 0\0",
        PROP_LIST=names,
        TXQLEN=u32(256),
        GSO_MAX_SIZE=u32(65536),
        PARENT_DEV_NAME=b"0101:00:00.0\0",
        PARENT_DEV_BUS_NAME=b"pci\0",
        LINKINFO=attribute(1, b"ipoib\0") + attribute(2, IPOIB_DATA),
        GROUP=u32(7),
        BROADCAST=b"\xff\xff",
        LINKMODE=b"\1",
        GSO_MAX_SEGS=u32(99),
        XDP=attribute(1, b"\4") + attribute(5, u32(5)) + attribute(7, u32(6)),
    )


def test_hardware_link_is_decoded_in_full() -> None:
    assert link_from(hardware()) == Link(
        index=3,
        name="eth1",
        kind="ipoib",
        arphrd=32,
        mac=IPOIB_MAC,
        mtu=4092,
        min_mtu=68,
        max_mtu=65520,
        up=True,
        carrier=True,
        operstate="up",
        master=7,
        lower=0,
        alias="rail 0",
        altnames=("enp7s0", "rail0"),
        txqlen=256,
        sizes=OffloadSizes(gso=65536),
        bus="pci",
        parent="0101:00:00.0",
        flags=0x1100,
        group=7,
        kept="06000200ffff000005001100010000000800280063000000",
        xdp=(XdpProgram(XdpMode.NATIVE, 5), XdpProgram(XdpMode.OFFLOADED, 6)),
        ipoib=IpoibState(connected=True, umcast=True),
    )


def test_outline_equals_the_fields_of_the_full_link() -> None:
    reported, whole = hardware().outline, link_from(hardware())
    fields = ("index", "name", "kind", "mac", "master", "lower", "loopback", "bus", "parent")

    assert [getattr(reported, field) for field in fields] == [
        getattr(whole, field) for field in fields
    ]
    assert not replace(hardware(), attrs={}).outline.parent


def test_ipoib_mode_is_decoded_only_from_complete_ipoib_data() -> None:
    datagram = attribute(2, b"\0\0") + attribute(3, b"\0\0")

    def mode_of(kind: bytes, data: bytes) -> IpoibState | None:
        return link_from(dumped(LINKINFO=attribute(1, kind) + attribute(2, data))).ipoib

    assert mode_of(b"ipoib\0", datagram) == IpoibState(connected=False)
    assert mode_of(b"veth\0", datagram) is None
    assert mode_of(b"ipoib\0", attribute(2, b"\1\0")) is None


def test_lower_link_counts_only_in_the_same_namespace() -> None:
    here = dumped(LINK=u32(9))
    elsewhere = dumped(LINK=u32(9), LINK_NETNSID=u32(1))

    assert link_from(here).lower == 9
    assert link_from(elsewhere).lower == 0


@pytest.mark.parametrize(
    ("kind", "data", "lowers"),
    [
        ("amt", {4: 9}, (9,)),
        ("hsr", {1: 9, 2: 8}, (9, 8)),
        ("hsr", {2: 8, 8: 7}, (8, 7)),
        ("hsr", {}, ()),
        ("vxlan", {3: 9}, (9,)),
        ("vlan", {1: 9, 3: 9}, (5,)),
    ],
)
def test_lower_links_are_read_where_the_kind_has_them(
    kind: str, data: dict[int, int], lowers: tuple[int, ...]
) -> None:
    nested = b"".join(attribute(number, u32(index)) for number, index in data.items())
    info = attribute(1, kind.encode() + b"\0") + attribute(2, nested)
    link = dumped(LINK=u32(5), LINKINFO=info)

    assert link.lowers == lowers
    assert link_from(link).lower == link.outline.lower == (lowers or (0,))[0]


def test_new_operstate_is_unknown() -> None:
    assert link_from(dumped(OPERSTATE=b"\x63")).operstate == "unknown"


def test_parent_of_the_caller_is_used_only_without_one_of_the_kernel() -> None:
    reported = dumped(PARENT_DEV_NAME=b"virtio0\0", PARENT_DEV_BUS_NAME=b"virtio\0")

    assert link_from(dumped(), "pci", "0000:8a:00.0").parent == "0000:8a:00.0"
    assert link_from(reported, "pci", "0000:8a:00.0").parent == "virtio0"


def test_unknown_attribute_is_refused() -> None:
    with pytest.raises(LookupError, match="IFLA_NO_SUCH"):
        encode(LinkMessage, {"index": 3}, [("IFLA_NO_SUCH", 1)])
