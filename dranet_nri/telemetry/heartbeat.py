"""Telemetry writer: writes heartbeat and Prometheus metrics to files.

Rules:
1. The event loop writes them, so that a hung loop writes none.
2. Metrics are written with the heartbeat, if they changed or their file was removed.
3. A failed write blocks no other work and is logged once. Stale metrics are removed.
4. Each beat creates a removed directory, and writes removed attachment records, again.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import structlog

from dranet_nri.attach.metrics import PluginMetrics
from dranet_nri.component.files import FileSystem, save
from dranet_nri.component.log import logger
from dranet_nri.errors import StateError
from dranet_nri.hooks.handler import HookHandler
from dranet_nri.nri.stub import ConnectionStatus
from dranet_nri.state import heartbeat
from dranet_nri.state.heartbeat import BEAT_S, READABLE, Heartbeat

METRICS: Final = "metrics.prom"


class ReconcileTimes(Protocol):
    """Times of reconcile rounds, see ReconcileSchedule."""

    def remaining_s(self) -> float:
        """Return the seconds until the next round; below 0 if it is late."""

    def at_work_s(self) -> float | None:
        """Return the seconds since the start of the running round, None between rounds."""


@dataclass(slots=True)
class TelemetryWriter:
    """Writes heartbeat and metrics into the plugin's directory."""

    fs: FileSystem
    run_dir: Path
    plugin: HookHandler
    rounds: ReconcileTimes
    status: Callable[[], ConnectionStatus]
    log: structlog.typing.FilteringBoundLogger = field(default_factory=partial(logger, "telemetry"))
    boot_s: Callable[[], float] = heartbeat.boot_s
    _written: str = ""
    _failing: set[str] = field(default_factory=set)  # log events of failing writes
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def _metrics(self) -> PluginMetrics:
        return self.plugin.attacher.metrics

    async def run(self) -> None:
        """Write periodically until cancelled."""
        while True:
            self.beat()
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), BEAT_S)

    def write_soon(self) -> None:
        """Write at the next turn of the loop, because the connection's state changed."""
        self._changed.set()

    def beat(self) -> None:
        """Write the heartbeat, and the metrics and removed records if necessary."""
        self._try("heartbeat not written, liveness probes will fail", self._write_heartbeat)
        self._try("metrics not written", self._write_metrics)
        self._try("attachment records not written", self.plugin.attacher.attachments.refresh)

    def _try(self, failed: str, write: Callable[[], None]) -> None:
        try:
            write()
        except (StateError, OSError) as error:
            if failed not in self._failing:
                remedy = f"make {self.run_dir} writable, and room on its tmpfs"
                self.log.error(failed, reason=str(error), remedy=remedy)
            self._failing.add(failed)
        else:
            self._failing.discard(failed)

    def _write_heartbeat(self) -> None:
        beat = self._heartbeat()
        try:
            heartbeat.store(self.fs, self.run_dir, beat)
        except FileNotFoundError:
            self.run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
            heartbeat.store(self.fs, self.run_dir, beat)

    def _heartbeat(self) -> Heartbeat:
        now_s, status, at_work_s = self.boot_s(), self.status(), self.rounds.at_work_s()
        due_s = now_s + self.rounds.remaining_s() if at_work_s is None else None
        return Heartbeat(
            pid=os.getpid(),
            beat_s=now_s,
            serving=status.synchronized,
            error=status.last_error,
            round_began_s=None if at_work_s is None else now_s - at_work_s,
            round_due_s=due_s,
            hung=tuple(self._metrics.work.hung.values()),
        )

    def _write_metrics(self) -> None:
        self._metrics.state.update(
            self.plugin.attacher.attachments.all(),
            serving=self.status().synchronized,
            pending=self.plugin.reconciler.pending(),
            unusable=sum(
                broken.blocking for broken in self.plugin.allocations.reader.broken.values()
            ),
            hung=len(self._metrics.work.hung),
        )
        text = self._metrics.text()
        path = self.run_dir / METRICS
        if text == self._written and path.exists():
            return
        self._written = ""
        try:
            save(self.fs, path, text.encode(), durable=False, mode=READABLE)
        except OSError:
            self.fs.unlink(path)  # frees its blocks on a full file system
            save(self.fs, path, text.encode(), durable=False, mode=READABLE)
        self._written = text
