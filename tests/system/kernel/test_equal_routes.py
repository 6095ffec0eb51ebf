"""Restore of routes with equal destination and metric, on the real kernel."""

import pytest

from dranet_nri.model import Phase
from tests.system.kernel.rails import Rails, rails

PREFIXES = {"-4": "10.64.0.0/10", "-6": "fd99::/48"}


def gateway(family: str, number: int) -> str:
    return f"10.5.{number}.1" if family == "-4" else f"fd00:{number}::1"


def add_to_each(host: Rails, family: str, nics: range) -> None:
    """Give each NIC a route of one destination and metric, as networkd does."""
    for number in nics:
        way = f"via {gateway(family, number)} dev nic{number} metric 1024"
        host.ip(f"{family} route append {PREFIXES[family]} {way}")


def nexthops(lines: list[str]) -> list[set[str]]:
    """Return the next hops of each route, and what precedes them as one more."""
    return sorted(({part.strip() for part in line.split("nexthop")} for line in lines), key=sorted)


@pytest.mark.parametrize("family", ["-4", "-6"])
@pytest.mark.parametrize("nics", [("nic0", "nic1", "nic2"), ("nic2", "nic0")], ids=len)
def test_routes_of_the_nics_of_one_claim_are_restored(family: str, nics: tuple[str, ...]) -> None:
    with rails(4) as host:
        add_to_each(host, family, range(4))
        before = nexthops(host.routes(PREFIXES[family]))

        record = host.detach(host.attach(*nics))

        assert (record.phase, record.failure) == (Phase.RESTORED, None)
        assert nexthops(host.routes(PREFIXES[family])) == before


@pytest.mark.parametrize("family", ["-4", "-6"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_routes_of_the_nics_of_two_pods_are_restored(family: str, order: tuple[int, int]) -> None:
    with rails(2, pods=2) as host:
        add_to_each(host, family, range(2))
        before = nexthops(host.routes(PREFIXES[family]))
        records = [host.attach(f"nic{number}", pod=number) for number in range(2)]

        ended = [host.detach(records[number]) for number in order]

        assert [(record.phase, record.failure) for record in ended] == [(Phase.RESTORED, None)] * 2
        assert nexthops(host.routes(PREFIXES[family])) == before


@pytest.mark.parametrize("of", ["metric 7", "metric 7 tos 0x10"])
def test_route_equal_to_that_of_the_uplink_is_restored_behind_it(of: str) -> None:
    with rails(1) as host:
        host.ip(f"route add 10.64.0.0/10 via 10.1.0.1 dev uplink {of}")
        host.ip(f"route append 10.64.0.0/10 via 10.5.0.1 dev nic0 {of}")
        before = host.shown("route show 10.64.0.0/10")

        record = host.detach(host.attach("nic0"))

        assert (record.phase, record.failure) == (Phase.RESTORED, None)
        assert host.shown("route show 10.64.0.0/10") == before
        assert "uplink" in before[0]


def test_route_added_by_another_program_is_kept() -> None:
    with rails(1) as host:
        host.ip("route add 10.64.0.0/10 via 10.5.0.1 dev nic0")
        record = host.attach("nic0")
        host.ip("route add 10.64.0.0/10 via 10.1.0.9 dev uplink")

        record = host.detach(record)

        assert (record.phase, record.failure) == (Phase.RESTORED, None)
        assert host.routes("10.64.0.0/10") == [
            "10.64.0.0/10 via 10.1.0.9 dev uplink",
            "10.64.0.0/10 via 10.5.0.1 dev nic0",
        ]


@pytest.mark.parametrize("family", ["-4", "-6"])
def test_multipath_route_over_two_nics_of_a_claim_is_restored(family: str) -> None:
    hops = (f"nexthop via {gateway(family, n)} dev nic{n} weight {n + 1}" for n in range(3))
    with rails(3) as host:
        host.ip(f"{family} route add {PREFIXES[family]} metric 5 {' '.join(hops)}")
        before = nexthops(host.routes(PREFIXES[family]))

        record = host.detach(host.attach("nic0", "nic2"))

        assert (record.phase, record.failure) == (Phase.RESTORED, None)
        assert nexthops(host.routes(PREFIXES[family])) == before


def test_ipv6_multipath_route_gets_its_nexthop_back_while_another_is_missing() -> None:
    with rails(2, pods=2) as host:
        add_to_each(host, "-6", range(2))
        before = nexthops(host.routes(PREFIXES["-6"]))
        first, second = (host.attach(f"nic{number}", pod=number) for number in range(2))

        assert host.detach(first).phase is Phase.RESTORED
        (way,) = host.routes(PREFIXES["-6"])
        assert "via fd00::1 dev nic0 metric 1024" in way
        assert host.detach(second).phase is Phase.RESTORED
        assert nexthops(host.routes(PREFIXES["-6"])) == before


def test_ipv4_multipath_route_is_restored_over_the_available_nexthops() -> None:
    with rails(2, pods=2) as host:
        hops = " ".join(f"nexthop via 10.5.{number}.1 dev nic{number}" for number in range(2))
        host.ip(f"route add 10.64.0.0/10 {hops}")
        first, second = (host.attach(f"nic{number}", pod=number) for number in range(2))

        record = host.detach(first)

        assert record.phase is Phase.RESTORED
        assert record.failure is not None
        assert "route 10.64.0.0/10 without its nexthop over nic1" in record.failure.message
        assert host.routes("10.64.0.0/10") == ["10.64.0.0/10 via 10.5.0.1 dev nic0"]
        assert host.detach(second).phase is Phase.RESTORED
