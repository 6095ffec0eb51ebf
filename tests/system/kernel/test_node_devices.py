"""Published devices of a node while links are added, changed, moved to pods and returned."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from dra_shim.discovery import DeviceSelection, NodeDevices, NodeOptions, Notice
from dra_shim.pool import DriverResources
from dra_shim.settings.common import StatePaths
from dranet_nri.kernel.netns import run_inside
from dranet_nri.model import AllocatedDevice, Allocation, Device, ObjectRef
from dranet_nri.state.store import AllocationStore
from tests.capability import lacking
from tests.fakes.host import FakeAddresses
from tests.fakes.no_cloud import NoCloud
from tests.system.kernel.namespaces import open_netns

NODE = "node-1"
CLAIM = ObjectRef("ai", "fast", "c1")


class Node:
    """A node in a private namespace; other ends of its links, and a pod, in another one."""

    def __init__(self, state: StatePaths, nsfd: int, pod: int) -> None:
        """Prepare; nothing is watched yet."""
        self._nsfd = nsfd
        self._pod = pod
        self._state = state
        self._offered = asyncio.Event()
        self.resources = DriverResources()
        self.addresses = FakeAddresses("192.0.2.77")
        self.notices: list[Notice] = []
        self.devices = NodeDevices(
            NodeOptions(DeviceSelection(filter="", exclude=("pci-*",)), rescan_s=3600),
            state,
            NODE,
            self.addresses,
            self._take,
            self.notices.append,
            clouds=NoCloud(),
        )

    def _take(self, resources: DriverResources) -> None:
        self.resources = resources
        self._offered.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch meanwhile."""
        task = asyncio.create_task(self.devices.run())
        try:
            await self.until(lambda: True)
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the published devices satisfy it; the test's timeout bounds the wait."""
        while True:
            await self._offered.wait()
            self._offered.clear()
            if holds():
                return

    def names(self) -> list[str]:
        """Return the names of the published devices."""
        return [device.name for device in self.resources.devices]

    def attribute(self, device: str, name: str) -> object:
        """Return an attribute of a published device."""
        (slice_device,) = (ref for ref in self.resources.devices if ref.name == device)
        return dict(slice_device.attributes).get(f"dra.net/{name}")

    def add(self, name: str) -> None:
        """Add a link that is up."""
        self.ip(f"link add name {name} type veth peer name p{name} netns {self._path()}")
        self.ip(f"link set dev {name} up")

    def move(self, name: str) -> None:
        """Move a link into the pod."""
        self.ip(f"link set dev {name} netns {self._path()}")

    def bring_back(self, name: str) -> None:
        """Move a link from the pod to the node."""
        self.ip(f"link set dev {name} netns {self._path(self._nsfd)}", inside=self._pod)

    def ip(self, command: str, inside: int | None = None) -> None:
        """Run ip on the node, or elsewhere."""
        arguments = ["ip", *command.split()]
        run_inside(
            self._nsfd if inside is None else inside,
            lambda: subprocess.run(arguments, check=True, capture_output=True),
        )

    def allocate(self, device: Device) -> None:
        """Record that a pod has a device."""
        pod = ObjectRef("ai", "train", "p1")
        with AllocationStore(self._state.allocations) as store:
            store.put(Allocation(CLAIM, pod, (AllocatedDevice("nic", NODE, device),), "n", "b"))

    def release(self) -> None:
        """Remove the record."""
        with AllocationStore(self._state.allocations) as store:
            store.remove(CLAIM.uid)

    def _path(self, nsfd: int | None = None) -> str:
        return f"/proc/{os.getpid()}/fd/{self._pod if nsfd is None else nsfd}"


Play = Callable[[Callable[[Node], Coroutine[object, object, None]]], None]


@pytest.fixture
def run_scenario(tmp_path: Path) -> Iterator[Play]:
    """Return a function that runs a scenario with a watched node."""
    if not shutil.which("ip"):
        lacking("the ip command", "install iproute2")

    async def run(node: Node, scenario: Callable[[Node], Coroutine[object, object, None]]) -> None:
        async with node.running():
            await scenario(node)

    with ExitStack() as stack:
        nsfd, pod = (stack.enter_context(open_netns()) for _ in range(2))
        state = StatePaths(tmp_path / "lib", tmp_path / "run")
        yield lambda scenario: run_inside(
            nsfd, lambda: asyncio.run(run(Node(state, nsfd, pod), scenario))
        )


def test_added_changed_and_removed_links_are_published(run_scenario: Play) -> None:
    async def scenario(node: Node) -> None:
        assert node.names() == []
        node.add("nic0")
        await node.until(lambda: node.names() == ["nic0"])
        node.ip("addr add 192.0.2.5/24 dev nic0")
        await node.until(lambda: node.attribute("nic0", "ipv4") == "192.0.2.5/24")
        node.ip("link set dev nic0 mtu 1400")
        await node.until(lambda: node.attribute("nic0", "mtu") == 1400)
        node.ip("link del dev nic0")
        await node.until(lambda: node.names() == [])

    run_scenario(scenario)


def test_uplink_is_not_published(run_scenario: Play) -> None:
    async def scenario(node: Node) -> None:
        node.add("nic0")
        node.add("nic1")
        await node.until(lambda: node.names() == ["nic0", "nic1"])
        node.ip("route add default dev nic0")
        await node.until(lambda: node.names() == ["nic1"])
        node.ip("route replace default dev nic1")
        await node.until(lambda: node.names() == ["nic0"])

    run_scenario(scenario)


def test_uplink_is_kept_after_the_loss_of_its_default_route(
    run_scenario: Play,
) -> None:
    async def scenario(node: Node) -> None:
        node.add("nic0")
        node.add("nic1")
        node.ip("route add default dev nic0")
        await node.until(lambda: node.names() == ["nic1"])
        node.ip("link set dev nic0 down")
        node.add("nic2")
        await node.until(lambda: "nic2" in node.names())
        assert node.names() == ["nic1", "nic2"]

        node.ip("link del dev nic0")
        node.add("nic0")
        node.add("nic3")
        await node.until(lambda: "nic3" in node.names())
        assert node.names() == ["nic1", "nic2", "nic3"]

        node.ip("route add default dev nic2")
        await node.until(lambda: node.names() == ["nic0", "nic1", "nic3"])

    run_scenario(scenario)


def test_link_with_the_node_address_is_not_published_without_a_default_route(
    run_scenario: Play,
) -> None:
    async def scenario(node: Node) -> None:
        node.add("nic0")
        node.add("nic1")
        await node.until(lambda: node.names() == ["nic0", "nic1"])
        node.ip("addr add 192.0.2.77/24 dev nic0")
        await node.until(lambda: node.names() == ["nic1"])
        node.ip("addr del 192.0.2.77/24 dev nic0")
        node.ip("addr add 192.0.2.77/24 dev nic1")
        await node.until(lambda: "nic0" in node.names())
        assert "nic1" not in node.names()

    run_scenario(scenario)


def test_link_in_a_pod_keeps_its_facts_and_is_updated_on_return(run_scenario: Play) -> None:
    async def scenario(node: Node) -> None:
        node.add("nic0")
        node.ip("addr add 192.0.2.5/24 dev nic0")
        await node.until(
            lambda: bool(node.names()) and node.attribute("nic0", "ipv4") == "192.0.2.5/24"
        )
        node.allocate((await node.devices.devices(["nic0"]))["nic0"])
        node.move("nic0")
        node.add("other")
        await node.until(lambda: "other" in node.names())
        assert node.attribute("nic0", "ipv4") == "192.0.2.5/24"
        health = {
            device.device: device.healthy for device in (await node.devices.health(None)).devices
        }
        assert health == {"nic0": None, "other": True}

        node.bring_back("nic0")
        node.release()
        await node.until(lambda: node.attribute("nic0", "ipv4") is None)
        assert node.names() == ["nic0", "other"]

    run_scenario(scenario)


def test_prepare_finds_a_link_added_just_before(run_scenario: Play) -> None:
    async def scenario(node: Node) -> None:
        node.add("nic0")

        assert list(await node.devices.devices(["nic0", "nic9"])) == ["nic0"]

    run_scenario(scenario)
