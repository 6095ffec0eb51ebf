"""Preferred sources: links from whose addresses the host sends over other links.

Rules:
1. When an IPv4 address leaves the host, the kernel deletes the routes of table main with it as
   preferred source (fib_sync_down_addr). It keeps routes of other tables, and IPv6 routes.
2. A route with a nexthop over the link itself is restored with the link.
3. An address that several links have stays on the host with one of them.
"""

from collections import defaultdict

from dranet_nri.inventory.host_facts import HostFacts


def source_hazards(facts: HostFacts) -> dict[int, str]:
    """Return ifindex -> reason for links whose address is the source of another link's route.

    --include overrides it.
    """
    owners: dict[str, dict[int, str]] = defaultdict(dict)
    for device in facts.netdevs:
        for address in device.addresses:
            owners[address.cidr.partition("/")[0]][device.link.index] = device.link.name
    reasons: dict[int, str] = {}
    for destination, source, links in facts.sourced_routes:
        owner = owners.get(source, {})
        if len(owner) == 1 and links and owner.keys().isdisjoint(links):
            ((index, name),) = owner.items()
            reasons[index] = (
                f"its address {source} is the source of the route {destination} over another link,"
                f" which the kernel would delete: change that source; --include {name} offers it"
            )
    return reasons
