"""Contract of NodeDevices, in memory and on the real kernel: events, and the scans after them."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from dra_shim.discovery.host import Host, LiveHost
from dra_shim.discovery.notices import Notice
from dranet_nri.component.threads import in_thread
from dranet_nri.inventory import HostFacts
from dranet_nri.kernel.netns import run_inside
from dranet_nri.state.privileged_facts import PrivilegedFacts
from tests.capability import lacking
from tests.fakes.host import FakeHost
from tests.system.kernel.namespaces import open_netns


class World(Protocol):
    """A node, and the changes of a test."""

    @property
    def host(self) -> Host:
        """Return the node."""

    def run(self, scenario: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run a scene where the node is."""

    def add_nic(self, name: str) -> None:
        """Add a link that is up and has a carrier."""

    def take_link(self, name: str) -> None:
        """Move a link away."""

    def unplug(self, name: str) -> None:
        """Take a link's carrier away."""

    def route_through(self, name: str) -> None:
        """Let the default route go through a link."""


class MemoryWorld(FakeHost):
    """A node in memory."""

    @property
    def host(self) -> Host:
        """See World."""
        return self

    def run(self, scenario: Callable[[], Coroutine[object, object, None]]) -> None:
        """See World."""
        asyncio.run(scenario())


class RealWorld:
    """A private namespace, wires to another one for NICs."""

    def __init__(self, nsfd: int, wire: int) -> None:
        """Take both."""
        self.host: Host = LiveHost()
        self._nsfd = nsfd
        self._wire = wire

    def run(self, scenario: Callable[[], Coroutine[object, object, None]]) -> None:
        """See World."""
        run_inside(self._nsfd, lambda: asyncio.run(scenario()))

    def add_nic(self, name: str) -> None:
        """See World."""
        far = f"/proc/{os.getpid()}/fd/{self._wire}"
        self._ip(self._nsfd, f"link add name {name} type veth peer name p{name} netns {far}")
        self._ip(self._wire, f"link set dev p{name} up")
        self._ip(self._nsfd, f"link set dev {name} up")

    def take_link(self, name: str) -> None:
        """See World."""
        self._ip(self._nsfd, f"link del dev {name}")

    def unplug(self, name: str) -> None:
        """See World."""
        self._ip(self._wire, f"link set dev p{name} down")

    def route_through(self, name: str) -> None:
        """See World."""
        self._ip(self._nsfd, f"route replace default dev {name}")

    def _ip(self, nsfd: int, command: str) -> None:
        command_line = ["ip", *command.split()]
        run_inside(nsfd, lambda: subprocess.run(command_line, check=True, capture_output=True))


@pytest.fixture(params=["fake", "real"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Return one node after the other, without links."""
    if request.param == "fake":
        yield MemoryWorld()
        return
    if not shutil.which("ip"):
        lacking("the ip command", "install iproute2")
    with ExitStack() as stack:
        yield RealWorld(stack.enter_context(open_netns()), stack.enter_context(open_netns()))


NOTHING = PrivilegedFacts()


def names(facts: HostFacts) -> set[str]:
    return {netdev.link.name for netdev in facts.netdevs} - {"lo"}


def carriers(facts: HostFacts) -> dict[str, bool]:
    return {
        netdev.link.name: netdev.link.carrier
        for netdev in facts.netdevs
        if netdev.link.name != "lo"
    }


def programs(facts: HostFacts) -> dict[str, tuple[str, ...]]:
    return {
        netdev.link.name: netdev.tcx_programs
        for netdev in facts.netdevs
        if netdev.link.name != "lo"
    }


def above(facts: HostFacts) -> dict[str, tuple[str, ...]]:
    return {
        netdev.link.name: netdev.foreign_upper_kinds
        for netdev in facts.netdevs
        if netdev.link.name != "lo"
    }


def underlays(facts: HostFacts) -> dict[str, tuple[str, ...]]:
    return {
        netdev.link.name: netdev.underlay_of for netdev in facts.netdevs if netdev.link.name != "lo"
    }


def uplinks(facts: HostFacts) -> set[str]:
    by_index = {netdev.link.index: netdev.link.name for netdev in facts.netdevs}
    return {by_index[leg] for route in facts.default_routes for leg in route.links}


class Watched:
    """The events of a node, and its scans."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._stirred = asyncio.Event()
        self.notices: list[Notice] = []

    async def look(
        self, *, whole: bool = False, privileged: PrivilegedFacts = NOTHING
    ) -> HostFacts:
        return await in_thread(lambda: self._host.scan(full=whole, privileged_facts=privileged))

    async def until(self, holds: Callable[[HostFacts], bool]) -> HostFacts:
        """Scan after each event until the condition holds; the timeout of the test bounds it."""
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            facts = await self.look()
            if holds(facts):
                return facts

    async def run(self, scenario: Callable[["Watched"], Coroutine[object, object, None]]) -> None:
        with self._host.listening(self._stirred.set, self.notices.append):
            await self.look(whole=True)
            await scenario(self)
        assert self.notices == []


def run_scenario(
    world: World, scenario: Callable[[Watched], Coroutine[object, object, None]]
) -> None:
    world.run(lambda: Watched(world.host).run(scenario))


def test_added_or_removed_link_triggers_an_event(world: World) -> None:
    async def scenario(watched: Watched) -> None:
        world.add_nic("a")
        await watched.until(lambda facts: carriers(facts) == {"a": True})
        world.add_nic("b")
        await watched.until(lambda facts: names(facts) == {"a", "b"})
        world.take_link("a")
        await watched.until(lambda facts: names(facts) == {"b"})

    run_scenario(world, scenario)


def test_lost_carrier_triggers_an_event(world: World) -> None:
    world.add_nic("a")

    async def scenario(watched: Watched) -> None:
        world.unplug("a")
        await watched.until(lambda facts: carriers(facts) == {"a": False})

    run_scenario(world, scenario)


def test_default_route_triggers_an_event(world: World) -> None:
    world.add_nic("a")
    world.add_nic("b")

    async def scenario(watched: Watched) -> None:
        world.route_through("a")
        await watched.until(lambda facts: uplinks(facts) == {"a"})
        world.route_through("b")
        await watched.until(lambda facts: uplinks(facts) == {"b"})

    run_scenario(world, scenario)


def test_reported_programs_belong_to_their_link_until_withdrawn(
    world: World,
) -> None:
    async def scenario(watched: Watched) -> None:
        world.add_nic("a")
        world.add_nic("b")
        facts = await watched.until(lambda facts: names(facts) == {"a", "b"})
        (index,) = [netdev.link.index for netdev in facts.netdevs if netdev.link.name == "a"]
        for whole in (False, True):
            seen = PrivilegedFacts(
                {index: ("count", "drop")}, {index: ("macvlan",)}, {index: ("IPsec",)}
            )
            facts = await watched.look(whole=whole, privileged=seen)
            assert programs(facts) == {"a": ("count", "drop"), "b": ()}
            assert above(facts) == {"a": ("macvlan",), "b": ()}
            assert underlays(facts) == {"a": ("IPsec",), "b": ()}
            assert programs(await watched.look(whole=whole)) == {"a": (), "b": ()}
            facts = await watched.look(whole=whole)
            assert above(facts) == underlays(facts) == {"a": (), "b": ()}

    run_scenario(world, scenario)


def test_partial_scan_equals_a_full_scan(world: World) -> None:
    async def scenario(watched: Watched) -> None:
        for name in ("a", "b", "c"):
            world.add_nic(name)
        await watched.until(lambda facts: carriers(facts) == dict.fromkeys("abc", True))
        world.route_through("a")
        await watched.until(lambda facts: uplinks(facts) == {"a"})
        world.take_link("b")
        facts = await watched.until(lambda facts: names(facts) == {"a", "c"})

        assert facts == await watched.look(whole=True)

    run_scenario(world, scenario)


def test_no_event_arrives_after_close(world: World) -> None:
    stirs: list[int] = []

    async def scenario() -> None:
        with world.host.listening(lambda: stirs.append(1), lambda _: None):
            pass
        world.add_nic("a")
        await asyncio.sleep(0)

    world.run(scenario)
    assert stirs == []
