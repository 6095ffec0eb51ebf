"""Many nodes publishing to one real API server: hack/bench cluster [NODES].

Each node is our real publisher with 8 NICs, a task of this process. Writes are those that the
server counts.
"""

import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from os import environ
from pathlib import Path
from typing import Final

from dra_shim.kubeapi import NODE, ApiClient, HttpClient
from dra_shim.kubeapi.kubeconfig import from_kubeconfig
from dra_shim.kubeapi.requests import ApiRequest
from dra_shim.pool import DriverResources, driver_resources
from dra_shim.resourceslice import Notice, ResourceSliceController, SlicesPublished, SliceSyncFailed
from dranet_nri.model import Device, DeviceKey
from tests.bench.table import Row, machine, print_now, render
from tests.system.cluster.control_plane import ControlPlane

NODES: Final = 1000
NICS: Final = 8
ATTRIBUTES: Final = 24  # of a NIC, as many as a real one has
AT_ONCE: Final = 50  # nodes that are created together
PHASE_S: Final = 60.0
FLAP_S: Final = 0.5
BOUND: Final = 12.0  # writes of a node in a minute
WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE", "APPLY"})
_COUNTED: Final = re.compile(
    r'^apiserver_request_total\{.*resource="resourceslices".*verb="(\w+)".*\} (\d+)', re.MULTILINE
)


class Fleet:
    """The nodes, and what their publishers told."""

    def __init__(self, client: Callable[[], HttpClient], count: int) -> None:
        """Prepare; no node is there before start."""
        self._http = client()
        self._api = ApiClient(self._http)
        self.names = [f"bench-{number:04d}" for number in range(count)]
        self.notices: list[Notice] = []
        self._publishers = {
            name: ResourceSliceController(ApiClient(client()), name, self.notices.append)
            for name in self.names
        }
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Create the nodes and have each publish; return when all is on the server."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(name: str) -> None:
            async with gate:
                await self._api.create(NODE, {"metadata": {"name": name}})
            self._publishers[name].publish(resources(name, well=True))
            self._tasks.add(asyncio.create_task(self._publishers[name].run()))

        await asyncio.gather(*map(one, self.names))
        while self.notices_of(SlicesPublished) < len(self.names):  # noqa: ASYNC110 - of a thousand publishers
            await asyncio.sleep(0.2)

    async def storm(self, seconds: float) -> None:
        """Let a link of each node flap."""
        both = {
            name: (resources(name, well=False), resources(name, well=True)) for name in self.names
        }
        end = time.monotonic() + seconds
        well = False
        while time.monotonic() < end:
            for name, publisher in self._publishers.items():
                publisher.publish(both[name][well])
            well = not well
            await asyncio.sleep(FLAP_S)

    async def stop(self) -> None:
        """Stop every publisher."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    def notices_of(self, kind: type[Notice]) -> int:
        """Return how many notices of a kind there were."""
        return sum(isinstance(notice, kind) for notice in self.notices)

    async def writes(self) -> int:
        """Return how many writes of slices the server has answered."""
        async with self._http.send(ApiRequest("get", "metrics", "", "GET", "metrics")) as answer:
            found = _COUNTED.findall(await answer.text())
        return sum(int(number) for verb, number in found if verb in WRITES)


def resources(node: str, *, well: bool) -> DriverResources:
    """Return 8 NICs, the first of them without a carrier unless all is well."""
    devices = [nic(number) for number in range(NICS)]
    return driver_resources(node, devices, unhealthy={} if well else {devices[0].name: "NoCarrier"})


def nic(number: int) -> Device:
    """Return a NIC."""
    key = DeviceKey("pci", f"0000:8{number}:00.0", f"eth{number}", f"0000:8{number}:00.0")
    attributes = tuple(
        (f"dra.net/attribute{index:02d}", f"value-{number}-{index}") for index in range(ATTRIBUTES)
    )
    return Device(f"pci-0000-8{number}-00-0", key, attributes)


def clients(kubeconfig: Path) -> Callable[[], HttpClient]:
    """Return what makes clients of the server; certificates are read once."""
    return partial(HttpClient, from_kubeconfig(kubeconfig))


async def measure(plane: ControlPlane, count: int) -> list[Row]:
    """Start the nodes, leave them alone, let their links flap; return what that cost."""
    fleet = Fleet(clients(plane.kubeconfig), count)
    print_now(f"{count} nodes start")
    begin = time.monotonic()
    await fleet.start()
    took_s = time.monotonic() - begin
    start = await fleet.writes()
    print_now(f"all is published after {took_s:.0f} s; nothing happens for {PHASE_S:.0f} s")
    await asyncio.sleep(PHASE_S)
    steady = await fleet.writes()
    print_now(f"a link of each node flaps every {FLAP_S} s for {PHASE_S:.0f} s")
    begin = time.monotonic()
    await fleet.storm(PHASE_S)
    minutes = (time.monotonic() - begin) / 60
    stormy = await fleet.writes() - steady
    await fleet.stop()
    idle = steady - start
    flapping = stormy / count / minutes
    return [
        Row(f"{count} nodes of {NICS} NICs publish", f"{took_s:.0f} s"),
        Row("writes of a node to publish", f"{start / count:.2f}", budget="1"),
        Row("writes of all nodes in a quiet minute", str(idle), budget="0", met=idle == 0),
        Row(
            "writes of a node in a minute of storm",
            f"{flapping:.1f}",
            budget=f"{BOUND:.0f}",
            met=flapping <= BOUND,
        ),
        Row("troubles told", str(fleet.notices_of(SliceSyncFailed))),
    ]


def main(arguments: Sequence[str]) -> None:
    """Measure and print the table."""
    count = int(arguments[0]) if arguments else NODES
    notes = [machine(), "fewer writes in the storm may mean that this machine cannot do more"]
    with (
        tempfile.TemporaryDirectory() as directory,
        ControlPlane(Path(environ["BOX_KUBE"]), Path(directory)) as plane,
    ):
        rows = asyncio.run(measure(plane, count))
    sys.stdout.write(render(rows, notes))


main(sys.argv[1:])
