"""structlog configuration, and a standard error whose reader blocks no thread.

Events are short constant phrases, facts are keys, so that grep and a dashboard both work.
"""

import io
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from threading import Condition, Thread
from typing import TYPE_CHECKING, Final

import structlog

from dranet_nri.errors import DranetError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

ROOM: Final = 256 * 1024  # bytes that may wait for a reader
RETRY_S: Final = 1.0  # after a write that failed
LAST_WORDS_S: Final = 2.0  # for what still waits when the process ends


class NonBlockingStderr(io.BufferedIOBase):
    """A descriptor written to by a thread, so that a slow reader blocks no other thread.

    What finds no room is dropped, and so is all that follows until the rest is written. A line
    in the place of the gap says how many lines it had.
    """

    name = "<stderr>"

    def __init__(self, fd: int, gap: Callable[[int], str], retry_s: float = RETRY_S) -> None:
        """Begin.

        Args:
            fd: where to write; it stays open.
            gap: returns the line that reports so many lost ones.
            retry_s: how long to rest after a write that failed.
        """
        super().__init__()
        self._fd = fd
        self._gap = gap
        self._retry_s = retry_s
        self._waiting: deque[bytes] = deque()
        self._held = 0
        self._lost = 0
        self._ending = False
        self._changed = Condition()  # reentrant: a finalizer may write wherever memory is asked for
        self._writer = Thread(target=self._work, name="log", daemon=True)
        self._writer.start()

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def isatty(self) -> bool:
        """Whether a terminal shows it."""
        return os.isatty(self._fd)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Take data, or drop it, and return how long it is; never waits."""
        taken = bytes(data)
        with self._changed:
            if self._lost or self._held + len(taken) > ROOM:
                self._lost += _lines(taken)
            else:
                self._waiting.append(taken)
                self._held += len(taken)
            self._changed.notify_all()
        return len(taken)

    def drain(self, patience_s: float = LAST_WORDS_S) -> None:
        """Write what waits and end; what a reader does not take in that time is lost."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._writer.join(patience_s)

    def _work(self) -> None:
        while (found := self._next()) is not None:
            data, lines = found
            if self._put(data):
                continue
            with self._changed:
                self._lost += lines
                if self._ending:
                    return
                self._changed.wait_for(lambda: self._ending, self._retry_s)

    def _next(self) -> tuple[bytes, int] | None:
        """Return what to write and the lines that are lost if it cannot be; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._lost or self._ending)
            if self._waiting:
                data = self._waiting.popleft()
                self._held -= len(data)
                return data, _lines(data)
            lost, self._lost = self._lost, 0
            return (self._gap(lost).encode(), lost) if lost else None

    def _put(self, data: bytes) -> bool:
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            return False
        return True


def _lines(data: bytes) -> int:
    return max(data.count(b"\n"), 1)


@contextmanager
def non_blocking_stderr() -> Iterator[None]:
    """Keep writers to standard error from waiting for its reader: log and tracebacks.

    At the end what waits is written, for two seconds at most.
    """
    sys.stderr.flush()
    outlet = NonBlockingStderr(sys.stderr.fileno(), _gap)
    text = io.TextIOWrapper(outlet, encoding="utf-8", errors="backslashreplace", write_through=True)
    with redirect_stderr(text):
        try:
            yield
        finally:
            outlet.drain()


def _gap(lines: int) -> str:
    """Return a line as configured."""
    renderer = structlog.wrap_logger(structlog.ReturnLogger(), room="log")
    return f"{renderer.warning('log lines lost, nobody took them', lines=lines)}\n"


def configure(*, json: bool, verbose: bool) -> None:
    """Log to standard error: JSON lines or a console format, from info or from debug."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.DEBUG if verbose else logging.INFO
        ),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def logger(room: str) -> structlog.typing.FilteringBoundLogger:
    """Return the logger of a room."""
    bound: structlog.typing.FilteringBoundLogger = structlog.get_logger(room=room)
    return bound


def trace_of(error: Exception) -> Exception | None:
    """Return what to log as exc_info: an unexpected error, because it may be a bug."""
    return None if isinstance(error, DranetError | OSError) else error
