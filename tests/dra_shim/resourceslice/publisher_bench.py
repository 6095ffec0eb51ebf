"""A publisher with its API server and clock, for one test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dra_shim.kubeapi import NODE, SLICE, ApiClient, name_of
from dra_shim.pool import DriverResources, driver_resources
from dra_shim.resourceslice import Notice, ResourceSliceController, SlicesPublished, SliceSyncFailed
from dra_shim.resourceslice.layout import slice_name
from dra_shim.resourceslice.schedule import GATHER_S, REPAIR_S, REST_S
from dranet_nri.component.clock import LoopClock
from tests.dra_shim.kubeapi.client_bench import talking
from tests.dra_shim.resourceslice.pools import device
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.clock import FakeClock
from tests.fakes.exchange import Asked

NODE_1 = "node-1"
FIRST = slice_name(NODE_1, 0)  # its first slice
T = TypeVar("T", bound=Notice)
Document = dict[str, Any]


@dataclass
class Bench:
    """A running publisher of a node."""

    api: ApiClient
    node: str
    clock: FakeClock = field(default_factory=FakeClock)
    random: float = 1.0
    notices: list[Notice] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the publisher; start it later."""
        self._noted = asyncio.Event()
        self.publisher = ResourceSliceController(
            self.api,
            self.node,
            self._note,
            LoopClock(self.clock, self.clock.sleep, lambda: self.random),
        )

    def _note(self, notice: Notice) -> None:
        self.notices.append(notice)
        self._noted.set()

    async def add_node(self) -> str:
        """Create the node; return its UID."""
        node = await self.api.create(NODE, {"metadata": {"name": self.node}})
        metadata = node["metadata"]
        assert isinstance(metadata, dict)
        return str(metadata["uid"])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the publisher meanwhile."""
        task = asyncio.create_task(self.publisher.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def rest(self, seconds: float) -> None:
        """Wait until the publisher rests that long, and let the time pass."""
        await self.clock.until_asleep(seconds)
        self.clock.pass_time(seconds)

    async def publish(self, resources: DriverResources) -> SlicesPublished:
        """Offer, and wait until it is published."""
        count = len(self.said(SlicesPublished))
        self.publisher.offer(resources)
        await self.rest(GATHER_S)
        return await self.until_said(SlicesPublished, count + 1)

    async def rest_over(self, writes: int) -> None:
        """Let the time pass that so many writes buy, once there is nothing to repair."""
        await self.until_at_ease()
        self.clock.pass_time(REST_S * writes)

    async def until_at_ease(self) -> None:
        """Wait until the publisher sees on the server what it published, and has nothing to do."""
        publisher = self.publisher
        calm = 0
        while calm < 2:  # the second time nobody sleeps any more who has nothing to wait for
            await asyncio.sleep(0.002)
            idle_s = publisher._schedule.due - self.clock()
            at_ease = publisher._informer.complete and idle_s > REPAIR_S
            calm = calm + 1 if at_ease else 0

    async def wiped(self, server: FakeApiServer) -> None:
        """Let a kubelet that starts delete the slices, and wait until there are some again."""
        count = len(self.said(SlicesPublished))
        server.remove("resourceslices")
        await self.until_heard()
        await self.rest(REPAIR_S)
        await self.until_said(SlicesPublished, count + 1)

    async def until_heard(self, *devices: str) -> None:
        """Wait until the publisher's mirror has these devices."""
        heard: list[str] = []
        while heard != [*devices]:
            await asyncio.sleep(0.002)
            documents: list[Any] = list(self.publisher._informer.objects.values())
            heard = [name for document in documents for name in names_of(document)]

    def said(self, kind: type[T]) -> list[T]:
        """Return the notices of one kind."""
        return [notice for notice in self.notices if isinstance(notice, kind)]

    async def until_said(self, kind: type[T], count: int = 1) -> T:
        """Wait for the count-th notice of a kind."""
        while len(self.said(kind)) < count:
            self._noted.clear()
            await self._noted.wait()
        return self.said(kind)[count - 1]

    async def slices(self) -> list[Any]:
        """Return the node's slices, by name, as they are read one by one."""
        fields = {"spec.nodeName": self.node, "spec.driver": "dra.net"}
        listing = await self.api.list(SLICE, fields)
        return [await self.api.get(SLICE, name) for name in sorted(map(name_of, listing.items))]

    async def versions(self) -> list[str]:
        """Return the resourceVersion of each slice, by name."""
        return [
            resource_slice["metadata"]["resourceVersion"] for resource_slice in await self.slices()
        ]

    def troubles(self) -> list[tuple[str, float]]:
        """Return what went wrong, and after how many seconds it was tried again."""
        return [(str(notice.error), notice.retry_s) for notice in self.said(SliceSyncFailed)]


@asynccontextmanager
async def publishing(
    node: str = NODE_1, server: FakeApiServer | None = None
) -> AsyncIterator[tuple[FakeApiServer, Bench]]:
    """Run a publisher of a node that there is, on a server in memory."""
    async with talking(server) as (server, api):
        bench = Bench(api, node)
        await bench.add_node()
        server.asked.clear()
        server.writes.clear()
        async with bench.running():
            yield server, bench


def names_of(document: Document) -> list[str]:
    """Return the names of a slice's devices."""
    return [ref["name"] for ref in document["spec"].get("devices", [])]


def plain(*names: str, mtu: int = 1500) -> DriverResources:
    """Return what node-1 offers with these devices."""
    return driver_resources(NODE_1, [device(name, mtu=mtu) for name in names])


def ill(*names: str) -> DriverResources:
    """Return devices a and b of node-1, those named without a carrier."""
    return driver_resources(
        NODE_1, [device("a"), device("b")], unhealthy=dict.fromkeys(names, "NoCarrier")
    )


def writing(asked: Asked) -> bool:
    """Whether the request is to write something."""
    return asked.method in {"POST", "PUT", "DELETE"}
