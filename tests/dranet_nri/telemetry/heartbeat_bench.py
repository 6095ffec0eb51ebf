"""Heartbeats of a healthy plugin, with changes by the test."""

from dataclasses import replace
from pathlib import Path

from dranet_nri.component.files import FileSystem
from dranet_nri.state import heartbeat
from dranet_nri.state.heartbeat import Heartbeat


def beat(run: Path, **changed: object) -> None:
    """Write a current, healthy heartbeat with the given changes into the plugin's directory."""
    now = heartbeat.boot_s()
    well = Heartbeat(pid=1, beat_s=now, serving=True, round_due_s=now + 60)
    heartbeat.store(FileSystem(), run, replace(well, **changed))  # type: ignore[arg-type]


def ago(seconds: float) -> float:
    """Return that time of CLOCK_BOOTTIME."""
    return heartbeat.boot_s() - seconds
