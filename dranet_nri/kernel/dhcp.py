"""Packet socket of a pod's link for DHCP messages (AF_PACKET, packet(7)).

Rules:
1. The socket is in the pod's network namespace. A filter passes only UDP to the client port, and is
   attached before the socket is bound.
2. The kernel writes the link-layer header. A frame that the link cannot send is dropped; the client
   repeats it.
"""

import ctypes
import socket
import struct
from collections.abc import Iterator
from errno import EAGAIN, EINVAL, ENETDOWN, ENOBUFS, ENXIO
from typing import Final

from dranet_nri.dhcp import CLIENT_PORT, packet_with, payload_of
from dranet_nri.errors import KernelError
from dranet_nri.kernel.netns import run_inside

ETH_P_IP: Final = 0x0800  # linux/if_ether.h
_BROADCAST_MAC: Final = "ff:ff:ff:ff:ff:ff"
_SO_ATTACH_FILTER: Final = 26  # asm-generic/socket.h
_MAX_BYTES: Final = 2048  # bytes of a packet, more than the size that the client announces
_MAX_PACKETS: Final = 64  # packets; a flood must not delay the attach
_NOTHING_TO_READ: Final = frozenset({EAGAIN, ENETDOWN})
_DROPPED: Final = frozenset({ENETDOWN, ENOBUFS})

# Classic BPF (linux/filter.h) on an IPv4 packet: code, jump if true, if false, value.
_FILTER: Final = (
    (0x30, 0, 0, 9),  # ldb [9]: protocol
    (0x15, 0, 6, socket.IPPROTO_UDP),
    (0x28, 0, 0, 6),  # ldh [6]: flags and fragment offset
    (0x45, 4, 0, 0x1FFF),  # only the first fragment has ports
    (0xB1, 0, 0, 0),  # ldxb 4 * ([0] & 0xf): size of the header
    (0x48, 0, 0, 2),  # ldh [x + 2]: destination port
    (0x15, 0, 1, CLIENT_PORT),
    (0x06, 0, 0, 0xFFFF),  # accept
    (0x06, 0, 0, 0),
)


class DhcpSocket:
    """The socket of one link."""

    def __init__(self, nsfd: int, what: str, name: str) -> None:
        """Open it inside a namespace.

        Args:
            nsfd: descriptor of the namespace.
            what: description of the link, for errors.
            name: of the link.

        Raises:
            KernelError: ENODEV, there is no such link; or the namespace cannot be entered.
        """
        self._name = name
        self._what = what
        self._socket = run_inside(nsfd, lambda: _opened(what, name))

    def send(self, payload: bytes, source: str, target: str, mac: str = "") -> None:
        """Send a message to a server, or to all hosts on the link if mac is "".

        Raises:
            KernelError: the kernel refused.
        """
        address = bytes.fromhex((mac or _BROADCAST_MAC).replace(":", ""))
        to = (self._name, ETH_P_IP, 0, 0, address)
        try:
            self._socket.sendto(packet_with(payload, source, target), to)
        except OSError as error:
            if error.errno not in _DROPPED:
                raise KernelError(self._what, error.errno or EINVAL) from error

    def pending(self) -> Iterator[tuple[bytes, str]]:
        """Yield received messages, each with the link-layer address of its sender.

        Raises:
            KernelError: the link is gone.
        """
        for _ in range(_MAX_PACKETS):
            try:
                packet, sender = self._socket.recvfrom(_MAX_BYTES)
            except OSError as error:
                if error.errno in _NOTHING_TO_READ:
                    return
                raise KernelError(self._what, error.errno or EINVAL) from error
            payload = payload_of(packet)
            if payload is not None:
                yield payload, sender[4].hex(":")

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()


def _opened(what: str, name: str) -> socket.socket:
    kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    code = b"".join(struct.pack("=HBBI", *line) for line in _FILTER)
    lines = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(_FILTER), ctypes.addressof(lines))
    try:
        opened = socket.socket(socket.AF_PACKET, kind, 0)  # receives nothing until it is bound
    except OSError as error:
        raise KernelError(what, error.errno or EINVAL) from error
    try:
        opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
        opened.bind((name, ETH_P_IP))
    except OSError as error:
        opened.close()
        raise KernelError(what, error.errno or ENXIO) from error
    return opened
