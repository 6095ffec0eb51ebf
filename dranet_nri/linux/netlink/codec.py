"""Netlink message codec: decodes replies and encodes requests.

Replies are decoded here, because a node has hundreds of links and few attributes are needed (7 µs
per link; pyroute2's decoder takes 150 µs). Requests for addresses, routes and moves, which most
hooks send, are encoded here as well (100 to 250 µs less for each new one); pyroute2 encodes others.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from errno import EBADMSG
from ipaddress import ip_address
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import Final

from dranet_nri.errors import KernelError

ATTRIBUTE: Final = struct.Struct("=HH")  # struct nlattr, linux/netlink.h: length, type
U32: Final = struct.Struct("=I")
U64: Final = struct.Struct("=Q")
TYPE_MASK: Final = 0x3FFF  # NLA_TYPE_MASK: without NLA_F_NESTED and NLA_F_NET_BYTEORDER
HEADER_LEN: Final = 16  # struct nlmsghdr
MAX_CACHED: Final = 1024  # cached requests, of half a KiB each

Value = str | int | bytes | Mapping[str, object] | Sequence[Mapping[str, object]]
Attributes = Sequence[tuple[str, Value]]

_encoded_requests: dict[tuple[type, str], bytes] = {}  # cached requests by their content


def walk(data: bytes, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield type and payload of each attribute from offset on, up to a malformed one.

    An attribute that is longer than the rest is malformed, as in nla_ok (net/netlink.h).
    """
    end = len(data)
    while offset + 4 <= end:
        length, kind = ATTRIBUTE.unpack_from(data, offset)
        if not 4 <= length <= end - offset:
            return
        yield kind & TYPE_MASK, data[offset + 4 : offset + length]
        offset += (length + 3) & ~3


def attributes(data: bytes, offset: int = 0) -> dict[int, bytes]:
    """Return the attributes from offset on, by type; the last of repeated ones. See walk.

    Each hook decodes some ten links of 40 attributes; a generator takes a third longer.
    """
    found: dict[int, bytes] = {}
    end, unpack = len(data), ATTRIBUTE.unpack_from
    while offset + 4 <= end:
        length, kind = unpack(data, offset)
        if not 4 <= length <= end - offset:
            break
        found[kind & TYPE_MASK] = data[offset + 4 : offset + length]
        offset += (length + 3) & ~3
    return found


def u32(data: bytes | None, default: int = 0) -> int:
    """Return a 32-bit attribute, the default if absent.

    Raises:
        KernelError: EBADMSG: it is shorter.
    """
    if data is None:
        return default
    require(data, U32.size)
    value: int = U32.unpack_from(data)[0]
    return value


def u64(data: bytes | None) -> int:
    """Return a 64-bit attribute, 0 if absent.

    Raises:
        KernelError: EBADMSG: it is shorter.
    """
    if data is None:
        return 0
    require(data, U64.size)
    value: int = U64.unpack_from(data)[0]
    return value


def u8(data: bytes | None) -> int:
    """Return an 8-bit attribute, 0 if absent.

    Raises:
        KernelError: EBADMSG: it is empty.
    """
    if data is None:
        return 0
    require(data, 1)
    return data[0]


def fixed(layout: struct.Struct, data: bytes) -> tuple[int, ...]:
    """Return the numbers of a fixed header.

    Raises:
        KernelError: EBADMSG: there are fewer bytes.
    """
    require(data, layout.size)
    numbers: tuple[int, ...] = layout.unpack_from(data)
    return numbers


def require(data: bytes, size: int) -> None:
    """Check the size of a fixed header.

    Raises:
        KernelError: EBADMSG: there are fewer bytes.
    """
    if len(data) < size:
        raise KernelError("read a netlink message", EBADMSG, f"{len(data)} bytes, not {size}")


def text(data: bytes | None) -> str:
    """Return a zero-terminated string attribute, "" if absent."""
    return "" if data is None else data.split(b"\0", 1)[0].decode(errors="surrogateescape")


def octets(text_form: str) -> bytes:
    """Return the bytes of a name, an alias or a label, which need not be UTF-8."""
    return text_form.encode(errors="surrogateescape")


def address(data: bytes | None) -> str:
    """Return an IPv4 or IPv6 address attribute, "" if absent.

    Raises:
        KernelError: EBADMSG: it is neither 4 nor 16 bytes long.
    """
    if data is None:
        return ""
    if len(data) not in {4, 16}:
        raise KernelError("read a netlink message", EBADMSG, f"address of {len(data)} bytes")
    return inet_ntop(AF_INET if len(data) == 4 else AF_INET6, data)


def family_of(text_form: str) -> int:
    """Return AF_INET or AF_INET6 for an address or prefix in text form."""
    return AF_INET6 if ":" in text_form else AF_INET


def family_number(version: int) -> int:
    """Return AF_INET or AF_INET6 for IP version 4 or 6."""
    return AF_INET if version == 4 else AF_INET6


def split_prefix(cidr: str) -> tuple[str, int]:
    """Return address and prefix length, by default that of a host."""
    plain, _, length = cidr.partition("/")
    return plain, int(length) if length else ip_address(plain).max_prefixlen


def packed(text_form: str) -> bytes:
    """Return the 4 or 16 bytes of an address in text form."""
    return inet_pton(family_of(text_form), text_form)


def attribute(kind: int, payload: bytes) -> bytes:
    """Return one attribute, padded."""
    return ATTRIBUTE.pack(4 + len(payload), kind) + payload + b"\0" * (-len(payload) % 4)


def u32_attribute(kind: int, value: int) -> bytes:
    """Return an attribute of 32 bits."""
    return attribute(kind, U32.pack(value))


def encode(message: type, fields: Mapping[str, int], attrs: Attributes) -> bytes:
    """Return a request's body as pyroute2 encodes it.

    The last requests are cached: attach and detach repeat the same few addresses and routes, and
    encoding takes longer than the kernel's work.

    Args:
        message: a pyroute2 message class.
        fields: fields of the fixed header, by pyroute2's names; others are 0.
        attrs: names and values in pyroute2's form.

    Raises:
        LookupError: the message has no such attribute, which pyroute2 would omit silently.
    """
    key = message, repr((fields, attrs))
    body = _encoded_requests.get(key)
    if body is None:
        if len(_encoded_requests) >= MAX_CACHED:
            _encoded_requests.clear()
        body = _encoded_requests[key] = _encoded(message, fields, attrs)
    return body


def _encoded(message: type, fields: Mapping[str, int], attrs: Attributes) -> bytes:
    request = message()
    for name, _ in attrs:
        if not request.valid_nla(name):
            raise LookupError(f"{message.__name__} has no attribute {name}")
    request.update(fields)
    request["attrs"] = [list(attr) for attr in attrs]
    request.encode()
    return bytes(request.data[HEADER_LEN:])
