"""IP addresses and networks in CEL, with the operations of Kubernetes.

A value is a tagged map in canonical form, {"ip": "10.0.0.1"} or {"cidr": "10.0.0.1/8"}, so that
`==` compares the meaning. The text forms are those of k8s.io/apiserver/pkg/cel/library: no zone,
and no IPv4-mapped address. A ValueError becomes a failure of the expression.
"""

from collections.abc import Callable, Mapping
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    ip_address,
    ip_interface,
)
from typing import Final

Tagged = Mapping[str, str]
Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface

_IP: Final = "ip"
_CIDR: Final = "cidr"
_BROADCAST: Final = IPv4Address("255.255.255.255")
_LOCAL_GROUPS: Final = (IPv4Network("224.0.0.0/24"),)


def ip(value: str | Tagged) -> Tagged:
    """Return the address of a text or of a network."""
    if isinstance(value, str):
        return {_IP: str(_parsed(value))}
    return {_IP: str(_interface(value).ip)}


def cidr(text: str) -> Tagged:
    """Return the network of a text such as "10.0.0.1/8"; host bits stay."""
    host, slash, length = text.partition("/")
    address = _parsed(host)
    valid = length.isascii() and length.isdecimal() and str(int(length)) == length
    if not slash or not valid or int(length) > address.max_prefixlen:
        raise ValueError(f'"{text}" is not a network such as 10.0.0.0/8')
    return {_CIDR: f"{address}/{length}"}


def is_ip(text: str) -> bool:
    """Return whether the text is an address."""
    return _is(ip, text)


def is_cidr(text: str) -> bool:
    """Return whether the text is a network."""
    return _is(cidr, text)


def is_canonical(text: str) -> bool:
    """Return whether the text is the canonical form of an address."""
    return str(_parsed(text)) == text


def family(value: Tagged) -> int:
    """Return 4 or 6."""
    return _address(value).version


def is_unspecified(value: Tagged) -> bool:
    """Return whether the address is 0.0.0.0 or ::."""
    return _address(value).is_unspecified


def is_loopback(value: Tagged) -> bool:
    """Return whether it is a loopback address."""
    return _address(value).is_loopback


def is_link_local_multicast(value: Tagged) -> bool:
    """Return whether it is a multicast address of the link."""
    address = _address(value)
    if isinstance(address, IPv4Address):
        return any(address in network for network in _LOCAL_GROUPS)
    return address.is_multicast and int(address) >> 112 & 0xF == 2


def is_link_local_unicast(value: Tagged) -> bool:
    """Return whether it is a unicast address of the link."""
    return _address(value).is_link_local


def is_global_unicast(value: Tagged) -> bool:
    """Return whether it is another unicast address, also a private one."""
    address = _address(value)
    narrow = address.is_unspecified or address.is_loopback or address.is_link_local
    return not (narrow or address.is_multicast or address == _BROADCAST)


def contains_ip(network: Tagged, address: str | Tagged) -> bool:
    """Return whether the network has the address."""
    found = _parsed(address) if isinstance(address, str) else _address(address)
    return found in _interface(network).network


def contains_cidr(network: Tagged, other: str | Tagged) -> bool:
    """Return whether the network has all addresses of the other one."""
    inner = _interface(cidr(other) if isinstance(other, str) else other)
    outer = _interface(network).network
    return inner.network.prefixlen >= outer.prefixlen and inner.ip in outer


def masked(network: Tagged) -> Tagged:
    """Return the network without host bits."""
    return {_CIDR: str(_interface(network).network)}


def prefix_length(network: Tagged) -> int:
    """Return the length of the prefix."""
    return _interface(network).network.prefixlen


def _is(parse: Callable[[str], Tagged], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _parsed(text: str) -> Address:
    address = ip_address(text) if "%" not in text else None
    if address is None or (isinstance(address, IPv6Address) and address.ipv4_mapped):
        raise ValueError(f'"{text}" is not an address such as 10.0.0.1')
    return address


def _address(value: Tagged) -> Address:
    return ip_address(_member(value, _IP))


def _interface(value: Tagged) -> Interface:
    return ip_interface(_member(value, _CIDR))


def _member(value: Tagged, kind: str) -> str:
    if kind not in value:
        raise ValueError(f"the value is not of type {kind}")
    return value[kind]
