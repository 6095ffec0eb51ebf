"""Plugin telemetry: metrics and heartbeat, read from the plugin's directory."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dranet_nri.component.files import read_file
from dranet_nri.component.metrics import Gauge, exposition
from dranet_nri.errors import StateError
from dranet_nri.state import heartbeat
from dranet_nri.state.heartbeat import Heartbeat

METRICS: Final = "metrics.prom"
_LIMIT: Final = 1 << 20  # bytes; usually about 30 KiB
# Only the plugin's names, so that its file cannot break or duplicate the shim's metrics.
_NAMES: Final = "dranet_(?:nri|driver_(?:nri|sandbox|pod|attach))_"
_PLAUSIBLE: Final = re.compile(rf"(?:(?:# (?:HELP|TYPE) )?{_NAMES}[^\n]+\n)*")


@dataclass(frozen=True, slots=True)
class PluginTelemetry:
    """Heartbeat and metrics of the plugin on this node.

    Attributes:
        run: directory of the plugin.
        boot_s: seconds of CLOCK_BOOTTIME.
    """

    run: Path
    boot_s: Callable[[], float] = heartbeat.boot_s

    def text(self) -> str:
        """Return the plugin's last metrics, and the age of its heartbeat."""
        beat, metrics = self._beat(), self._metrics()
        age = Gauge(
            "dra_shim_plugin_heartbeat_age_seconds",
            "Age of the plugin's heartbeat, and so of its metrics; absent without a heartbeat.",
        )
        alive = Gauge("dra_shim_plugin_alive", "1 while the plugin's liveness probe succeeds.")
        readable = Gauge(
            "dra_shim_plugin_metrics_readable", "1 if the plugin's metrics can be read."
        )
        alive.set(int(beat is not None and not heartbeat.liveness_problems(beat, self.boot_s())))
        readable.set(int(metrics is not None))
        if beat is not None:
            age.set(round(self.boot_s() - beat.beat_s, 3))
        return exposition((age, alive, readable)) + (metrics or "")

    def _beat(self) -> Heartbeat | None:
        try:
            return heartbeat.load(self.run)
        except (StateError, OSError):
            return None

    def _metrics(self) -> str | None:
        try:
            text = read_file(self.run / METRICS, _LIMIT).decode()
        except (StateError, OSError, UnicodeDecodeError):
            return None
        return text if _PLAUSIBLE.fullmatch(text) else None
