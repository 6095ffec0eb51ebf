"""Host facts for the publish guard: links, addresses, routes, rules, and upper links."""

from collections.abc import Iterator

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
    Parents,
)
from dranet_nri.linux.netlink.policy_routing import policy_routes
from dranet_nri.linux.netlink.tunnels import tunnel_ends
from dranet_nri.linux.netlink.underlays import underlays
from dranet_nri.model import Link


def host_facts(host: Namespace, sys_root: str) -> HostFacts:
    """Return the facts that hazards() needs.

    Raises:
        KernelError: a dump failed.
    """
    links = host.links()
    has_parents = any(dumped.parent[1] for dumped in links)
    parents = {} if has_parents else sysfs_parents(sys_root, links)
    defaults, by_daemon, sourced = host.main_routes()
    return HostFacts(
        netdevs=tuple(_net_devices(host, parents)),
        default_routes=defaults,
        policy_routes=policy_routes(host.netlink),
        daemon_routes=by_daemon,
        sourced_routes=sourced,
    )


def _net_devices(host: Namespace, parents: Parents) -> Iterator[NetDevice]:
    owned = addresses(host.netlink)
    elsewhere = host.upper_kinds()
    ipsec = host.ipsec()
    encryption = run_inside(host.fd, lambda: underlays(host.netlink, host.links(), ipsec))
    for dumped in host.links():
        bus, parent = parents.get(dumped.name, ("", ""))
        try:
            yield NetDevice(
                dumped.outline if not parent else replace(dumped.outline, bus=bus, parent=parent),
                owned.get(dumped.index, ()),
                port_name=text(dumped.attrs.get(IFLA_PHYS_PORT_NAME)),
                pinned=u8(dumped.attrs.get(IFLA_NETNS_IMMUTABLE)) == 1,
                also_lower=dumped.lowers[1:],
                foreign_upper_kinds=elsewhere.get(dumped.index, ()),
                underlay_of=encryption.get(dumped.index, ()),
                tunnel_ends=tunnel_ends(host.netlink, dumped),
            )
        except KernelError as error:
            yield NetDevice(Link(dumped.index, dumped.name), unreadable=str(error))
