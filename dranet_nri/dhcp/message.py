"""DHCP messages as bytes (RFC 2131, RFC 2132), decoded as untrusted input.

Rules:
1. A message that is not a DHCP reply is refused. Options of a wrong size, and options that the
   client does not use, are ignored.
2. Repeated options are concatenated (RFC 3396), also those in `file` and `sname`.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from dranet_nri.errors import ProtocolError

# op, htype, hlen, hops, xid, secs, flags, ciaddr, yiaddr, siaddr, giaddr, chaddr, sname, file
_HEADER: Final = struct.Struct("!BBBBIHH4s4s4s4s16s64s128s")
_COOKIE: Final = b"\x63\x82\x53\x63"
_ETHERNET: Final = 1
_MAC_SIZE: Final = 6
_MIN_BYTES: Final = 300  # bytes; relay agents drop a shorter message (RFC 1542)
REQUEST_OP: Final = 1
REPLY_OP: Final = 2
UNSPECIFIED: Final = "0.0.0.0"  # noqa: S104 - a field of a message, not an address to listen on

_PAD, _END = 0, 255
_MASK: Final = 1
_ROUTERS: Final = 3
_MTU: Final = 26
_REQUESTED: Final = 50
_LEASE: Final = 51
_OVERLOAD: Final = 52
_TYPE: Final = 53
_SERVER: Final = 54
_PARAMETERS: Final = 55
_MAX_SIZE: Final = 57
_T1: Final = 58
_T2: Final = 59
_CLIENT: Final = 61
_ROUTES: Final = 121
_FILE, _SNAME = 1, 2  # bits of _OVERLOAD
# Routes come before routers: a server that lacks room leaves out the last ones (RFC 3442).
_REQUESTED_OPTIONS: Final = bytes([_MASK, _ROUTES, _ROUTERS, _MTU, _LEASE, _T1, _T2])
_BITS: Final = 32  # of an address
_MAX_BYTES: Final = 1472  # one frame of Ethernet


class DhcpMessageType(IntEnum):
    """DHCP message type (RFC 2132, section 9.6)."""

    DISCOVER = 1
    OFFER = 2
    REQUEST = 3
    DECLINE = 4
    ACK = 5
    NAK = 6
    RELEASE = 7
    INFORM = 8


@dataclass(frozen=True, slots=True)
class DhcpMessage:
    """A message. Addresses are text, "" for a missing option.

    Attributes:
        op: 1 from a client, 2 from a server.
        xid: number of the exchange, 32 bits.
        mac: of the client (chaddr).
        secs: seconds since the client began.
        client: address that the client uses (ciaddr).
        offered: address that the server offers (yiaddr).
        mask: prefix length, None if missing.
        lease_s, renew_s, rebind_s: seconds of options 51, 58 and 59, None if missing.
        mtu: bytes, 0 if missing.
        routers: option 3.
        routes: option 121, destination and router; router "0.0.0.0" is on the link.
    """

    kind: DhcpMessageType
    xid: int
    mac: str
    op: int = REQUEST_OP
    secs: int = 0
    client: str = UNSPECIFIED
    offered: str = UNSPECIFIED
    requested: str = ""
    server: str = ""
    mask: int | None = None
    lease_s: int | None = None
    renew_s: int | None = None
    rebind_s: int | None = None
    mtu: int = 0
    routers: tuple[str, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()


def encode_message(message: DhcpMessage) -> bytes:
    """Return a message of a client as bytes, without options of servers."""
    mac = bytes.fromhex(message.mac.replace(":", ""))
    fields = (message.op, _ETHERNET, _MAC_SIZE, 0, message.xid, min(message.secs, 0xFFFF), 0)
    addresses = (_packed(message.client), _packed(message.offered), bytes(4), bytes(4))
    options = [_option(_TYPE, bytes([message.kind])), _option(_CLIENT, bytes([_ETHERNET]) + mac)]
    if message.requested:
        options.append(_option(_REQUESTED, _packed(message.requested)))
    if message.server:
        options.append(_option(_SERVER, _packed(message.server)))
    if message.kind is not DhcpMessageType.RELEASE:
        options.append(_option(_MAX_SIZE, struct.pack("!H", _MAX_BYTES)))
        options.append(_option(_PARAMETERS, _REQUESTED_OPTIONS))
    data = _HEADER.pack(*fields, *addresses, mac, b"", b"") + _COOKIE + b"".join(options)
    return (data + bytes([_END])).ljust(_MIN_BYTES, bytes([_PAD]))


def decode_message(data: bytes) -> DhcpMessage:
    """Return the message of a server.

    Raises:
        ProtocolError: the bytes are not a DHCP reply for an Ethernet link.
    """
    start = _HEADER.size + len(_COOKIE)
    if data[_HEADER.size : start] != _COOKIE:
        raise ProtocolError("not a DHCP message: no magic cookie 63 82 53 63 after the header")
    op, hardware, size, _, xid, secs, _, client, offered, _, _, mac, sname, file = (
        _HEADER.unpack_from(data)
    )
    if (op, hardware, size) != (REPLY_OP, _ETHERNET, _MAC_SIZE):
        raise ProtocolError(f"not a DHCP reply for Ethernet: op {op}, type {hardware}, {size}")
    options = _options(data[start:], file, sname)
    kind = options.get(_TYPE, b"")
    if len(kind) != 1 or kind[0] not in set(DhcpMessageType):
        raise ProtocolError(f"no DHCP message type: option 53 is {kind.hex() or 'missing'}")
    return DhcpMessage(
        kind=DhcpMessageType(kind[0]),
        xid=xid,
        mac=mac[:_MAC_SIZE].hex(":"),
        op=op,
        secs=secs,
        client=str(IPv4Address(client)),
        offered=str(IPv4Address(offered)),
        requested=_one(options.get(_REQUESTED)),
        server=_one(options.get(_SERVER)),
        mask=_mask(options.get(_MASK)),
        lease_s=_number(options.get(_LEASE), 4),
        renew_s=_number(options.get(_T1), 4),
        rebind_s=_number(options.get(_T2), 4),
        mtu=_number(options.get(_MTU), 2) or 0,
        routers=_addresses(options.get(_ROUTERS, b"")),
        routes=_routes(options.get(_ROUTES, b"")),
    )


def _option(code: int, value: bytes) -> bytes:
    return bytes([code, len(value)]) + value


def _packed(address: str) -> bytes:
    return IPv4Address(address).packed


def _options(area: bytes, file: bytes, sname: bytes) -> dict[int, bytes]:
    """Return the options by code, those of overloaded fields last (RFC 3396)."""
    found: dict[int, bytes] = {}
    _read(area, found)
    overload = (found.get(_OVERLOAD) or b"\0")[0]
    if overload & _FILE:
        _read(file, found)
    if overload & _SNAME:
        _read(sname, found)
    return found


def _read(area: bytes, found: dict[int, bytes]) -> None:
    """Add the options of an area, up to its end or to a truncated option."""
    at = 0
    while at < len(area) and area[at] != _END:
        if area[at] == _PAD:
            at += 1
            continue
        head = area[at : at + 2]
        value = area[at + 2 : at + 2 + head[-1]]
        if len(head) < len(b"cl") or len(value) < head[-1]:
            return
        found[head[0]] = found.get(head[0], b"") + value
        at += len(head) + len(value)


def _number(value: bytes | None, size: int) -> int | None:
    return int.from_bytes(value) if value is not None and len(value) == size else None


def _one(value: bytes | None) -> str:
    return str(IPv4Address(value)) if value is not None and len(value) == len(bytes(4)) else ""


def _addresses(value: bytes) -> tuple[str, ...]:
    if len(value) % 4:
        return ()
    return tuple(str(IPv4Address(value[at : at + 4])) for at in range(0, len(value), 4))


def _mask(value: bytes | None) -> int | None:
    """Return the prefix length of a contiguous mask, None for any other."""
    if value is None or len(value) != len(bytes(4)):
        return None
    bits = f"{int.from_bytes(value):032b}"
    return None if "01" in bits else bits.count("1")


def _routes(value: bytes) -> tuple[tuple[str, str], ...]:
    """Return classless static routes (RFC 3442); no route if one of them is malformed."""
    found: list[tuple[str, str]] = []
    while value:
        length = value[0]
        size = (length + 7) // 8
        entry = value[1 : 1 + size + 4]
        if length > _BITS or len(entry) < size + 4:
            return ()
        network = IPv4Network((entry[:size].ljust(4, b"\0"), length), strict=False)
        found.append((str(network), str(IPv4Address(entry[size:]))))
        value = value[1 + size + 4 :]
    return tuple(found)
