"""What the judgement at attach goes by: the host's links, and what hangs on them or uses them."""

from collections.abc import Iterator

from dranet_nri.errors import KernelError
from dranet_nri.inventory import HostFacts, NetDevice
from dranet_nri.kernel.observe import sysfs_parents
from dranet_nri.kernel.space import Space
from dranet_nri.model import Address, Link
from dranet_nri.netlink.addresses import addresses
from dranet_nri.netlink.codec import text, u8
from dranet_nri.netlink.links import (
    IFLA_NETNS_IMMUTABLE,
    IFLA_PHYS_PORT_NAME,
    Parents,
    Seen,
    outline,
)
from dranet_nri.netlink.routes import default_routes


def host_facts(host: Space, sys_root: str) -> HostFacts:
    """Return what hazards() judges links by, and no more.

    Raises:
        KernelError: a dump failed.
    """
    links = host.links()
    told = any(seen.parent[1] for seen in links)
    parents = {} if told else sysfs_parents(sys_root, links)
    return HostFacts(
        netdevs=tuple(_net_devices(links, parents, addresses(host.netlink))),
        default_routes=default_routes(host.netlink),
    )


def _net_devices(
    links: tuple[Seen, ...], parents: Parents, owned: dict[int, tuple[Address, ...]]
) -> Iterator[NetDevice]:
    for seen in links:
        bus, parent = parents.get(seen.name, ("", ""))
        try:
            yield NetDevice(
                outline(seen, bus, parent),
                owned.get(seen.index, ()),
                port_name=text(seen.attrs.get(IFLA_PHYS_PORT_NAME)),
                pinned=u8(seen.attrs.get(IFLA_NETNS_IMMUTABLE)) == 1,
            )
        except KernelError as error:
            yield NetDevice(Link(seen.index, seen.name), unreadable=str(error))
