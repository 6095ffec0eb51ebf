"""Host facts for the publish guard: links, addresses, routes, rules, and upper links."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from dranet_nri.component.replace import replace
from dranet_nri.errors import KernelError
from dranet_nri.inventory import HostFacts, NetDevice
from dranet_nri.kernel.namespace import Namespace
from dranet_nri.kernel.netns import run_inside
from dranet_nri.kernel.observe import sysfs_parents
from dranet_nri.linux.netlink.addresses import addresses
from dranet_nri.linux.netlink.codec import text, u8
from dranet_nri.linux.netlink.links import (
    IFLA_NETNS_IMMUTABLE,
    IFLA_PHYS_PORT_NAME,
    DumpedLink,
    Parents,
)
from dranet_nri.linux.netlink.policy_routing import policy_routes
from dranet_nri.linux.netlink.tunnels import tunnel_ends
from dranet_nri.linux.netlink.underlays import underlays
from dranet_nri.model import Address, Link


def host_facts(host: Namespace, parents_root: str) -> HostFacts:
    """Return the facts that hazards() needs.

    Args:
        host: the host's namespace.
        parents_root: a sysfs with the parents of its links, "" if netlink has them.

    Raises:
        KernelError: a dump failed.
    """
    links = host.links()
    parents = sysfs_parents(parents_root, links) if parents_root else {}
    defaults, by_daemon, sourced = host.main_routes()
    return HostFacts(
        netdevs=tuple(_net_devices.of(host, parents)),
        default_routes=defaults,
        policy_routes=policy_routes(host.netlink, host.rule_messages()),
        daemon_routes=by_daemon,
        sourced_routes=sourced,
    )


class _Facts(NamedTuple):
    """Facts of a net device. Links of the last dump are the same objects, so they compare fast."""

    dumped: DumpedLink
    parent: tuple[str, str]
    addresses: tuple[Address, ...]
    upper_kinds: tuple[str, ...]
    underlay_of: tuple[str, ...]
    tunnel_ends: tuple[str, int]


class _NetDevices:
    """Net devices of the last scan: created again only with other facts. Thread-safe."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[_Facts, NetDevice]] = {}

    def of(self, host: Namespace, parents: Parents) -> Iterator[NetDevice]:
        """Yield the net devices of the host."""
        owned = addresses(host.netlink)
        elsewhere = host.upper_kinds()
        ipsec = host.ipsec()
        encryption = run_inside(host.fd, lambda: underlays(host.netlink, host.links(), ipsec))
        last, current = self._last, dict[int, tuple[_Facts, NetDevice]]()
        for dumped in host.links():
            index = dumped.index
            try:
                facts = _Facts(
                    dumped, parents.get(dumped.name, ("", "")), owned.get(index, ()),
                    elsewhere.get(index, ()), encryption.get(index, ()),
                    tunnel_ends(host.netlink, dumped),
                )  # fmt: skip
                known = last.get(index)
                device = known[1] if known and known[0] == facts else _net_device(facts)
            except KernelError as error:
                yield NetDevice(Link(index, dumped.name), unreadable=str(error))
                continue
            current[index] = facts, device
            yield device
        self._last = current


_net_devices: Final = _NetDevices()


def _net_device(facts: _Facts) -> NetDevice:
    """Return the device; KernelError EBADMSG if an attribute has a wrong length."""
    dumped, (bus, parent) = facts.dumped, facts.parent
    return NetDevice(
        dumped.outline if not parent else replace(dumped.outline, bus=bus, parent=parent),
        facts.addresses,
        port_name=text(dumped.attrs.get(IFLA_PHYS_PORT_NAME)),
        pinned=u8(dumped.attrs.get(IFLA_NETNS_IMMUTABLE)) == 1,
        also_lower=dumped.lowers[1:],
        foreign_upper_kinds=facts.upper_kinds,
        underlay_of=facts.underlay_of,
        tunnel_ends=facts.tunnel_ends,
    )
