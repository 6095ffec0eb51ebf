"""Restore of routes whose gateways are no longer reachable, on the real kernel."""

import pytest

from dranet_nri.model import Phase
from tests.system.kernel.rails import Rails, rails

ROUTES = {
    "IPv4": ["route add 10.64.0.0/10 via 10.6.0.1 dev nic0 metric 7"],
    "IPv4 table": ["route add 10.64.0.0/10 via 10.6.0.1 dev nic0 table 55"],
    "IPv4 equal metric": [
        "route add 10.64.0.0/10 via 10.1.0.1 dev uplink metric 7",
        "route append 10.64.0.0/10 via 10.6.0.1 dev nic0 metric 7",
        "route append 10.64.0.0/10 via 10.6.0.2 dev nic0 metric 7",
    ],
    "IPv4 multipath": [
        "route add 10.64.0.0/10 nexthop via 10.6.0.1 dev nic0 nexthop via 10.6.0.2 dev nic0"
    ],
    "IPv6": ["-6 route add fd99::/48 via fd06::1 dev nic0"],
    "IPv6 multipath": [
        "-6 route add fd99::/48 nexthop via fd06::1 dev nic0 nexthop via fd06::2 dev nic0"
    ],
}


def everything(host: Rails) -> list[str]:
    """Return all routes of the host but those of table local and of link-local addresses."""
    shown = (host.shown(f"{family} route show table all") for family in ("-4", "-6"))
    lines = [line for lines in shown for line in lines]
    return [line for line in lines if "table local" not in line and "fe80" not in line]


@pytest.mark.parametrize("commands", ROUTES.values(), ids=ROUTES)
def test_route_with_an_unreachable_gateway_is_restored(commands: list[str]) -> None:
    with rails(1) as host:
        host.ip("addr add 10.6.0.7/24 dev nic0", "addr add fd06::7/64 dev nic0 nodad", *commands)
        host.ip("addr del 10.6.0.7/24 dev nic0", "addr del fd06::7/64 dev nic0")
        before = everything(host)

        record = host.detach(host.attach("nic0"))

        assert (record.phase, record.failure) == (Phase.RESTORED, None)
        assert everything(host) == before
        assert any("10.6.0.1" in line or "fd06::1" in line for line in before)
