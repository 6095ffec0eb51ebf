"""Target of the RDMA room: what a kernel newer than any that we know may answer."""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.socket import NLMSG_DONE, NLMSG_ERROR, NetlinkSocket
from dranet_nri.linux.rdma import codec
from dranet_nri.linux.rdma.socket import RdmaSocket
from dranet_nri.linux.rdma.types import CharDevKind
from tests.dranet_nri.linux.rdma.conversation import answers
from tests.fuzz.netlink import UNIT, Recorded, message
from tests.fuzz.target import Target, pieces

_ASK: tuple[Callable[[RdmaSocket], object], ...] = (
    lambda rdma: rdma.devices("a namespace"),
    lambda rdma: rdma.ports("ports", 0),
    lambda rdma: rdma.system(),
    lambda rdma: rdma.char_device("uverbs", CharDevKind.UVERBS, 0),
    lambda rdma: rdma.move("move", 0, 0),
)
_RECORDED = ("devices", "ports", "system-shared", "uverbs", "events")


def decode(data: bytes) -> None:
    """Any answer to any question is a value or a KernelError; the first byte asks."""
    if not data:
        return
    question = _ASK[data[0] % len(_ASK)]
    answered = Recorded(pieces(data[1:], UNIT))
    with suppress(KernelError):
        question(RdmaSocket(NetlinkSocket(cast("socket.socket", answered))))
    with suppress(KernelError):
        codec.decode_event(data[1:])


TARGETS = {
    "rdma": Target(
        decode,
        (
            *(answer for name in _RECORDED for answer in answers(name)),
            message(NLMSG_DONE, bytes(4), flags=0),
            message(NLMSG_ERROR, b"\xff\xff\xff\xff", flags=0x200),
            message(NLMSG_ERROR, b"\xea\xff\xff\xff", flags=0x200),
            message(NLMSG_ERROR, b"\xa1\xff\xff\xff", flags=0x200),
        ),
    )
}
