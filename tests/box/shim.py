"""Shim in its own process, as the DaemonSet runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.box.plugin import Plugin

LOG: Final = Path("/tmp/dra-shim.log")


class Shim(Plugin):
    """Starts, stops and kills `dra-shim run`."""

    command: tuple[str, ...] = ("dra-shim",)
    log_file = LOG
