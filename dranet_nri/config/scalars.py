"""Scalar parsers: a string of a document → its canonical form, or InvalidValueError.

Messages have only the rule and the remedy; the caller prefixes path and value.
"""

import re
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

from dranet_nri.errors import InvalidValueError
from dranet_nri.model import MAX_IFNAME

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network

_LENGTH: Final = re.compile(r"0|[1-9][0-9]{0,2}")
_PADDED: Final = re.compile(r"/0+(?=[0-9])")
_ALL_ADDRESSES: Final = frozenset({"default", "any", "all"})  # as in ip-route(8)
# Directories of net.ipv4.conf, which the kernel refuses as names (net/ipv4/devinet.c), and the
# loopback interface of every pod.
_TAKEN_NAMES: Final = frozenset({"all", "default", "lo"})
_NBSP: Final = 0xA0  # counts as white space in the kernel's byte-wise isspace() (lib/ctype.c)
ETHERNET_BYTES: Final = 6
INFINIBAND_BYTES: Final = 20
_MAC_SIZES: Final = (ETHERNET_BYTES, INFINIBAND_BYTES)
_DIGITS: Final = re.compile(r"(?:[0-9a-f]{2})+")
_BROADCAST: Final = IPv4Address("255.255.255.255")
_PAIRS: Final = re.compile(r"[0-9a-f]{2}(?:(?P<by>[:-])[0-9a-f]{2})(?:(?P=by)[0-9a-f]{2})*")
_MAX_RDMA_NAME: Final = 63  # IB_DEVICE_NAME_MAX - 1, rdma/ib_verbs.h
_RDMA_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_QUADS: Final = re.compile(r"[0-9a-f]{4}(?:\.[0-9a-f]{4})+")


def parse_address(text: str) -> IpAddress:
    """Return an IP address; an IPv4-mapped one is the IPv4 address, as in Go's net.IP.

    Raises:
        InvalidValueError: text is not an address, or has a zone or a prefix length.
    """
    if "/" in text:
        raise InvalidValueError("must be an IP address without a prefix length; remove the /…")
    if "%" in text:
        raise InvalidValueError("must be an IP address without a zone; remove the %…")
    try:
        address = ip_address(text)
    except ValueError:
        raise InvalidValueError(
            'must be an IP address such as "10.0.0.1" or "2001:db8::1"'
        ) from None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def parse_gateway(text: str) -> IpAddress:
    """Return the address of a gateway; 0.0.0.0 means a route of scope link.

    Raises:
        InvalidValueError: text is not an address, or the kernel refuses it as a gateway
            (fib_check_nh, net/ipv4/fib_semantics.c; ip6_route_info_create, net/ipv6/route.c).
    """
    address = parse_address(text)
    kind = _narrow_kind(address)
    if kind and not (address.version == 4 and address.is_unspecified):
        raise InvalidValueError(f"is {kind}, which cannot be a gateway; write the router's address")
    return address


def parse_source(text: str) -> IpAddress:
    """Return the preferred source of a route; 0.0.0.0 and :: let the kernel choose.

    Raises:
        InvalidValueError: text is not an address, or the kernel refuses it as a source
            (RTA_PREFSRC).
    """
    address = parse_address(text)
    kind = _narrow_kind(address)
    usable = address.is_unspecified or (address.version == 4 and address.is_loopback)
    if kind and not usable:
        raise InvalidValueError(f"is {kind}, which cannot be a source; write an address of the NIC")
    return address


def check_assignable(address: IpAddress) -> None:
    """Refuse an address that no NIC can use.

    The kernel refuses such IPv6 addresses (net/ipv6/addrconf.c). It accepts those of IPv4: 0.0.0.0
    without effect (inet_insert_ifa, net/ipv4/devinet.c), a multicast address to join its group.

    Raises:
        InvalidValueError: the text has the kind of address.
    """
    kind = _narrow_kind(address)
    usable = address.version == 4 and (address.is_loopback or address.is_multicast)
    if kind and not usable:
        example = "2001:db8::5/64" if address.version == 6 else "192.0.2.5/24"
        raise InvalidValueError(
            f'is {kind}, which no NIC can have; write a unicast address such as "{example}"'
        )


def _narrow_kind(address: IpAddress) -> str:
    """Return the kind of an address that is not a host's, "" for a host address."""
    if address.is_multicast:
        return "a multicast address"
    if address.is_loopback:
        return "a loopback address"
    if address.is_unspecified:
        return "the unspecified address"
    return "the broadcast address" if address == _BROADCAST else ""


def parse_prefix(text: str) -> tuple[IpAddress, int]:
    """Return an address with its prefix length, host bits kept.

    Raises:
        InvalidValueError: text is not in CIDR notation.
    """
    host, slash, length = text.partition("/")
    address = parse_address(host)
    if slash and ":" in host and address.version == 4:
        raise InvalidValueError(
            f'must not be IPv4-mapped; write "{address}" with a prefix length of 0 to 32'
        )
    if not slash:
        raise InvalidValueError(
            f'must be in CIDR notation; write "{address}/{address.max_prefixlen}" for one address'
        )
    if not _LENGTH.fullmatch(length) or int(length) > address.max_prefixlen:
        raise InvalidValueError(f"prefix length must be 0 to {address.max_prefixlen}")
    return address, int(length)


def parse_network(text: str) -> IpNetwork:
    """Return the network of a CIDR; host bits are cleared, as the kernel requires for routes.

    Leading zeros of the prefix length are ignored, as in Go's net.ParseCIDR.

    Raises:
        InvalidValueError: text is not in CIDR notation.
    """
    if text in _ALL_ADDRESSES:
        raise InvalidValueError('must be in CIDR notation; write "0.0.0.0/0" or "::/0"')
    address, length = parse_prefix(_PADDED.sub("/", text))
    return ip_network((address, length), strict=False)


def parse_mac(text: str) -> str:
    """Return a link-layer address of Ethernet or InfiniBand as lower-case colon-hex.

    Accepts colons, hyphens, groups of four digits with dots, or digits only.

    Raises:
        InvalidValueError: text has another form or length.
    """
    lower = text.lower()
    if _PAIRS.fullmatch(lower) or _QUADS.fullmatch(lower) or _DIGITS.fullmatch(lower):
        raw = bytes.fromhex(re.sub("[:.-]", "", lower))
        if len(raw) in _MAC_SIZES:
            return raw.hex(":")
    raise InvalidValueError(
        f'must be a MAC address such as "02:00:5e:10:00:01" ({ETHERNET_BYTES} bytes, or '
        f"{INFINIBAND_BYTES} of InfiniBand)"
    )


def bytes_of_mac(mac: str) -> int:
    """Return the length of a link-layer address in colon-hex."""
    return mac.count(":") + 1


def parse_own_mac(text: str) -> str:
    """Return a link-layer address that an interface may have.

    Raises:
        InvalidValueError: text is not a MAC, or an Ethernet one that is multicast or all zero,
            which the kernel refuses (is_valid_ether_addr, linux/etherdevice.h).
    """
    mac = parse_mac(text)
    first, *rest = bytes.fromhex(mac.replace(":", ""))
    if len(rest) == 5 and (first & 1 or not any((first, *rest))):
        raise InvalidValueError("must be a unicast address: first byte even, not all zero")
    return mac


def parse_ifname(text: str) -> str:
    """Return an interface name that the kernel accepts in a pod.

    Raises:
        InvalidValueError: the text has the broken rule.
    """
    if not text:
        raise InvalidValueError("must not be empty; write a name, or remove it")
    if text in {".", ".."}:
        raise InvalidValueError('must not be "." or ".."; they are directory names')
    bad = next((c for c in text if not (c.isalpha() or c.isdecimal() or c in "-_.")), "")
    if bad:
        raise InvalidValueError(f"must hold only letters, digits, - _ .; remove {bad!a}")
    raw = text.encode()
    if len(raw) > MAX_IFNAME:
        raise InvalidValueError(f"is {len(raw)} bytes long; at most {MAX_IFNAME} fit")
    space = next((c for c in text if _NBSP in c.encode()), "")
    if space:
        raise InvalidValueError(f'has "{space}", which is white space to the kernel; remove it')
    if text in _TAKEN_NAMES:
        raise InvalidValueError("is taken in every pod; choose another name")
    return text


def parse_rdma_name(text: str) -> str:
    """Return a name for an RDMA device.

    The kernel accepts more (also "/" and "%"), but the name is a directory of sysfs and an
    entry of lists such as NCCL_IB_HCA.

    Raises:
        InvalidValueError: the text has the broken rule.
    """
    if len(text.encode(errors="surrogatepass")) > _MAX_RDMA_NAME:
        raise InvalidValueError(f"is too long; at most {_MAX_RDMA_NAME} bytes fit")
    if not _RDMA_NAME.fullmatch(text):
        raise InvalidValueError(
            "must hold only letters of ASCII, digits, - and _, and begin with a letter or digit"
        )
    return text
