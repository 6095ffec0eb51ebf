"""A reporter with its records and API server, for one test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from dra_shim.kubeapi import CLAIM, ApiClient, name_of, uid_of
from dra_shim.settings.common import StatePaths
from dra_shim.status import ClaimRefused, Notice, StatusController
from dra_shim.status.summary import DEBOUNCE_S
from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    Failure,
    NetnsId,
    ObjectRef,
    Phase,
)
from dranet_nri.state.store import AllocationStore, AttachmentStore
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import nic

NODE = "node-1"
START = 1_790_000_000  # 2026-09-21T14:13:20Z
POD = ObjectRef("default", "train", "pod-1")
T = TypeVar("T", bound=Notice)


@dataclass
class Bench:
    """A running reporter; time passes when a test says so."""

    api: ApiClient
    state: StatePaths
    node: str = NODE
    clock: FakeClock = field(default_factory=FakeClock)
    random: float = 1.0
    notices: list[Notice] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the reporter; start it later."""
        self._noticed = asyncio.Event()
        self._start = self.clock()
        self.allocations = AllocationStore(self.state.allocations)
        self.attachments = AttachmentStore(self.state.attachments)
        self.reporter = StatusController(
            self.api,
            self.state,
            self.node,
            self._note,
            self.clock.timing(lambda: self.random, self.wall),
        )

    def wall(self) -> float:
        """Return Unix seconds, which go with the clock."""
        return START + self.clock() - self._start

    def _note(self, notice: Notice) -> None:
        self.notices.append(notice)
        self._noticed.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the reporter meanwhile, for good."""
        try:
            async with self.controller_running():
                yield
        finally:
            self.allocations.close()
            self.attachments.close()

    @asynccontextmanager
    async def controller_running(self) -> AsyncIterator[None]:
        """Run the reporter meanwhile."""
        task = asyncio.create_task(self.reporter.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()

    async def rest(self, seconds: float = DEBOUNCE_S) -> None:
        """Wait until something of the reporter rests that long, and let the time pass."""
        await self.clock.until_asleep(seconds)
        self.clock.pass_time(seconds)

    def notices_of(self, kind: type[T]) -> list[T]:
        """Return the notices of one kind."""
        return [notice for notice in self.notices if isinstance(notice, kind)]

    async def until_notice(self, kind: type[T], count: int = 1) -> T:
        """Wait for the count-th notice of a kind; nothing is refused meanwhile."""
        while len(self.notices_of(kind)) < count:
            assert not self.notices_of(ClaimRefused), self.notices
            await self._next_notice()
        return self.notices_of(kind)[count - 1]

    async def until_any_notice(self, kind: type[T]) -> T:
        """Wait for a notice of a kind, whatever else there is."""
        while not self.notices_of(kind):
            await self._next_notice()
        return self.notices_of(kind)[0]

    async def _next_notice(self) -> None:
        self._noticed.clear()
        await self._noticed.wait()

    async def claim(self, ref: ObjectRef) -> Any:
        """Return the claim as the server has it."""
        return await self.api.get(CLAIM, ref.name, ref.namespace)


def ref_of(claim: dict[str, Any]) -> ObjectRef:
    """Return what a document is of."""
    return ObjectRef("default", name_of(claim), uid_of(claim))


def given(claim: ObjectRef, *devices: str, pod: ObjectRef = POD) -> Allocation:
    """Return the record of a claim that has these devices."""
    return Allocation(
        claim,
        pod,
        tuple(AllocatedDevice("all", NODE, nic(device)) for device in devices),
        "n0",
        "b0",
    )


def attached(
    allocation: Allocation, phase: Phase = Phase.ATTACHED, failure: Failure | None = None
) -> Attachment:
    """Return the plugin's record of a claim: NICs net0, net1, ... with an address each."""
    devices = tuple(
        AttachedDevice(
            device.request,
            device.device,
            pod_name=f"net{index}",
            mac=f"02:00:00:00:00:0{index}",
            addresses=(f"10.1.0.{index + 5}/24",),
        )
        for index, device in enumerate(allocation.devices)
    )
    netns = NetnsId("/run/netns/a", 4, 4026532801)
    return Attachment(
        allocation.claim, allocation.pod, "sandbox1", netns, phase, devices, failure=failure
    )


def failed(allocation: Allocation, message: str, at: int = START, count: int = 1) -> Attachment:
    """Return the plugin's record of a claim whose attach failed."""
    failure = Failure("NetworkDeviceAttachFailed", message, at, count)
    return attached(allocation, Phase.FAILED, failure)


def warned(attachment: Attachment, *warnings: str) -> Attachment:
    """Return the record with warnings about its first device."""
    first = replace(attachment.devices[0], warnings=warnings)
    return replace(attachment, devices=(first, *attachment.devices[1:]))


def entries(claim: Any, driver: str = "dra.net") -> dict[str, Any]:
    """Return a driver's entries of status.devices, by device."""
    found = claim["status"].get("devices", [])
    return {result["device"]: result for result in found if result["driver"] == driver}


def conditions(entry: Any) -> dict[str, tuple[str, str]]:
    """Return (status, reason) of an entry's conditions, by type."""
    return {
        condition["type"]: (condition["status"], condition["reason"])
        for condition in entry["conditions"]
    }
