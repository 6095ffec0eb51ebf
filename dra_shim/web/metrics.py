"""Metrics of the shim, counted from notices of its rooms.

Names and labels are those of dranet where possible; the others begin with dra_shim_.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from dra_shim import discovery, kubeletplugin, prepare, resourceslice, status
from dra_shim.kubeletplugin import Driver
from dra_shim.prepare import PrepareResult
from dra_shim.web.process_collector import process_text
from dranet_nri.component.metrics import Counter, Gauge, Histogram, exposition, families_of
from dranet_nri.component.supervisor import WorkerFailed
from dranet_nri.model import ObjectRef

PREPARE: Final = "PrepareResourceClaims"
UNPREPARE: Final = "UnprepareResourceClaims"
METHODS: Final = (PREPARE, UNPREPARE)
RESULTS: Final = (
    *("prepared", "prepared_ungated", "unprepared", "orphan_dropped", "stranded"),
    "profile_released",
)


class CallCounts:
    """Metrics of the kubelet's calls, and of the result for each claim."""

    def __init__(self) -> None:
        """Start at 0."""
        self._calls = Counter(
            "dranet_driver_dra_plugin_requests_total",
            "Calls of the kubelet; failed: at least one of its claims failed.",
            ("method", "status"),
            [(method, result) for method in METHODS for result in ("success", "failed")],
        )
        self._seconds = Histogram(
            "dranet_driver_dra_plugin_requests_latency_seconds",
            "Duration of the kubelet's calls.",
            ("method",),
            [(method,) for method in METHODS],
        )
        self._claims = Counter(
            "dra_shim_claims_total",
            "Claims by result; prepared_ungated: no container waits for the NICs; stranded: a pod "
            "waits for a claim that was prepared for an earlier pod.",
            ("result",),
            [(result,) for result in RESULTS],
        )
        self._failures = Counter(
            "dra_shim_claim_failures_total",
            "Failed Prepares, Unprepares, releases of profiles and searches for orphaned records.",
            ("method", "kind"),
            [],
        )
        self._registered = Gauge(
            "dra_shim_registered", "1 while the driver is registered at the kubelet."
        )
        self._registered.set(0)
        self._sockets = Counter(
            "dra_shim_sockets_total",
            "Replaced sockets for the kubelet, and failures to replace one.",
            ("result",),
            [("replaced",), ("failed",)],
        )

    def called(self, method: str, seconds: float, *, failed: bool) -> None:
        """Count a call of the kubelet."""
        self._calls.add(method, "failed" if failed else "success")
        self._seconds.observe(seconds, method)

    def on_prepare(self, notice: prepare.Notice) -> None:
        """Count the result of a claim."""
        match notice:
            case prepare.ClaimPrepared():
                self._claims.add("prepared" if notice.gated else "prepared_ungated")
            case prepare.ClaimUnprepared():
                self._claims.add("unprepared")
            case prepare.OrphanRemoved():
                self._claims.add("orphan_dropped")
            case prepare.PrepareFailed():
                self._failures.add(PREPARE, notice.kind)
            case prepare.UnprepareFailed():
                self._failures.add(UNPREPARE, notice.kind)
            case prepare.PodSuperseded():
                self._claims.add("stranded", by=int(bool(notice.waiting)))
            case prepare.OrphanSearchFailed():
                self._failures.add("CollectOrphans", "internal")
            case prepare.ProfileReleased():
                self._claims.add("profile_released")
            case prepare.ProfileReleaseFailed():
                self._failures.add("ReleaseProfile", "cloud")
            case prepare.PrepareWaits():
                pass  # the result counts
            case _:
                assert_never(notice)

    def on_kubelet(self, notice: kubeletplugin.Notice) -> None:
        """Count events of the sockets and of the registration."""
        match notice:
            case kubeletplugin.RegistrationResult():
                self._registered.set(int(not notice.reason))
            case kubeletplugin.SocketReplaced():
                self._sockets.add("replaced")
                if notice.forgotten:
                    self._registered.set(0)
            case kubeletplugin.SocketFailed():
                self._sockets.add("failed")
            case _:
                assert_never(notice)


class ServerCounts:
    """Metrics of the node's devices on the API server.

    Attributes:
        published: whether all devices were published at least once.
        errors: failed requests of all workers, by worker and kind.
    """

    def __init__(self, wall: Callable[[], float]) -> None:
        """Start at 0; wall returns Unix seconds."""
        self.published = False
        self._wall = wall
        self._devices = Gauge(
            "dranet_driver_published_devices_total",
            "Devices in the node's ResourceSlices; rdma: those with RDMA.",
            ("feature",),
        )
        self._rdma = 0
        self._at = Gauge(
            "dranet_driver_last_published_time_seconds",
            "Unix time of the last complete publication.",
        )
        self._slices = Gauge("dra_shim_slices", "ResourceSlices of the node.")
        self._writes = Counter("dra_shim_slice_writes_total", "Writes of ResourceSlices.")
        self._refused = Counter(
            "dra_shim_devices_refused_total", "Devices that the API server refused."
        )
        self._lacking = Gauge(
            "dra_shim_missing_feature_gate",
            "1 for each required feature gate that the API server has off.",
            ("gate",),
        )
        self.errors = Counter(
            "dra_shim_api_errors_total",
            "Failed API requests, which are retried.",
            ("worker", "kind"),
            [],
        )

    def set_rdma_devices(self, rdma: int) -> None:
        """Set the number of published devices with RDMA."""
        self._rdma = rdma

    def on_slices(self, notice: resourceslice.Notice) -> None:
        """Count results for the node's slices."""
        match notice:
            case resourceslice.SlicesPublished():
                self.published = True
                self._devices.set_all({("total",): notice.devices, ("rdma",): self._rdma})
                self._at.set(round(self._wall(), 3))
                self._slices.set(notice.slices)
                self._writes.add(by=notice.writes)
            case resourceslice.DeviceRefused():
                self._refused.add()
            case resourceslice.FeaturesMissing():
                self._lacking.set_all({(gate.value,): 1 for gate in notice.features})
            case resourceslice.SliceSyncFailed():
                self.errors.add("slices", notice.error.kind)
            case resourceslice.FieldsDropped():
                pass  # the log has the names
            case _:
                assert_never(notice)


class StatusCounts:
    """Metrics of claim status and Events."""

    def __init__(self, failed: Callable[[str, str], None]) -> None:
        """Start at 0; failed counts failed requests, by worker and kind."""
        self._failed = failed
        self._status = Counter(
            "dra_shim_status_applies_total",
            "Writes of claim status by result; gone: the claim was deleted.",
            ("result",),
            [("applied",), ("refused",), ("gone",), ("dropped",)],
        )
        self._events = Counter(
            "dra_shim_events_total",
            "Events by result; lost: not accepted by the API server.",
            ("result",),
            [("posted",), ("lost",)],
        )

    def on_status(self, notice: status.Notice) -> None:
        """Count results for claim status and Events."""
        match notice:
            case status.StatusApplied():
                self._status.add("applied")
            case status.ClaimRefused():
                self._status.add("refused")
            case status.ClaimGone():
                self._status.add("gone")
            case status.StatusNotKept():
                self._status.add("dropped")
            case status.EventPosted():
                self._events.add("posted", by=notice.count)
            case status.EventLost():
                self._events.add("lost")
            case status.StatusSyncFailed():
                self._failed("status", notice.error.kind)
            case _:
                assert_never(notice)


class NodeCounts:
    """Metrics of the node's scans, and of the shim's workers."""

    def __init__(self) -> None:
        """Start at 0."""
        self._unhealthy: set[str] = set()
        self._device_count = 0
        self._devices = Gauge(
            "dra_shim_devices", "Devices that the node publishes, by health.", ("health",)
        )
        self._scan_failures = Counter(
            "dra_shim_scan_failures_total",
            "Failed scans of the node; facts: only the plugin's file of facts is unreadable.",
            ("reason",),
            [("error",), ("hung",), ("facts",)],
        )
        self._lost_sources = Counter(
            "dra_shim_event_sources_lost_total",
            "Failed sources of kernel events.",
            ("source",),
            [],
        )
        self._worker_failures = Counter(
            "dra_shim_worker_failures_total",
            "Failed workers of the shim, which were restarted.",
            ("worker",),
            [],
        )

    def on_node(self, notice: discovery.Notice) -> None:
        """Count changes of the node's devices."""
        match notice:
            case discovery.DevicesChanged():
                self._device_count = notice.devices
                self._unhealthy -= {name for name, _ in notice.withdrawn}
            case discovery.DevicesExcluded():
                pass  # excluded hardware is not an error
            case discovery.DeviceUnhealthy():
                self._unhealthy.add(notice.device)
            case discovery.DeviceRecovered():
                self._unhealthy.discard(notice.device)
            case discovery.ScanFailed():
                self._scan_failures.add("error")
            case discovery.ScanHung():
                self._scan_failures.add("hung")
            case discovery.EventSourceLost():
                self._lost_sources.add(notice.source)
            case discovery.PrivilegedFactsUnreadable():
                self._scan_failures.add("facts")
            case _:
                assert_never(notice)
        unhealthy = len(self._unhealthy)
        self._devices.set_all(
            {("healthy",): self._device_count - unhealthy, ("unhealthy",): unhealthy}
        )

    def on_worker_failure(self, notice: WorkerFailed) -> None:
        """Count a worker that failed."""
        self._worker_failures.add(notice.name)


class Metrics:
    """The shim's metrics: calls, server, status, node. Each counts notices of its rooms."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        """Start at 0; wall returns Unix seconds."""
        self.calls = CallCounts()
        self.server = ServerCounts(wall)
        self.status = StatusCounts(self.server.errors.add)
        self.node = NodeCounts()

    def on_node(self, notice: discovery.Notice) -> None:
        """Count changes of the node's devices, published or not."""
        if isinstance(notice, discovery.DevicesChanged):
            self.server.set_rdma_devices(notice.rdma)
        self.node.on_node(notice)

    def text(self) -> str:
        """Return all metrics in the Prometheus format, with those of the process."""
        families = families_of(self.calls, self.server, self.status, self.node)
        return exposition(families) + process_text()


@dataclass(frozen=True, slots=True)
class MeteredDriver:
    """A driver whose calls are counted.

    Attributes:
        clock: monotonic seconds.
    """

    driver: Driver
    counts: CallCounts
    clock: Callable[[], float] = time.monotonic

    async def prepare(
        self, claims: Sequence[ObjectRef], limit_s: float | None = None
    ) -> Mapping[str, PrepareResult]:
        """Implement Driver."""
        begin = self.clock()
        answers = await self.driver.prepare(claims, limit_s)
        failed = any(answer.error for answer in answers.values())
        if claims:  # a probe has no claims
            self.counts.called(PREPARE, self.clock() - begin, failed=failed)
        return answers

    async def unprepare(self, claims: Sequence[ObjectRef]) -> Mapping[str, str]:
        """Implement Driver."""
        begin = self.clock()
        errors = await self.driver.unprepare(claims)
        self.counts.called(UNPREPARE, self.clock() - begin, failed=any(errors.values()))
        return errors
