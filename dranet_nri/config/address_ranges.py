"""Address ranges: replaces each range in `addresses` by a free address of it.

`interface.addresses` may contain "10.9.1.16-10.9.1.63/24": each device gets the first address of
the range that no pod of the node has, with that prefix length. Nodes do not coordinate, so each
needs its own range. No device gets an address of a gateway or neighbor of its parameters, or one
that no host of the network can have: its first one and, for IPv4, its last one (RFC 4291, RFC 919).
"""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address, ip_interface
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.config.scalars import (
    IpAddress,
    IpNetwork,
    check_assignable,
    parse_address,
    parse_prefix,
)
from dranet_nri.errors import InvalidValueError, OwnedError, RefusedError
from dranet_nri.model import NetworkConfig

MAX_RANGE: Final = 65536  # addresses; the search is linear


def parse_address_or_range(text: str) -> str:
    """Return "address/length" or "first-last/length" in canonical form.

    Raises:
        InvalidValueError: it is neither, not assignable, or a range that is not in one network.
    """
    first, dash, rest = text.partition("-")
    if not dash or first.endswith("/"):  # a negative length is no range
        address, length = parse_prefix(text)
        check_assignable(address)
        return f"{address}/{length}"
    low = parse_address(first)
    high, length = parse_prefix(rest)
    check_assignable(low)
    check_assignable(high)
    if high.version != low.version:
        raise InvalidValueError(f"begins as IPv{low.version} and ends as IPv{high.version}")
    if int(low) > int(high):
        raise InvalidValueError("ends before it begins; write the lower address first")
    if low not in ip_interface(f"{high}/{length}").network:
        raise InvalidValueError(f"{low} is not in the network of {high}/{length}; correct one")
    if int(high) - int(low) >= MAX_RANGE:
        raise InvalidValueError(f"holds more than {MAX_RANGE} addresses; use a part of it")
    return f"{low}-{high}/{length}"


def assign_addresses(
    configs: Sequence[NetworkConfig], taken: Iterable[str]
) -> tuple[NetworkConfig, ...]:
    """Return the configurations with each range replaced by a free address.

    Args:
        configs: configurations of the devices that are allocated together.
        taken: addresses in use on this node, in CIDR notation.

    Raises:
        OwnedError: all addresses of a range are in use; some may become free.
        RefusedError: these devices need more addresses than a range has.
    """
    spelled_out = (cidr for config in configs for cidr in config.interface.addresses or ())
    own = {_host(cidr) for cidr in spelled_out if "-" not in cidr}
    try:
        return _all_assigned(configs, own | {_host(cidr) for cidr in taken})
    except _ExhaustedError as error:
        exhausted = error
    try:
        _all_assigned(configs, own)
    except _ExhaustedError as error:
        raise RefusedError(
            f"interface.addresses: {error.entry} has fewer addresses than these devices "
            "request; widen the range"
        ) from None
    raise OwnedError(
        f"interface.addresses: pods of this node use every address of {exhausted.entry}; "
        "delete one of them, or widen the range"
    )


class _ExhaustedError(Exception):
    """All addresses of a range are in use."""

    def __init__(self, entry: str) -> None:
        super().__init__(entry)
        self.entry = entry


def _all_assigned(
    configs: Sequence[NetworkConfig], used: set[IpAddress]
) -> tuple[NetworkConfig, ...]:
    """Return configurations without ranges; adds the assigned addresses to `used`."""
    return tuple(_assigned(config, used) for config in configs)


def _assigned(config: NetworkConfig, used: set[IpAddress]) -> NetworkConfig:
    given = config.interface.addresses
    if given is None or not any("-" in entry for entry in given):
        return config
    routers = {ip_address(route.gateway) for route in config.routes if route.gateway}
    others = routers | {ip_address(neighbour.destination) for neighbour in config.neighbors}
    addresses = tuple(_free(entry, used, others) if "-" in entry else entry for entry in given)
    return replace(config, interface=replace(config.interface, addresses=addresses))


def _free(entry: str, used: set[IpAddress], others: set[IpAddress]) -> str:
    """Return a free address of a range, which is none of `others`; adds it to `used`."""
    span, _, length = entry.partition("/")
    unusable = others | _reserved(ip_interface(entry.rpartition("-")[2]).network)
    for address in _members(span):
        if address not in used and address not in unusable:
            used.add(address)
            return f"{address}/{length}"
    raise _ExhaustedError(entry)


def _reserved(network: IpNetwork) -> set[IpAddress]:
    """Return the addresses of a network that no host can have."""
    if network.max_prefixlen - network.prefixlen < 2:  # a link of two (RFC 3021, RFC 6164)
        return set()
    return {network[0], network[-1]} if network.version == 4 else {network[0]}


def _members(span: str) -> Iterator[IpAddress]:
    first, _, last = span.partition("-")
    low, high = ip_address(first), ip_address(last)
    kind = type(low)
    return (kind(number) for number in range(int(low), int(high) + 1))


def _host(cidr: str) -> IpAddress:
    return ip_interface(cidr).ip
