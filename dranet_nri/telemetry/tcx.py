"""TCX writer: keeps the file of privileged host facts up to date for the shim.

Rules:
1. The kernel is read on a watched thread: it answers under a lock that a driver may keep for long.
2. The kernel announces no change of these facts, so they are read at intervals.
3. A failure blocks no other work; it is logged once for each reason.
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
from dranet_nri.state import tcx
from dranet_nri.state.tcx import PrivilegedFacts

LOOK_S: Final = 15.0  # between two looks; the shim looks at everything once a minute


@dataclass(slots=True)
class PrivilegedFactsWriter:
    """TCX writer: writes the facts that the shim cannot read, see state/tcx.py.

    Attributes:
        run_dir: the plugin's directory.
        ask: has the kernel asked, on a thread.
    """

    fs: FileSystem
    run_dir: Path
    ask: Callable[[], Awaitable[PrivilegedFacts]]
    log: structlog.typing.FilteringBoundLogger = field(default_factory=partial(logger, "lookout"))
    _written: bytes = b""
    _trouble: str = ""

    async def run(self) -> None:
        """Read the facts at intervals until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Read the facts, and write them if they changed."""
        trouble = ""
        try:
            content = tcx.encoded(await self.ask())
            if content != self._written:
                tcx.store(self.fs, self.run_dir, content)
                self._written = content
        except Exception as error:  # noqa: BLE001 - not even that there can be no thread ends us
            trouble = described(error)
        if trouble and trouble != self._trouble:
            self.log.warning(
                "not told to the shim: TCX programs, links of other namespaces", reason=trouble
            )
        self._trouble = trouble
