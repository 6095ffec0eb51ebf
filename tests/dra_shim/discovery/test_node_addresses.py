"""Links with an address of the Node object, which are reserved for the node."""

from pathlib import Path

import pytest

from dra_shim.discovery import DevicesChanged, ScanFailed
from dra_shim.discovery.node_addresses import REFRESH_S, RETRY_S, NodeAddresses
from dra_shim.discovery.schedule import FIRST_PAUSE_S
from dra_shim.prepare import ApiUnavailableError
from tests.dra_shim.discovery.node_bench import NODE, RESCAN_S, Bench
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.clock import FakeClock
from tests.fakes.host import FakeAddresses

pytestmark = pytest.mark.process


WHY = "it has the Node's address 10.0.0.5"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Return a node with links a and b, of which a has an address; there is no default route."""
    made = Bench(tmp_path)
    made.host.add_nic("a")
    made.host.add_nic("b")
    made.host.give("a", "10.0.0.5/24", "fe80::1/64")
    return made


def test_link_with_the_nodes_address_is_neither_published_nor_prepared(
    bench: Bench,
) -> None:
    bench.addresses.node_addresses = frozenset({"10.0.0.5", "203.0.113.7"})

    async def scenario() -> None:
        async with bench.running():
            assert bench.published == [["b"]]
            assert list(await bench.devices.devices(["a", "b"])) == ["b"]
            assert bench.addresses.lookups == [NODE]

    finish(scenario())


def test_link_stays_reserved_while_no_link_has_the_nodes_address(bench: Bench) -> None:
    bench.addresses.node_addresses = frozenset({"10.0.0.5"})

    async def scenario() -> None:
        async with bench.running():
            bench.host.give("a")
            await bench.settle()
            assert bench.published[-1] == ["b"]

            bench.host.give("b", "10.0.0.5/24")
            await bench.settle()
            assert bench.published[-1] == ["a"]
            assert bench.notices[-1] == DevicesChanged(1, 0, ("a",), (("b", WHY),))

    finish(scenario())


def test_uplink_stays_reserved_while_no_default_route_exists(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            for name, offered in (("b", ["a"]), ("", ["a"]), ("a", ["b"])):
                bench.host.route_through(name)
                await bench.settle()
                assert bench.published[-1] == offered

    finish(scenario())


def test_devices_are_published_after_the_nodes_addresses_are_known(bench: Bench) -> None:
    refused = ApiUnavailableError("get Node node-1: refused")
    bench.addresses.error = refused

    async def scenario() -> None:
        async with bench.running(FIRST_PAUSE_S):
            assert bench.notices_of(ScanFailed)[0].error is refused
            with pytest.raises(ApiUnavailableError, match="get Node node-1"):
                await bench.devices.devices(["a"])
            assert bench.published == []
            assert bench.host.scans == []

            bench.addresses.error = None
            bench.addresses.node_addresses = frozenset({"10.0.0.5"})
            assert list(await bench.devices.devices(["a", "b"])) == ["b"]

    finish(scenario())


def test_changed_node_addresses_are_used_by_a_later_scan(bench: Bench) -> None:
    bench.addresses.node_addresses = frozenset({"192.0.2.1"})

    async def scenario() -> None:
        async with bench.running():
            assert bench.published[-1] == ["a", "b"]
            bench.addresses.node_addresses = frozenset({"10.0.0.5"})
            for _ in range(int(REFRESH_S / RESCAN_S)):
                await bench.rest(RESCAN_S)
            assert bench.published[-1] == ["b"]

    finish(scenario())


# --------------------------------------------------------------------------- times of requests


def test_node_addresses_are_requested_again_after_the_interval() -> None:
    source, clock = FakeAddresses("10.0.0.5"), FakeClock()
    node_addresses = NodeAddresses(source, NODE, clock)

    async def scenario() -> None:
        for wait_s, lookups in ((0, 1), (REFRESH_S - 1, 1), (1, 2), (REFRESH_S - 1, 2)):
            clock.pass_time(wait_s)
            assert await node_addresses.addresses() == {"10.0.0.5"}
            assert len(source.lookups) == lookups

    finish(scenario())


def test_last_node_addresses_are_kept_while_requests_fail() -> None:
    source, clock = FakeAddresses("10.0.0.5"), FakeClock()
    node_addresses = NodeAddresses(source, NODE, clock)

    async def scenario() -> None:
        await node_addresses.addresses()
        source.error = ApiUnavailableError("refused")
        source.node_addresses = frozenset({"10.0.0.6"})
        for wait_s, lookups in ((REFRESH_S, 2), (RETRY_S - 1, 2), (1, 3)):
            clock.pass_time(wait_s)
            assert await node_addresses.addresses() == {"10.0.0.5"}
            assert len(source.lookups) == lookups
        source.error = None
        clock.pass_time(RETRY_S)
        assert await node_addresses.addresses() == {"10.0.0.6"}

    finish(scenario())


def test_node_without_addresses_is_requested_again_after_the_retry_interval() -> None:
    source, clock = FakeAddresses(), FakeClock()
    node_addresses = NodeAddresses(source, NODE, clock)

    async def scenario() -> None:
        assert await node_addresses.addresses() == frozenset()
        source.node_addresses = frozenset({"10.0.0.5"})
        clock.pass_time(RETRY_S)
        assert await node_addresses.addresses() == {"10.0.0.5"}

    finish(scenario())
