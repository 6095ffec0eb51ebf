"""IPv4 and UDP headers of DHCP messages (RFC 791, RFC 768).

Rules:
1. A client without an address cannot use a UDP socket. It sends these headers by a packet socket.
2. Checksums are written and not verified: between virtual devices the kernel does not compute them,
   and on a wire the checksum of the frame covers the bytes.
"""

import struct
from ipaddress import IPv4Address
from typing import Final

CLIENT_PORT: Final = 68
SERVER_PORT: Final = 67
_UDP: Final = 17  # IPPROTO_UDP
_TTL: Final = 64
_VERSION_4: Final = 4
_OFFSET: Final = 0x1FFF  # of fragments
_MORE: Final = 0x2000  # fragments follow
_IP_HEADER: Final = struct.Struct("!BBHHHBBH4s4s")
_UDP_HEADER: Final = struct.Struct("!HHHH")
_PSEUDO: Final = struct.Struct("!4s4sBBH")


def packet_with(payload: bytes, source: str, target: str) -> bytes:
    """Return the IPv4 packet of a message from a client to a server.

    Args:
        payload: the message.
        source: the client's address, "0.0.0.0" without one.
        target: the server's address, or "255.255.255.255".
    """
    sender, receiver = IPv4Address(source).packed, IPv4Address(target).packed
    size = _UDP_HEADER.size + len(payload)
    ports = (CLIENT_PORT, SERVER_PORT, size)
    pseudo = _PSEUDO.pack(sender, receiver, 0, _UDP, size)
    # 0 means no checksum; all ones is the same number (RFC 768).
    check = _checksum(pseudo + _UDP_HEADER.pack(*ports, 0) + payload) or 0xFFFF
    fields = (0x45, 0, _IP_HEADER.size + size, 0, 0, _TTL, _UDP)
    header = _IP_HEADER.pack(*fields, 0, sender, receiver)
    header = _IP_HEADER.pack(*fields, _checksum(header), sender, receiver)
    return header + _UDP_HEADER.pack(*ports, check) + payload


def payload_of(packet: bytes) -> bytes | None:
    """Return the payload of a packet to the client port, None for any other packet."""
    if len(packet) < _IP_HEADER.size:
        return None
    first, _, total, _, fragment, _, protocol, *_ = _IP_HEADER.unpack_from(packet)
    start = (first & 0xF) * 4
    if first >> 4 != _VERSION_4 or start < _IP_HEADER.size or protocol != _UDP:
        return None
    data = packet[start : min(total, len(packet))]
    if fragment & (_OFFSET | _MORE) or len(data) < _UDP_HEADER.size:
        return None
    _, port, size, _ = _UDP_HEADER.unpack_from(data)
    if port != CLIENT_PORT or not _UDP_HEADER.size <= size <= len(data):
        return None
    return data[_UDP_HEADER.size : size]


def _checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
