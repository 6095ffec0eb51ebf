"""Target of the netlink room: what a kernel newer than any that we know may answer."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from errno import ECONNRESET
from typing import cast

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import ATTRIBUTE, attribute, walk
from dranet_nri.linux.netlink.links import INFO, dump_links, link_from
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.linux.netlink.socket import NLMSG_DONE, NLMSG_ERROR
from tests.fuzz.target import Target, pieces

_RTM_NEWLINK = 16
UNIT = 64  # bytes; a link takes a few of them


class Recorded:
    """A socket whose answers are known beforehand."""

    def __init__(self, answers: Iterator[bytes]) -> None:
        """Take the answers."""
        self._answers = answers
        self._next = b""

    def send(self, data: bytes) -> int:
        """Take a request."""
        return len(data)

    def recv_into(self, buffer: bytearray, length: int, flags: int) -> int:
        """Return how long the next answer is; after the last the connection is lost."""
        for answer in self._answers:
            self._next = answer
            return len(answer)
        raise OSError(ECONNRESET, "no more answers")

    def recv(self, length: int) -> bytes:
        """Return the next answer."""
        return self._next[:length]


def read_links(data: bytes) -> None:
    """Any answer is links or a KernelError, and no attribute is longer than what came."""
    assert sum(4 + len(payload) for _, payload in walk(data)) <= len(data) + 3
    netlink = RtnetlinkSocket(cast("socket.socket", Recorded(pieces(data, UNIT))))
    with suppress(KernelError):
        for link in dump_links(netlink, "a namespace"):
            link_from(link)


def message(kind: int, body: bytes, sequence: int = 1, flags: int = 2) -> bytes:
    """Return one netlink message, padded."""
    head = (16 + len(body)).to_bytes(4, "little") + kind.to_bytes(2, "little")
    tail = flags.to_bytes(2, "little") + sequence.to_bytes(4, "little") + bytes(4)
    return head + tail + body + bytes(-len(body) % 4)


LINK = INFO.pack(0, 1, 7, 0x1043, 0) + b"".join(
    attribute(kind, payload)
    for kind, payload in (
        (3, b"eth0\0"),
        (1, bytes.fromhex("020000000001")),
        (4, (1500).to_bytes(4, "little")),
        (16, b"\6"),
        (33, b"\1"),
        (18, attribute(1, b"veth\0")),
        (52, attribute(53, b"enp1s0\0")),
        (41, (65536).to_bytes(4, "little")),
        (56, b"0000:8a:00.2\0"),
        (57, b"pci\0"),
    )
)

TARGETS = {
    "netlink": Target(
        read_links,
        (
            message(_RTM_NEWLINK, LINK),
            message(NLMSG_DONE, bytes(4), flags=0),
            message(NLMSG_ERROR, b"\xff\xff\xff\xff", flags=0x200),
            ATTRIBUTE.pack(4, 16),
            ATTRIBUTE.pack(4, 33),
            ATTRIBUTE.pack(4, 41),
            ATTRIBUTE.pack(0xFFFF, 3),
            ATTRIBUTE.pack(3, 3),
        ),
    )
}
