"""ResourceSlice controller: reconciles the node's slices on the server.

Rules:
1. A sync reads the Node and the slices, plans from both, and writes. It uses no cache, which could
   be stale; the informer only reports that another writer changed something.
2. A device that the server rejects is omitted, reported, and retried when it changed.
3. While nothing changes, nothing is read or written, except for rule 4.
4. A feature counts as missing if the probe or the result of a write shows it: another server may
   have responded, or the same one after its gate was disabled. It is probed again with the first
   change after an hour, or within two hours without a change.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final

from dra_shim.kubeapi import (
    NODE,
    SLICE,
    ApiClient,
    ApiError,
    ConflictError,
    Informer,
    InvalidError,
    NotFoundError,
    Object,
    RejectedError,
    UnavailableError,
    uid_of,
)
from dra_shim.pool import DriverResources, Feature, without
from dra_shim.resourceapi import SliceDevice
from dra_shim.resourceslice import notices
from dra_shim.resourceslice.diff import (
    AcceptedSlice,
    CreateSlice,
    DeleteSlice,
    ReplaceSlice,
    Step,
    plan,
)
from dra_shim.resourceslice.documents import (
    PublishedSlice,
    SlicePool,
    Spec,
    normalized,
    read_published,
)
from dra_shim.resourceslice.feature_probe import dropped_features, probe_document, rejected_features
from dra_shim.resourceslice.layout import SliceContent, laid_out
from dra_shim.resourceslice.rejections import (
    Rejections,
    dropped_fields,
    features_of_dropped,
    rejections_of,
)
from dra_shim.resourceslice.schedule import SyncSchedule
from dranet_nri.component.clock import REAL, LoopClock, Wakeup
from dranet_nri.component.threads import in_thread
from dranet_nri.model import DRIVER_NAME

# seconds before a missing feature is probed again; at most twice as long without changes
PROBE_S: Final = 3600.0
_USUAL: Final = frozenset(Feature) - {Feature.LISTS}  # probed together; lists only if enabled
MAX_ROUNDS: Final = 32  # attempts of a sync; each omits devices or features that were rejected

ObservedSlice = tuple[Spec, tuple[str, ...]]  # spec and owners of a slice


class ResourceSliceController:
    """Publisher of one node's devices."""

    def __init__(
        self,
        api: ApiClient,
        node: str,
        notify: notices.Notify,
        timing: LoopClock = REAL,
    ) -> None:
        """Create the controller; `run` publishes.

        Args:
            api: the API client.
            node: name of the node.
            notify: called with each notice; must not raise.
            timing: clock and timers.
        """
        self._api = api
        self._node = node
        self._notify = notify
        self._clock = timing.clock
        self._random = timing.random
        self._resources: DriverResources | None = None
        self._fields = {"spec.nodeName": node, "spec.driver": DRIVER_NAME}
        self._informer = Informer(
            api, SLICE, self._fields, self._check_drift, self._report_failure, timing
        )
        self._schedule = SyncSchedule(timing.random)
        self._wakeup = Wakeup(timing)
        self._writes = 0  # of the current sync
        # slices on the server after the last sync, by name
        self._expected: Mapping[str, ObservedSlice] | None = None
        self._layout: Mapping[str, Sequence[str]] = {}  # slice → devices, of the last sync
        self._accepted: dict[str, AcceptedSlice] = {}
        self._refused: dict[str, SliceDevice] = {}
        self._missing: frozenset[Feature] = frozenset()  # features that the server lacks
        self._reported_missing: frozenset[Feature] = frozenset()  # of them, those reported
        self._probed: frozenset[Feature] = frozenset()  # features of the last probe
        self._probed_at = -inf
        self._reported: set[notices.Notice] = set()

    def publish(self, resources: DriverResources) -> None:
        """Publish the node's current devices; may be called at any rate."""
        if resources != self._resources:
            self._resources = resources
            self._schedule.changed(self._clock())
            self._wakeup.wake()

    async def run(self) -> None:
        """Publish until cancelled; may be called again afterwards."""
        if self._resources is not None:
            self._schedule.changed(self._clock())  # a cancelled sync may have begun with them
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run(), name="slices: informer")
            while True:
                await self._wakeup.until(lambda: self._schedule.due)
                await self._sync_once()

    # ------------------------------------------------------------------- schedule

    async def _sync_once(self) -> None:
        self._schedule.begin()
        self._writes = 0
        try:
            await self._sync()
        except ApiError as error:
            temporary = isinstance(error, UnavailableError | ConflictError | NotFoundError)
            pause_s = self._schedule.failed(
                self._clock(), self._writes, lasting=not temporary, after_s=error.after_s
            )
            self._report_failure(error, pause_s)
        else:
            self._schedule.ended(self._clock(), self._writes)
            self._schedule.again(self._probe_due())
            self._check_drift()

    def _check_drift(self) -> None:
        """Check whether another writer changed the slices."""
        if self._informer.complete and self._expected is not None:
            published = {
                name: _observed(read_published(document))
                for name, document in self._informer.objects.items()
            }
            self._schedule.drift(self._clock(), found=published != self._expected)
            self._wakeup.wake()

    # ------------------------------------------------------------------- one sync

    async def _sync(self) -> None:
        assert self._resources is not None, "nothing is due before the first call of publish"
        node = await self._api.get(NODE, self._node)
        pool = SlicePool(self._node, uid_of(node), await self._api.version(SLICE))
        for _ in range(MAX_ROUNDS):
            resources = self._without_refused(await self._supported(pool, self._resources))
            listing = await self._api.list(SLICE, self._fields)
            contents, steps, published = await in_thread(
                partial(self._plan, pool, resources, listing.items)
            )
            if await self._apply(steps, published):
                self._layout = {
                    content.name: [device.name for device in content.devices]
                    for content in contents
                }
                slices = sum(not content.counters for content in contents)
                self._notify(notices.SlicesPublished(len(resources.devices), slices, self._writes))
                return
        raise UnavailableError(
            f"publish the devices of {self._node}", f"rejected {MAX_ROUNDS} times in a row"
        )

    def _plan(
        self, pool: SlicePool, resources: DriverResources, items: Sequence[Object]
    ) -> tuple[tuple[SliceContent, ...], tuple[Step, ...], list[PublishedSlice]]:
        """Return the desired slices, the writes for them, and the published slices."""
        published = [read_published(item) for item in items]
        found = {
            resource_slice.name: resource_slice.devices
            for resource_slice in published
            if resource_slice.pool == pool.node
        }
        contents = laid_out(pool.node, resources, self._layout or found)
        return contents, plan(pool, contents, published, self._accepted), published

    async def _apply(self, steps: Sequence[Step], published: Sequence[PublishedSlice]) -> bool:
        """Write all steps; return False if the server rejected a part that can be omitted."""
        expected = {resource_slice.name: _observed(resource_slice) for resource_slice in published}
        for step in steps:
            self._writes += 1
            match step:
                case DeleteSlice():
                    with suppress(NotFoundError):
                        await self._api.delete(SLICE, step.name, step.uid, step.version)
                    expected.pop(step.name)
                case CreateSlice() | ReplaceSlice():
                    answer = await self._write(step)
                    if answer is None:
                        return False
                    expected[step.content.name] = _observed(read_published(answer))
        self._expected = expected
        return True

    async def _write(self, step: CreateSlice | ReplaceSlice) -> Object | None:
        """Write a slice and return it as stored; None if an omittable part was rejected."""
        write = self._api.create if isinstance(step, CreateSlice) else self._api.replace
        try:
            answer = await write(SLICE, step.document)
        except InvalidError as error:
            if not self._exclude(rejections_of(error, step.content), step):
                raise
            return None
        sent, stored = _spec(step.document), read_published(answer).spec
        lost = dropped_fields(sent, stored)
        missing = features_of_dropped(lost)
        if missing:
            self._set_missing(self._missing | missing)
            return None
        self._accepted[step.content.name] = AcceptedSlice(sent, stored)
        if lost:
            self._report_once(notices.FieldsDropped(step.content.name, lost))
        return answer

    # ------------------------------------------------------------------- rejections and features

    def _without_refused(self, resources: DriverResources) -> DriverResources:
        """Return the devices without those that are unchanged since the server rejected them."""
        devices = tuple(
            device for device in resources.devices if self._refused.get(device.name) != device
        )
        return DriverResources(devices, resources.counters)

    def _exclude(self, rejections: Rejections, step: CreateSlice | ReplaceSlice) -> bool:
        """Exclude rejected devices and record missing features; return whether there are any."""
        if rejections.features:
            self._set_missing(self._missing | rejections.features)
        for device in step.content.devices:
            if device.name in rejections.devices:
                self._refused[device.name] = device
                self._notify(notices.DeviceRefused(device.name, rejections.devices[device.name]))
        return bool(rejections)

    async def _supported(self, pool: SlicePool, resources: DriverResources) -> DriverResources:
        """Return the devices without fields of features that the server lacks."""
        needed = resources.features
        probe_again = self._clock() - self._probed_at >= PROBE_S
        if needed - self._probed or (probe_again and needed & self._missing):
            features = _USUAL | needed | self._probed
            self._set_missing(await self._probe(pool, features))
            self._probed = features
        self._report_missing(needed)
        return without(resources, needed & self._missing)

    def _probe_due(self) -> float:
        """Return when to probe missing features without a change; inf if none is missing."""
        assert self._resources is not None, "a sync ran, so publish was called"
        needed = self._resources.features & self._missing
        return self._probed_at + PROBE_S * (1 + self._random()) if needed else inf

    def _set_missing(self, features: frozenset[Feature]) -> None:
        """Set the features that the server lacks; after a change, rejected devices are retried."""
        if features != self._missing:
            self._refused.clear()
        self._missing = features
        self._probed_at = self._clock()

    async def _probe(self, pool: SlicePool, features: frozenset[Feature]) -> frozenset[Feature]:
        """Return which of the features the server lacks."""
        try:
            document = probe_document(pool, features)
            answer = await self._api.create(SLICE, document, dry_run=True)
        except InvalidError as error:
            refused = rejected_features(error) & features
            rest = features - refused
            return refused | (await self._probe(pool, rest) if refused and rest else frozenset())
        except RejectedError:  # a policy of the cluster; the writes show missing features
            return frozenset()
        return dropped_features(answer, features)

    # ----------------------------------------------------------------- reporting

    def _report_once(self, notice: notices.Notice) -> None:
        if notice not in self._reported:
            self._reported.add(notice)
            self._notify(notice)

    def _report_missing(self, needed: frozenset[Feature]) -> None:
        """Report needed features that the server lacks; a reported one stays until it is served."""
        missing = (self._reported_missing | needed) & self._missing
        if missing != self._reported_missing:
            self._reported_missing = missing
            self._notify(notices.FeaturesMissing(missing))

    def _report_failure(self, error: ApiError, retry_s: float) -> None:
        self._notify(notices.SliceSyncFailed(error, retry_s))


def _observed(published: PublishedSlice) -> ObservedSlice:
    return published.spec, published.owners


def _spec(document: Object) -> Spec:
    spec = document["spec"]
    assert isinstance(spec, dict)
    return normalized(spec)
