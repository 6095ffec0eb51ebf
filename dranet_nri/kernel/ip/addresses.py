"""Addresses (RTM_*ADDR). Numbers and structs are those of linux/if_addr.h."""

import struct
from errno import EADDRNOTAVAIL, EEXIST
from ipaddress import ip_interface
from socket import AF_INET, AF_INET6
from typing import Final, assert_never

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink import codec
from dranet_nri.linux.netlink.codec import (
    attribute,
    attributes,
    family_of,
    fixed,
    octets,
    packed,
    split_prefix,
    text,
    u8,
    u32,
    u32_attribute,
)
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import FOREVER, Address, DetectedAddress
from dranet_nri.plan.lease_ops import DropAddress, LeaseAddress
from dranet_nri.plan.ops import AddAddress

AddressOp = AddAddress | LeaseAddress | DropAddress

RTM_NEWADDR: Final = 20
RTM_DELADDR: Final = 21
RTM_GETADDR: Final = 22
NLM_F_EXCL_CREATE: Final = 0x600
NLM_F_REPLACE_CREATE: Final = 0x500

IFA_ADDRESS: Final = 1
IFA_LOCAL: Final = 2
IFA_LABEL: Final = 3
IFA_BROADCAST: Final = 4
IFA_CACHEINFO: Final = 6
IFA_FLAGS: Final = 8
IFA_RT_PRIORITY: Final = 9
IFA_PROTO: Final = 11

IFA_F_TEMPORARY: Final = 0x01  # IPv6 privacy address; IFA_F_SECONDARY for IPv4
IFA_F_NODAD: Final = 0x02
IFA_F_OPTIMISTIC: Final = 0x04
IFA_F_DADFAILED: Final = 0x08
IFA_F_HOMEADDRESS: Final = 0x10
IFA_F_TENTATIVE: Final = 0x40
IFA_F_MANAGETEMPADDR: Final = 0x100
IFA_F_NOPREFIXROUTE: Final = 0x200
IFA_F_MCAUTOJOIN: Final = 0x400
# Flags that a creator may set; the kernel sets the others (tentative, permanent, deprecated, …).
SETTABLE: Final = (
    IFA_F_NODAD
    | IFA_F_OPTIMISTIC
    | IFA_F_HOMEADDRESS
    | IFA_F_MANAGETEMPADDR
    | IFA_F_NOPREFIXROUTE
    | IFA_F_MCAUTOJOIN
)

_HEADER: Final = struct.Struct("=BBBBI")  # struct ifaddrmsg: family, prefixlen, flags, scope, index
_LIFETIMES: Final = struct.Struct("=II")  # struct ifa_cacheinfo: preferred, valid, …
_CACHEINFO: Final = struct.Struct("=II8x")  # all of it


def dump_addresses(
    netlink: RtnetlinkSocket, where: str, index: int, name: str
) -> tuple[Address, ...]:
    """Return the link's addresses in the order in which adding them restores the list.

    The kernel puts a new IPv6 address before the others of its scope.
    """
    what = f"dump addresses of {name} in {where}"
    bodies = netlink.dump(what, RTM_GETADDR, _HEADER.pack(0, 0, 0, 0, index))
    v4 = [_address(body, name) for body in bodies if _is_of(body, AF_INET, index)]
    v6 = [_address(body, name) for body in bodies if _is_of(body, AF_INET6, index)]
    return (*v4, *reversed(v6))


def dump_detected(netlink: RtnetlinkSocket, what: str, index: int) -> tuple[DetectedAddress, ...]:
    """Return the link's IPv6 addresses with the state of their detection."""
    found: list[DetectedAddress] = []
    for body in netlink.dump(what, RTM_GETADDR, _HEADER.pack(AF_INET6, 0, 0, 0, index)):
        if not _is_of(body, AF_INET6, index):
            continue
        _, _, flags, _, _ = fixed(_HEADER, body)
        flags = u32(attributes(body, _HEADER.size).get(IFA_FLAGS), flags)
        address = _address(body, "")
        found.append(
            DetectedAddress(
                cidr=address.cidr,
                scope=address.scope,
                tentative=bool(flags & IFA_F_TENTATIVE),
                duplicate=bool(flags & IFA_F_DADFAILED),
                temporary=bool(flags & IFA_F_TEMPORARY),
            )
        )
    return tuple(found)


def _is_of(body: bytes, family: int, index: int) -> bool:
    found, _, _, _, link = fixed(_HEADER, body)
    return bool((found, link) == (family, index))


def _address(body: bytes, name: str) -> Address:
    family, length, flags, scope, _ = fixed(_HEADER, body)
    attrs = attributes(body, _HEADER.size)
    far = codec.address(attrs.get(IFA_ADDRESS))
    local = codec.address(attrs.get(IFA_LOCAL)) or far
    preferred, valid = FOREVER, FOREVER
    if IFA_CACHEINFO in attrs:
        preferred, valid = fixed(_LIFETIMES, attrs[IFA_CACHEINFO])
    flags = u32(attrs.get(IFA_FLAGS), flags)
    kept = SETTABLE | IFA_F_TEMPORARY if family == AF_INET6 else SETTABLE
    label = text(attrs.get(IFA_LABEL))
    return Address(
        cidr=f"{local}/{length}",
        scope=scope,
        peer=far if far != local else "",
        broadcast=codec.address(attrs.get(IFA_BROADCAST)),
        label=label if label != name else "",
        valid_s=valid,
        preferred_s=preferred,
        flags=flags & kept,
        proto=u8(attrs.get(IFA_PROTO)),
        metric=u32(attrs.get(IFA_RT_PRIORITY)),
    )


def apply(netlink: RtnetlinkSocket, what: str, index: int, op: AddressOp) -> None:
    """Run an operation on an address of the link.

    Raises:
        KernelError: the kernel refused.
    """
    match op:
        case AddAddress():
            add_address(netlink, what, index, op.address)
        case LeaseAddress():
            put_address(netlink, what, index, op.address)
        case DropAddress():
            del_address(netlink, what, index, op.cidr)
        case _:
            assert_never(op)


def add_address(netlink: RtnetlinkSocket, what: str, index: int, address: Address) -> None:
    """Add an address to the link.

    Raises:
        KernelError: EEXIST: the link has the address with another prefix length or peer.
    """
    try:
        netlink.do(what, RTM_NEWADDR, NLM_F_EXCL_CREATE, _request(index, address))
    except KernelError as error:
        if error.code != EEXIST:
            raise
        present = dump_addresses(netlink, what, index, "")
        if not any(_same(address, other) for other in present):
            raise


def put_address(netlink: RtnetlinkSocket, what: str, index: int, address: Address) -> None:
    """Add an address to the link; one that is there gets the lifetime of this one.

    Raises:
        KernelError: the kernel refused.
    """
    netlink.do(what, RTM_NEWADDR, NLM_F_REPLACE_CREATE, _request(index, address))


def del_address(netlink: RtnetlinkSocket, what: str, index: int, cidr: str) -> None:
    """Delete an address of the link; one that is not there counts as done.

    Raises:
        KernelError: the kernel refused.
    """
    try:
        netlink.do(what, RTM_DELADDR, 0, _request(index, Address(cidr)))
    except KernelError as error:
        if error.code != EADDRNOTAVAIL:
            raise


def _same(desired: Address, present: Address) -> bool:
    return (ip_interface(desired.cidr), desired.peer) == (ip_interface(present.cidr), present.peer)


def _request(index: int, address: Address) -> bytes:
    local, length = split_prefix(address.cidr)
    request = _HEADER.pack(family_of(local), length, 0, address.scope, index)
    request += attribute(IFA_LOCAL, packed(local))
    request += attribute(IFA_ADDRESS, packed(address.peer or local))
    if address.broadcast:
        request += attribute(IFA_BROADCAST, packed(address.broadcast))
    if address.label:
        request += attribute(IFA_LABEL, octets(address.label) + b"\0")
    if address.flags & SETTABLE:
        request += u32_attribute(IFA_FLAGS, address.flags & SETTABLE)
    if (address.valid_s, address.preferred_s) != (FOREVER, FOREVER):
        lifetimes = _CACHEINFO.pack(address.preferred_s, address.valid_s)
        request += attribute(IFA_CACHEINFO, lifetimes)
    if address.metric:
        request += u32_attribute(IFA_RT_PRIORITY, address.metric)
    if address.proto:
        request += attribute(IFA_PROTO, bytes([address.proto]))
    return request
