"""Permanent neighbour entries (RTM_*NEIGH). Numbers are those of linux/neighbour.h."""

import struct
from collections.abc import Iterator
from socket import AF_INET, AF_INET6
from typing import Final

from dranet_nri.kernel.links import link_layer
from dranet_nri.kernel.messages import NeighbourMessage
from dranet_nri.linux.netlink import codec
from dranet_nri.linux.netlink.codec import attribute, attributes, encode, family_of, fixed, u8
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import Neighbour

RTM_NEWNEIGH: Final = 28
RTM_GETNEIGH: Final = 30
NLM_F_REPLACE_CREATE: Final = 0x500
NUD_PERMANENT: Final = 0x80
NTF_PROXY: Final = 0x08
NTF_EXT_LEARNED: Final = 0x10
NTF_ROUTER: Final = 0x80
NDA_DST: Final = 1
NDA_LLADDR: Final = 2
NDA_IFINDEX: Final = 8
NDA_PROTOCOL: Final = 12

_KEPT: Final = NTF_EXT_LEARNED | NTF_ROUTER  # flags that a request can set on any entry
_HEADER: Final = struct.Struct("=BxxxiHBB")  # struct ndmsg: family, ifindex, state, flags, type


def dump_neighbours(
    netlink: RtnetlinkSocket, where: str, index: int, name: str
) -> tuple[Neighbour, ...]:
    """Return the link's permanent entries, and its proxy entries."""
    what = f"dump neighbours of {name} in {where}"
    of_link = attribute(NDA_IFINDEX, struct.pack("=I", index))
    found: list[Neighbour] = []
    for flags in (0, NTF_PROXY):
        request = _HEADER.pack(0, 0, 0, flags, 0) + of_link
        found += _entries(netlink.dump(what, RTM_GETNEIGH, request), index)
    return tuple(found)


def _entries(bodies: list[bytes], index: int) -> Iterator[Neighbour]:
    for body in bodies:
        family, link, state, flags, _ = fixed(_HEADER, body)
        proxy = bool(flags & NTF_PROXY)
        if link != index or family not in {AF_INET, AF_INET6}:
            continue
        attrs = attributes(body, _HEADER.size)
        lladdr = attrs.get(NDA_LLADDR, b"")
        if proxy or (state & NUD_PERMANENT and lladdr):
            yield Neighbour(
                codec.address(attrs.get(NDA_DST)),
                "" if proxy else lladdr.hex(":"),
                proxy=proxy,
                flags=flags & _KEPT,
                protocol=u8(attrs.get(NDA_PROTOCOL)),
            )


def add_neighbour(netlink: RtnetlinkSocket, what: str, index: int, neighbour: Neighbour) -> None:
    """Add or replace an entry."""
    attrs: list[tuple[str, codec.Value]] = [("NDA_DST", neighbour.destination)]
    if not neighbour.proxy:
        attrs.append(("NDA_LLADDR", link_layer(neighbour.mac)))
    if neighbour.protocol:
        attrs.append(("NDA_PROTOCOL", neighbour.protocol))
    fixed = {
        "family": family_of(neighbour.destination),
        "ifindex": index,
        "state": NUD_PERMANENT,
        "flags": neighbour.flags | (NTF_PROXY if neighbour.proxy else 0),
    }
    netlink.do(what, RTM_NEWNEIGH, NLM_F_REPLACE_CREATE, encode(NeighbourMessage, fixed, attrs))
