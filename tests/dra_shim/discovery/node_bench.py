"""The devices of an in-memory node, with real records and the test's clock."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from dra_shim.discovery import DeviceSelection, NodeDevices, NodeOptions, Notice
from dra_shim.discovery.schedule import DEBOUNCE_S
from dra_shim.pool import DriverResources
from dra_shim.settings.common import StatePaths
from dranet_nri.inventory import HostFacts
from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    Device,
    Failure,
    NetnsId,
    ObjectRef,
    Phase,
)
from dranet_nri.state.store import AllocationStore, AttachmentStore
from tests.dranet_nri.state.examples import SNAPSHOT
from tests.fakes.clock import FakeClock
from tests.fakes.host import FakeAddresses, FakeHost
from tests.fakes.no_cloud import NoCloud

NODE = "node-1"
RESCAN_S = 60.0
CLAIM = ObjectRef("ai", "fast", "c1")
POD = ObjectRef("ai", "train", "p1")
T = TypeVar("T", bound=Notice)


class Bench:
    """A node's devices, with the resources and notices that they give.

    Attributes:
        published: names of the devices of each publication.
        resources: the last publication.
    """

    def __init__(
        self, root: Path, choice: DeviceSelection | None = None, hang_timeout_s: float = 3600
    ) -> None:
        """Prepare; the records are below root."""
        self.host = FakeHost()
        self.addresses = FakeAddresses()
        self.clock = FakeClock()
        self.state = StatePaths(root / "lib", root / "run")
        self.resources = DriverResources()
        self.published: list[list[str]] = []
        self.notices: list[Notice] = []
        self.devices = NodeDevices(
            NodeOptions(
                choice or DeviceSelection(filter=""),
                rescan_s=RESCAN_S,
                hang_timeout_s=hang_timeout_s,
            ),
            self.state,
            NODE,
            self.addresses,
            self._take,
            self.notices.append,
            clouds=NoCloud(),
            host=self.host,
            timing=self.clock.timing(),
        )

    @asynccontextmanager
    async def running(self, pause_s: float = RESCAN_S) -> AsyncIterator["Bench"]:
        """Run the discovery; wait until the first scan ends and the pause begins."""
        task = asyncio.create_task(self.devices.run())
        try:
            await self.clock.until_asleep(pause_s)
            yield self
        finally:
            self.host.may_scan.set()
            task.cancel()
            await asyncio.wait({task})

    async def settle(self, after_s: float = DEBOUNCE_S) -> None:
        """Let the quiet period after an event pass, and the scan that follows."""
        await self.clock.until_asleep(after_s)
        await self.rest(after_s)

    async def rest(self, seconds: float) -> None:
        """Let time pass, and the scan that is due then."""
        count = len(self.host.scans)
        self.clock.pass_time(seconds)
        await self.until(lambda: len(self.host.scans) > count)
        await self.until(lambda: bool(self.clock.asleep()))

    async def begin_scan(self) -> None:
        """Let the scan after an event begin; it waits for `end_scan`."""
        count = len(self.host.scans)
        await self.clock.until_asleep(DEBOUNCE_S)
        self.host.may_scan.clear()
        self.clock.pass_time(DEBOUNCE_S)
        await self.until(lambda: len(self.host.scans) > count)

    async def end_scan(self) -> None:
        """Let the scan end, and wait until it is published."""
        count = len(self.published)
        self.host.may_scan.set()
        await self.until(lambda: len(self.published) > count)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds; the test's timeout bounds the wait."""
        while True:
            if holds():
                return
            await asyncio.sleep(0.001)

    def notices_of(self, kind: type[T]) -> list[T]:
        """Return the notices of one kind."""
        return [notice for notice in self.notices if isinstance(notice, kind)]

    def taints(self) -> dict[str, str]:
        """Return device → taint of the last publication."""
        return {
            device.name: device.taints[0].value
            for device in self.resources.devices
            if device.taints
        }

    async def health(self) -> dict[str, bool | None]:
        """Return device → health."""
        report = await self.devices.health(None)
        return {device.device: device.healthy for device in report.devices}

    async def device(self, name: str) -> Device:
        """Return a known device."""
        return (await self.devices.devices([name]))[name]

    def allocate(self, *devices: Device, admin_access: bool = False) -> None:
        """Record the claim for its pod."""
        allocated = tuple(
            AllocatedDevice("nic", NODE, device, admin_access=admin_access) for device in devices
        )
        with AllocationStore(self.state.allocations) as store:
            store.put(Allocation(CLAIM, POD, allocated, "k3v9q2", "boot1"))

    def release(self) -> None:
        """Remove the claim's record."""
        with AllocationStore(self.state.allocations) as store:
            store.remove(CLAIM.uid)

    def attach(self, *devices: Device, restored: bool = False) -> None:
        """Write the plugin's record of devices that are in the pod, or restored on the host."""
        phase = Phase.RESTORED if restored else Phase.ATTACHED
        attached = tuple(
            AttachedDevice("nic", device, snapshot=SNAPSHOT, snapshot_s=1, restored=restored)
            for device in devices
        )
        with AttachmentStore(self.state.attachments) as store:
            store.put(Attachment(CLAIM, POD, "box", NETNS, phase, attached))

    def fail(
        self,
        *devices: Device,
        share_id: str = "",
        phase: Phase = Phase.FAILED,
        restored: bool = False,
    ) -> None:
        """Write the plugin's record of devices that could not be attached or detached."""
        failed = tuple(
            AttachedDevice(
                "nic", device, snapshot=SNAPSHOT, snapshot_s=1, share_id=share_id, restored=restored
            )
            for device in devices
        )
        with AttachmentStore(self.state.attachments) as store:
            store.put(Attachment(CLAIM, POD, "box", NETNS, phase, failed, failure=FAILURE))

    def _take(self, resources: DriverResources) -> None:
        self.resources = resources
        self.published.append([device.name for device in resources.devices])


def facts_with(name: str) -> HostFacts:
    """Return the facts of a node with this link."""
    host = FakeHost()
    host.add_nic(name)
    return host.facts


FAILURE = Failure("NetworkDeviceAttachFailed", "its RDMA device mlx5_0 is not on the host", 1)
NETNS = NetnsId("/run/netns/a", 4, 4026532801)
