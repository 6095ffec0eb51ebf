"""Truncated netlink objects: a KernelError for every truncation."""

import struct
from collections.abc import Callable
from errno import EBADMSG

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.facts import links as facts
from dranet_nri.kernel.ip.addresses import dump_addresses
from dranet_nri.kernel.ip.neighbours import dump_neighbours
from dranet_nri.kernel.ip.routes import dump_routes
from dranet_nri.kernel.ip.rules import rules_from
from dranet_nri.linux.netlink.addresses import addresses
from dranet_nri.linux.netlink.codec import attribute
from dranet_nri.linux.netlink.links import INFO, dump_links, link_from
from dranet_nri.linux.netlink.policy_routing import dump_rules
from dranet_nri.linux.netlink.routes import main_routes
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket

Read = Callable[[RtnetlinkSocket], object]


class FixedDump(RtnetlinkSocket):
    """Answers every dump with one object."""

    def __init__(self, body: bytes) -> None:
        """Take the object."""
        self._body = body

    def dump(self, what: str, kind: int, body: bytes, most: int | None = None) -> list[bytes]:
        """Return the object."""
        return [self._body]


def read_addresses(netlink: RtnetlinkSocket) -> object:
    """Read them as an observation does."""
    return dump_addresses(netlink, "pod", 7, "eth1")


def read_routes(netlink: RtnetlinkSocket) -> object:
    """Read them as an observation does."""
    return dump_routes(netlink, "pod", 7, {7: "eth1"})


def read_rules(netlink: RtnetlinkSocket) -> object:
    """Read them as an observation does."""
    return rules_from(dump_rules(netlink))


def read_neighbours(netlink: RtnetlinkSocket) -> object:
    """Read them as an observation does."""
    return dump_neighbours(netlink, "pod", 7, "eth1")


def read_link(netlink: RtnetlinkSocket) -> object:
    """Read the first link in full."""
    return link_from(dump_links(netlink, "pod")[0])


ADDRESS = struct.pack("=BBBBI", 2, 24, 0, 0, 7)
ROUTE = struct.pack("=BBBBBBBBI", 10, 0, 0, 0, 254, 3, 0, 1, 0)
RULE = struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 0, 0, 1, 0)
NEIGHBOUR = struct.pack("=BxxxiHBB", 2, 7, 0x80, 0, 0)
TRAFFIC = struct.pack("=BxHiIII", 0, 0, 7, 0, 0, 0)

HEADERS = [
    pytest.param(read_addresses, ADDRESS, id="address"),
    pytest.param(read_routes, ROUTE, id="route"),
    pytest.param(read_rules, RULE, id="rule"),
    pytest.param(read_neighbours, NEIGHBOUR, id="neighbour"),
    pytest.param(addresses, ADDRESS, id="address, as a fact"),
    pytest.param(main_routes, ROUTE, id="route, as a fact"),
    pytest.param(facts.tc_filters, TRAFFIC, id="qdisc, as a fact"),
    pytest.param(facts.links, INFO.pack(0, 1, 7, 0, 0), id="link, as a fact"),
]


@pytest.mark.parametrize(("read", "header"), HEADERS)
def test_truncated_header_is_a_kernel_error(read: Read, header: bytes) -> None:
    for length in range(len(header)):
        with pytest.raises(KernelError, match=f"{length} bytes, not {len(header)}") as caught:
            read(FixedDump(header[:length]))
        assert caught.value.code == EBADMSG


@pytest.mark.parametrize(("read", "header"), HEADERS)
def test_header_without_attributes_is_read(read: Read, header: bytes) -> None:
    read(FixedDump(header))


@pytest.mark.parametrize(
    ("read", "header", "kind", "size"),
    [
        pytest.param(read_addresses, ADDRESS, 6, 8, id="IFA_CACHEINFO"),
        pytest.param(read_addresses, ADDRESS, 8, 4, id="IFA_FLAGS"),
        pytest.param(read_addresses, ADDRESS, 11, 1, id="IFA_PROTO"),
        pytest.param(read_routes, ROUTE, 12, 12, id="RTA_CACHEINFO"),
        pytest.param(read_routes, ROUTE, 20, 1, id="RTA_PREF"),
        pytest.param(read_rules, RULE, 21, 1, id="FRA_PROTOCOL"),
        pytest.param(addresses, ADDRESS, 2, 4, id="IFA_LOCAL, as a fact"),
        pytest.param(read_link, INFO.pack(0, 1, 7, 0, 0), 4, 4, id="IFLA_MTU"),
    ],
)
def test_truncated_attribute_is_a_kernel_error(
    read: Read, header: bytes, kind: int, size: int
) -> None:
    read(FixedDump(header + attribute(kind, bytes(size))))

    with pytest.raises(KernelError, match=f"{size - 1} bytes") as caught:
        read(FixedDump(header + attribute(kind, bytes(size - 1))))
    assert caught.value.code == EBADMSG
