"""Privileged facts writer: keeps the file of privileged host facts up to date for the shim.

Rules:
1. The kernel is read on a watched thread: it needs a lock that a driver may own for long.
2. The kernel sends no events for these facts, so they are read periodically.
3. A failure blocks no other work and is logged once for each reason.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from dranet_nri.component.files import FileSystem
from dranet_nri.component.log import logger
from dranet_nri.plan.refusals import described
from dranet_nri.state import privileged_facts
from dranet_nri.state.privileged_facts import PrivilegedFacts

PERIOD_S: Final = 15.0  # below the shim's period of full scans, a minute


@dataclass(slots=True)
class PrivilegedFactsWriter:
    """Writes the facts that the shim cannot read, see state/privileged_facts.py.

    Attributes:
        run_dir: the plugin's directory.
        read: reads the facts on a thread.
    """

    fs: FileSystem
    run_dir: Path
    read: Callable[[], Awaitable[PrivilegedFacts]]
    log: structlog.typing.FilteringBoundLogger = field(default_factory=partial(logger, "telemetry"))
    _written: bytes = b""
    _error: str = ""

    async def run(self) -> None:
        """Read and write periodically until cancelled."""
        while True:
            await self.update()
            await asyncio.sleep(PERIOD_S)

    async def update(self) -> None:
        """Read the facts, and write them if they changed or their file was removed."""
        error_text = ""
        try:
            content = privileged_facts.encoded(await self.read())
            if content != self._written or not (self.run_dir / privileged_facts.NAME).exists():
                privileged_facts.store(self.fs, self.run_dir, content)
                self._written = content
        except Exception as error:  # noqa: BLE001 - no failure, such as of a thread's start, ends it
            error_text = described(error)
        if error_text and error_text != self._error:
            self.log.warning("privileged facts not written for the shim", reason=error_text)
        self._error = error_text
