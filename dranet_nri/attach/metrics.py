"""Metrics of the plugin: hooks, attach and detach work, current state.

Metrics of dranet keep their names and labels, so that its dashboards work; the others begin with
dranet_nri_. All updates happen on the event loop.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import product
from typing import Final

from dranet_nri.component.metrics import Counter, Gauge, Histogram, Values, exposition, families_of
from dranet_nri.errors import DranetError, OutdatedError, RefusedError
from dranet_nri.model import Attachment, Phase
from dranet_nri.nri.stub import Outcome
from dranet_nri.state.heartbeat import HungCall

HOOKS: Final = ("RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer")
ATTACH_HOOKS: Final = frozenset({"RunPodSandbox", "CreateContainer"})
STATUSES: Final = ("success", "failed", "noop")
# Names and buckets of dranet's next release (kubernetes-sigs/dranet, October 2026), which counts a
# sandbox as rejected only with its --device-attach-timeout=0: here none is.
SANDBOX_RESULTS: Final = ("attached", "deferred", "rejected", "failed")
ATTACH_RESULTS: Final = ("attached", "failed", "cancelled")
ATTACH_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0)
REASONS: Final = (
    *("unsuitable", "in_use", "not_restored", "no_namespace", "outdated", "record", "not_attached"),
    *("config", "kernel", "io", "internal"),
)


class HookMetrics:
    """Metrics of hooks and of their connection.

    Attributes:
        late: hooks that reached their deadline, by method.
        disconnects: lost connections and failed attempts.
    """

    def __init__(self) -> None:
        """Start at 0."""
        labels, answers = ("method", "status"), tuple(product(HOOKS, STATUSES))
        self._answers = Counter(
            "dranet_driver_nri_plugin_requests_total",
            "Answered hooks; noop: of pods without claims.",
            labels,
            answers,
        )
        self._seconds = Histogram(
            "dranet_driver_nri_plugin_requests_latency_seconds",
            "Time from a hook's arrival to its answer.",
            labels,
            answers,
        )
        self._timeout = Gauge(
            "dranet_driver_nri_request_timeout_seconds",
            "Timeout of the runtime for an answer; absent if it reports none.",
        )
        self._sandboxes = Counter(
            "dranet_driver_sandbox_attach_total",
            "Answered RunPodSandbox hooks of pods with claims; deferred: the attach continued.",
            ("result",),
            _single_label(SANDBOX_RESULTS),
        )
        self.late = Counter(
            "dranet_nri_hook_deadline_misses_total",
            "Hooks that were answered at their deadline with unfinished work.",
            ("method",),
            _single_label(HOOKS),
        )
        self._refusals = Counter(
            "dranet_nri_refusals_total",
            "Hooks in which a pod or container was refused its devices.",
            ("reason",),
            _single_label(REASONS),
        )
        self._connects = Counter(
            "dranet_nri_connects_total", "Connections that the runtime registered and synchronized."
        )
        self.disconnects = Counter(
            "dranet_nri_disconnects_total", "Lost connections, and failed attempts to connect."
        )

    def answered(self, hook: str, outcome: Outcome, seconds: float) -> None:
        """Count an answered hook."""
        status = "success" if outcome == "deferred" else outcome
        self._answers.add(hook, status)
        self._seconds.observe(seconds, hook, status)

    def sandbox(self, outcome: Outcome) -> None:
        """Count the answered RunPodSandbox of a pod with claims."""
        self._sandboxes.add("attached" if outcome == "success" else outcome)

    def refused(self, error: Exception) -> None:
        """Count a refusal by the kind of its error."""
        if isinstance(error, DranetError):
            self._refusals.add(error.kind)
        else:
            self._refusals.add("io" if isinstance(error, OSError) else "internal")

    def connected(self, timeout_s: float) -> None:
        """Count a synchronized connection; timeout_s is the runtime's, 0 if it reports none."""
        self._connects.add()
        self._timeout.set_all({(): timeout_s} if timeout_s else {})


class WorkMetrics:
    """Metrics of the work on devices.

    Attributes:
        hung: calls of hung threads, by their work.
        gates: attempts to open a gate, by result: "opened" or "failed".
        lost: claims whose device left its pod.
        rounds: reconcile rounds, by result: "settled", "pending" or "failed".
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start at 0; clock returns seconds."""
        self._clock = clock
        self.hung: dict[object, HungCall] = {}
        self._attaches = Histogram(
            "dranet_nri_attach_duration_seconds",
            "Attaches of a pod's claims, including the wait for device locks.",
            ("result",),
            _single_label(("attached", "refused", "failed")),
        )
        self._pod_attaches = Histogram(
            "dranet_driver_pod_attach_duration_seconds",
            "The same attaches as dranet reports them; cancelled: the sandbox was stopped.",
            ("result",),
            _single_label(ATTACH_RESULTS),
            ATTACH_SECONDS,
        )
        self._running = 0
        self._jobs = Gauge("dranet_driver_attach_jobs_running", "Pods whose attach runs.")
        self._jobs.set(0)
        self._detaches = Histogram(
            "dranet_nri_detach_duration_seconds",
            "Restores of a claim's devices; unrestored: not all are, retried.",
            ("result",),
            _single_label(("restored", "unrestored", "failed")),
        )
        self.gates = Counter(
            "dranet_nri_gate_openings_total",
            "Attempts to open a claim's gate (CDI spec).",
            ("result",),
            _single_label(("opened", "failed")),
        )
        self.lost = Counter(
            "dranet_nri_claims_lost_total",
            "Claims of which a device left its running pod without a detach.",
        )
        self.rounds = Counter(
            "dranet_nri_reconcile_rounds_total",
            "Reconcile rounds; pending: repairs are left.",
            ("result",),
            _single_label(("settled", "pending", "failed")),
        )
        self._abandoned = Counter(
            "dranet_nri_hung_threads_total",
            "Threads that were abandoned because a kernel call hung.",
        )

    @asynccontextmanager
    async def attaching(self) -> AsyncIterator[None]:
        """Measure an attach."""
        begin, result, pod_result = self._clock(), "failed", "failed"
        self._run_jobs(1)
        try:
            yield
            result = pod_result = "attached"
        except RefusedError as error:
            result = "refused"
            pod_result = "cancelled" if isinstance(error, OutdatedError) else "failed"
            raise
        finally:
            self._run_jobs(-1)
            seconds = self._clock() - begin
            self._attaches.observe(seconds, result)
            self._pod_attaches.observe(seconds, pod_result)

    def _run_jobs(self, change: int) -> None:
        self._running += change
        self._jobs.set(self._running)

    async def detaching(self, work: Awaitable[Attachment]) -> Attachment:
        """Measure a detach; return its record."""
        begin, result = self._clock(), "failed"
        try:
            record = await work
            result = "restored" if record.phase is Phase.RESTORED else "unrestored"
        finally:
            self._detaches.observe(self._clock() - begin, result)
        return record

    def add_hung(self, work: object, hung: HungCall) -> None:
        """Count a thread that hangs, and record it by its work."""
        self._abandoned.add()
        self.hung[work] = hung

    def returned(self, work: object) -> HungCall | None:
        """Remove the record of ended work; return its hung call, if it hung."""
        return self.hung.pop(work, None)


class StateGauges:
    """Gauges of the current state."""

    def __init__(self) -> None:
        """Start without values."""
        self._serving = Gauge(
            "dranet_nri_serving", "1 while registered at the runtime and synchronized."
        )
        self._claims = Gauge("dranet_nri_claims", "Claims with a record, by phase.", ("phase",))
        self._devices = Gauge(
            "dranet_nri_devices",
            "Devices in pods; unrestored: modified, and neither in a pod nor restored.",
            ("state",),
        )
        self._pending = Gauge(
            "dranet_nri_pending_repairs", "Claims that are neither restored nor fully attached."
        )
        self._unusable = Gauge(
            "dranet_nri_unusable_records",
            "Unusable allocation records that are not quarantined.",
        )
        self._hung = Gauge("dranet_nri_hung_threads", "Threads that hang in a kernel call.")
        self._started = Gauge(
            "dranet_nri_process_start_time_seconds", "Start of the process, Unix time."
        )
        self._started.set(round(time.time(), 3))

    def update(
        self,
        records: Iterable[Attachment],
        *,
        serving: bool,
        pending: int,
        unusable: int,
        hung: int,
    ) -> None:
        """Set the gauges.

        Args:
            records: records of all claims.
            serving: whether the plugin is registered and synchronized.
            pending: number of claims neither restored nor fully attached.
            unusable: number of unusable allocation records that are not quarantined.
            hung: number of hung threads.
        """
        claims: dict[Values, float] = {(phase.value,): 0 for phase in Phase}
        devices: dict[Values, float] = {("in_pod",): 0, ("unrestored",): 0}
        for record in records:
            claims[record.phase.value,] += 1
            if record.phase is Phase.ATTACHED:
                devices["in_pod",] += len(record.devices)
            else:
                devices["unrestored",] += sum(device.is_unrestored for device in record.devices)
        self._claims.set_all(claims)
        self._devices.set_all(devices)
        self._serving.set(int(serving))
        self._pending.set(pending)
        self._unusable.set(unusable)
        self._hung.set(hung)


class PluginMetrics:
    """All metrics of the plugin."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start at 0; clock returns seconds."""
        self.hooks = HookMetrics()
        self.work = WorkMetrics(clock)
        self.state = StateGauges()

    def text(self) -> str:
        """Return all metrics in the exposition format."""
        return exposition(families_of(self.hooks, self.work, self.state))


def _single_label(values: Iterable[str]) -> tuple[Values, ...]:
    """Return the values of a single label."""
    return tuple((value,) for value in values)
