"""The plugin's metrics and heartbeat, read from its directory, which is mounted read-only."""

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
# The plugin's names only, so that its file can neither break nor duplicate the shim's metrics.
_NAMES: Final = "dranet_(?:nri|driver_(?:nri|sandbox|pod|attach))_"
_PLAUSIBLE: Final = re.compile(rf"(?:(?:# (?:HELP|TYPE) )?{_NAMES}[^\n]+\n)*")


@dataclass(frozen=True, slots=True)
class PluginSigns:
    """Heartbeat and metrics of the plugin on this node.

    Attributes:
        run: directory of the plugin.
        boot_s: seconds of CLOCK_BOOTTIME.
    """

    run: Path
    boot_s: Callable[[], float] = heartbeat.boot_s

    def text(self) -> str:
        """Return the plugin's last metrics, and the age of its heartbeat."""
        beat, numbers = self._beat(), self._numbers()
        age = Gauge(
            "dra_shim_plugin_heartbeat_age_seconds",
            "Age of the plugin's last sign of life, and so of its numbers; absent without any.",
        )
        alive = Gauge("dra_shim_plugin_alive", "1 while no probe would restart the plugin.")
        readable = Gauge("dra_shim_plugin_metrics_readable", "1 if the plugin's numbers are here.")
        alive.set(int(beat is not None and not heartbeat.liveness_problems(beat, self.boot_s())))
        readable.set(int(numbers is not None))
        if beat is not None:
            age.set(round(self.boot_s() - beat.beat_s, 3))
        return exposition((age, alive, readable)) + (numbers or "")

    def _beat(self) -> Heartbeat | None:
        try:
            return heartbeat.load(self.run)
        except (StateError, OSError):
            return None

    def _numbers(self) -> str | None:
        try:
            text = read_file(self.run / METRICS, _LIMIT).decode()
        except (StateError, OSError, UnicodeDecodeError):
            return None
        return text if _PLAUSIBLE.fullmatch(text) else None
