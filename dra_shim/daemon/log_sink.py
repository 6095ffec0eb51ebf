"""Log sink: writes the notices of the workers to the log."""

from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from dranet_nri.component.log import logger
from dranet_nri.component.notice import LogNotice

QUIET_S: Final = 60.0  # seconds in which a limited notice is logged once


class LogSink:
    """Writes notices, each with the logger of its room."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Use a clock of monotonic seconds."""
        self._clock = clock
        self._logged: dict[tuple[str, ...], float] = {}

    def of(self, room: str) -> Callable[[LogNotice], None]:
        """Return a function that writes notices with the logger of a room."""
        return partial(self._write, logger(room))

    def _write(self, log: structlog.typing.FilteringBoundLogger, notice: LogNotice) -> None:
        line = notice.line()
        key = (line.event, *(str(line.facts[name]) for name in line.facts if name != "retry_s"))
        if not line.limited or self._is_new(key):
            getattr(log, line.level)(line.event, **line.facts)

    def _is_new(self, key: tuple[str, ...]) -> bool:
        """Return whether this line was not logged in the last QUIET_S seconds."""
        now = self._clock()
        self._logged = {key: at for key, at in self._logged.items() if now - at < QUIET_S}
        return self._logged.setdefault(key, now) == now
