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
from dra_shim.resourceslice.schedule import DEBOUNCE_S, MIN_INTERVAL_S, REPAIR_S
from tests.dra_shim.kubeapi.client_bench import talking
from tests.dra_shim.resourceslice.pools import device
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.clock import FakeClock
from tests.fakes.exchange import Request

NODE_1 = "node-1"
FIRST = slice_name(NODE_1, 0)  # the first slice of node-1
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
        self._noticed = asyncio.Event()
        self.publisher = ResourceSliceController(
            self.api,
            self.node,
            self._note,
            self.clock.timing(lambda: self.random),
        )

    def _note(self, notice: Notice) -> None:
        self.notices.append(notice)
        self._noticed.set()

    async def add_node(self) -> str:
        """Create the node; return its UID."""
        node = await self.api.create(NODE, {"metadata": {"name": self.node}})
        metadata = node["metadata"]
        assert isinstance(metadata, dict)
        return str(metadata["uid"])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the publisher inside the context."""
        task = asyncio.create_task(self.publisher.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def rest(self, seconds: float) -> None:
        """Wait until the publisher sleeps that long, and advance the clock."""
        await self.clock.until_asleep(seconds)
        self.clock.pass_time(seconds)

    async def publish(self, resources: DriverResources) -> SlicesPublished:
        """Pass resources to the publisher, and wait until they are published."""
        count = len(self.notices_of(SlicesPublished))
        self.publisher.publish(resources)
        await self.rest(DEBOUNCE_S)
        return await self.until_notice(SlicesPublished, count + 1)

    async def rest_over(self, writes: int) -> None:
        """Advance the clock by the rate limit of so many writes, once the slices are in sync."""
        await self.until_in_sync()
        self.clock.pass_time(MIN_INTERVAL_S * writes)

    async def until_in_sync(self) -> None:
        """Wait until the slices on the server are in sync and no pass is due."""
        publisher = self.publisher
        in_sync_checks = 0
        while in_sync_checks < 2:  # once more, because a task may have been about to sleep
            await asyncio.sleep(0.002)
            idle_s = publisher._schedule.due - self.clock()
            in_sync = publisher._informer.complete and idle_s > REPAIR_S
            in_sync_checks = in_sync_checks + 1 if in_sync else 0

    async def wiped(self, server: FakeApiServer) -> None:
        """Delete the slices as a starting kubelet does, and wait until they are published again."""
        count = len(self.notices_of(SlicesPublished))
        server.remove("resourceslices")
        await self.until_observed()
        await self.rest(REPAIR_S)
        await self.until_notice(SlicesPublished, count + 1)

    async def until_observed(self, *devices: str) -> None:
        """Wait until the publisher's informer has exactly these devices."""
        observed: list[str] = []
        while observed != [*devices]:
            await asyncio.sleep(0.002)
            documents: list[Any] = list(self.publisher._informer.objects.values())
            observed = [name for document in documents for name in names_of(document)]

    def notices_of(self, kind: type[T]) -> list[T]:
        """Return the notices of one kind."""
        return [notice for notice in self.notices if isinstance(notice, kind)]

    async def until_notice(self, kind: type[T], count: int = 1) -> T:
        """Wait for the count-th notice of a kind."""
        while len(self.notices_of(kind)) < count:
            self._noticed.clear()
            await self._noticed.wait()
        return self.notices_of(kind)[count - 1]

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
        """Return each failed sync: the error, and the seconds until the retry."""
        return [(str(notice.error), notice.retry_s) for notice in self.notices_of(SliceSyncFailed)]


@asynccontextmanager
async def publishing(
    node: str = NODE_1, server: FakeApiServer | None = None
) -> AsyncIterator[tuple[FakeApiServer, Bench]]:
    """Run the publisher of an existing node, on a server in memory."""
    async with talking(server) as (server, api):
        bench = Bench(api, node)
        await bench.add_node()
        server.requests.clear()
        server.writes.clear()
        async with bench.running():
            yield server, bench


def names_of(document: Document) -> list[str]:
    """Return the names of a slice's devices."""
    return [ref["name"] for ref in document["spec"].get("devices", [])]


def plain(*names: str, mtu: int = 1500) -> DriverResources:
    """Return resources of node-1 with these devices."""
    return driver_resources(NODE_1, [device(name, mtu=mtu) for name in names])


def unhealthy_devices(*names: str) -> DriverResources:
    """Return devices a and b of node-1; the named ones have no carrier."""
    return driver_resources(
        NODE_1, [device("a"), device("b")], unhealthy=dict.fromkeys(names, "NoCarrier")
    )


def is_write(request: Request) -> bool:
    """Whether the request writes."""
    return request.method in {"POST", "PUT", "DELETE"}
