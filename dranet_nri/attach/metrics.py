"""Metrics of the plugin: hooks, attach and detach work, current state.

Names and labels are those of dranet where it has them, so that its dashboards work; the others
begin with dranet_nri_. All counting happens on the event loop.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import product
from typing import Final, get_args

from dranet_nri.component.metrics import Counter, Gauge, Histogram, MetricFamily, Values, exposition
from dranet_nri.errors import DranetError, RefusedError
from dranet_nri.model import Attachment, Phase
from dranet_nri.nri.stub import Outcome
from dranet_nri.state.heartbeat import HungCall

HOOKS: Final = ("RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer")
GIVING: Final = frozenset({"RunPodSandbox", "CreateContainer"})  # devices; the others take
REASONS: Final = (
    *("unsuitable", "held", "not_home", "no_namespace", "outdated", "record", "not_attached"),
    *("config", "kernel", "io", "internal"),
)


class HookMetrics:
    """The hooks, and the connection on which they come."""

    def __init__(self) -> None:
        """Begin at 0."""
        labels, answers = ("method", "status"), tuple(product(HOOKS, get_args(Outcome)))
        self._answers = Counter(
            "dranet_driver_nri_plugin_requests_total",
            "Hooks that were answered; noop: for pods without claims.",
            labels,
            answers,
        )
        self._seconds = Histogram(
            "dranet_driver_nri_plugin_requests_latency_seconds",
            "From a hook's arrival to its answer.",
            labels,
            answers,
        )
        self._late = Counter(
            "dranet_nri_hook_deadline_misses_total",
            "Hooks that were answered at their deadline, their work unfinished.",
            ("method",),
            _each(HOOKS),
        )
        self._refusals = Counter(
            "dranet_nri_refusals_total",
            "Hooks in which a pod or container was not given its devices.",
            ("reason",),
            _each(REASONS),
        )
        self._connects = Counter(
            "dranet_nri_connects_total", "Times that the runtime took us and told what it has."
        )
        self._disconnects = Counter(
            "dranet_nri_disconnects_total", "Connections lost, and tries that failed."
        )

    def families(self) -> tuple[MetricFamily, ...]:
        """Return all of it."""
        answers: tuple[MetricFamily, ...] = (
            self._answers,
            self._seconds,
            self._late,
            self._refusals,
        )
        return (*answers, self._connects, self._disconnects)

    def answered(self, hook: str, outcome: Outcome, seconds: float) -> None:
        """Count a hook that was answered."""
        self._answers.add(hook, outcome)
        self._seconds.observe(seconds, hook, outcome)

    def late(self, hook: str) -> None:
        """Count a hook that met its deadline."""
        self._late.add(hook)

    def refused(self, error: Exception) -> None:
        """Count a hook in which a pod or container was not given its devices."""
        if isinstance(error, DranetError):
            self._refusals.add(error.kind)
        else:
            self._refusals.add("io" if isinstance(error, OSError) else "internal")

    def connected(self) -> None:
        """Count a connection that serves."""
        self._connects.add()

    def disconnected(self) -> None:
        """Count a connection that was lost, or not made."""
        self._disconnects.add()


class WorkMetrics:
    """Metrics of the work on devices.

    Attributes:
        stuck: threads that the kernel keeps, by their work.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin at 0; clock gives seconds."""
        self._clock = clock
        self.stuck: dict[object, HungCall] = {}
        self._attaches = Histogram(
            "dranet_nri_attach_duration_seconds",
            "Attaches of a pod's claims, the wait for other work on the devices included.",
            ("result",),
            _each(("attached", "refused", "failed")),
        )
        self._detaches = Histogram(
            "dranet_nri_detach_duration_seconds",
            "Tries to bring a claim's devices home; away: not all are, it is tried again.",
            ("result",),
            _each(("home", "away", "failed")),
        )
        self._gates = Counter(
            "dranet_nri_gate_openings_total",
            "Times that a claim's containers were given way.",
            ("result",),
            _each(("opened", "failed")),
        )
        self._lost = Counter(
            "dranet_nri_claims_lost_total",
            "Claims of which a device left its running pod behind our back.",
        )
        self._rounds = Counter(
            "dranet_nri_repair_rounds_total",
            "Comparisons of what should be with what is; pending: something is left to be done.",
            ("result",),
            _each(("settled", "pending", "failed")),
        )
        self._left_behind = Counter(
            "dranet_nri_stuck_threads_total",
            "Threads that were left behind because the kernel did not return.",
        )

    def families(self) -> tuple[MetricFamily, ...]:
        """Return all of it."""
        moves: tuple[MetricFamily, ...] = (self._attaches, self._detaches, self._gates, self._lost)
        return (*moves, self._rounds, self._left_behind)

    @asynccontextmanager
    async def attaching(self) -> AsyncIterator[None]:
        """Measure an attach."""
        begin, result = self._clock(), "failed"
        try:
            yield
            result = "attached"
        except RefusedError:
            result = "refused"
            raise
        finally:
            self._attaches.observe(self._clock() - begin, result)

    async def detaching(self, work: Awaitable[Attachment]) -> Attachment:
        """Measure a detach; return its record."""
        begin, result = self._clock(), "failed"
        try:
            record = await work
            result = "home" if record.phase is Phase.HOME else "away"
        finally:
            self._detaches.observe(self._clock() - begin, result)
        return record

    def gate_opened(self) -> None:
        """Count a gate that was closed and is open."""
        self._gates.add("opened")

    def gate_failed(self) -> None:
        """Count a gate that could not be opened."""
        self._gates.add("failed")

    def lost(self) -> None:
        """Count a claim whose device left its pod."""
        self._lost.add()

    def round(self, result: str) -> None:
        """Count a round of repairs: settled, pending or failed."""
        self._rounds.add(result)

    def now_stuck(self, work: object, stuck: HungCall) -> None:
        """Note that the kernel keeps the thread of this work."""
        self._left_behind.add()
        self.stuck[work] = stuck

    def returned(self, work: object) -> HungCall | None:
        """Note that the thread of this work has ended; return what was stuck."""
        return self.stuck.pop(work, None)


class StateGauges:
    """Gauges of the current state."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._serving = Gauge(
            "dranet_nri_serving", "1 while registered at the runtime and synchronised."
        )
        self._claims = Gauge("dranet_nri_claims", "Claims with a record, by phase.", ("phase",))
        self._devices = Gauge(
            "dranet_nri_devices",
            "Devices that are not at home; away: touched, and neither in a pod nor home.",
            ("state",),
        )
        self._pending = Gauge(
            "dranet_nri_pending_repairs", "Claims that are neither home nor wholly attached."
        )
        self._unusable = Gauge(
            "dranet_nri_unusable_records",
            "Allocation records that cannot be used, and were not moved aside.",
        )
        self._stuck = Gauge("dranet_nri_stuck_threads", "Threads that the kernel keeps.")
        self._started = Gauge(
            "dranet_nri_process_start_time_seconds", "Start of the process, Unix time."
        )
        self._started.set(round(time.time(), 3))

    def families(self) -> tuple[MetricFamily, ...]:
        """Return all of it."""
        owned: tuple[MetricFamily, ...] = (
            self._claims,
            self._devices,
            self._pending,
            self._unusable,
        )
        return (self._serving, *owned, self._stuck, self._started)

    def look(
        self,
        records: Iterable[Attachment],
        *,
        serving: bool,
        pending: int,
        unusable: int,
        stuck: int,
    ) -> None:
        """Take in how things are.

        Args:
            records: of all claims.
            serving: whether the plugin is registered and synchronised.
            pending: claims that are neither restored nor wholly attached.
            unusable: allocation records that cannot be used and are in the way.
            stuck: threads that the kernel keeps.
        """
        claims: dict[Values, float] = {(phase.value,): 0 for phase in Phase}
        devices: dict[Values, float] = {("in_pod",): 0, ("away",): 0}
        for record in records:
            claims[record.phase.value,] += 1
            if record.phase is Phase.ATTACHED:
                devices["in_pod",] += len(record.devices)
            else:
                devices["away",] += sum(device.touched for device in record.devices)
        self._claims.set_all(claims)
        self._devices.set_all(devices)
        self._serving.set(int(serving))
        self._pending.set(pending)
        self._unusable.set(unusable)
        self._stuck.set(stuck)


class PluginMetrics:
    """The plugin's numbers: hooks, work, and how things are."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin at 0; clock gives seconds."""
        self.hooks = HookMetrics()
        self.work = WorkMetrics(clock)
        self.standing = StateGauges()

    def text(self) -> str:
        """Return everything in Prometheus's format."""
        parts = (self.hooks, self.work, self.standing)
        return exposition(family for part in parts for family in part.families())


def _each(values: Iterable[str]) -> tuple[Values, ...]:
    """Return the values of a single label."""
    return tuple((value,) for value in values)
