"""Log configuration (structlog), and a standard error that blocks no thread.

Events are short constant phrases, and facts are keys, for grep and for dashboards.
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

BUFFER_BYTES: Final = 256 * 1024  # that may wait for a reader
RETRY_S: Final = 1.0  # after a write that failed
DRAIN_S: Final = 2.0  # for buffered lines when the process ends


class NonBlockingStderr(io.BufferedIOBase):
    """A buffered descriptor with a writer thread, so that a slow reader blocks no other thread.

    A full buffer drops lines until it was written. Then one line reports how many were dropped.
    """

    name = "<stderr>"

    def __init__(self, fd: int, gap: Callable[[int], str], retry_s: float = RETRY_S) -> None:
        """Start the writer thread.

        Args:
            fd: the descriptor; it stays open.
            gap: returns the line that reports a number of dropped lines.
            retry_s: seconds between a failed write and the next.
        """
        super().__init__()
        self._fd = fd
        self._gap = gap
        self._retry_s = retry_s
        self._queue: deque[bytes] = deque()
        self._buffered = 0
        self._dropped = 0
        self._stopping = False
        self._changed = Condition()  # reentrant: a finalizer may write at any allocation
        self._writer = Thread(target=self._work, name="log", daemon=True)
        self._writer.start()

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def isatty(self) -> bool:
        """Whether the descriptor is a terminal."""
        return os.isatty(self._fd)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Buffer data, or drop it, and return its length; does not block."""
        chunk = bytes(data)
        with self._changed:
            if self._dropped or self._buffered + len(chunk) > BUFFER_BYTES:
                self._dropped += _lines(chunk)
            else:
                self._queue.append(chunk)
                self._buffered += len(chunk)
            self._changed.notify_all()
        return len(chunk)

    def drain(self, timeout_s: float = DRAIN_S) -> None:
        """Write the buffer and stop; after timeout_s seconds the rest is dropped."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._writer.join(timeout_s)

    def _work(self) -> None:
        while (found := self._next()) is not None:
            data, lines = found
            if self._put(data):
                continue
            with self._changed:
                self._dropped += lines
                if self._stopping:
                    return
                self._changed.wait_for(lambda: self._stopping, self._retry_s)

    def _next(self) -> tuple[bytes, int] | None:
        """Return the next bytes and their number of lines; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._dropped or self._stopping)
            if self._queue:
                data = self._queue.popleft()
                self._buffered -= len(data)
                return data, _lines(data)
            dropped, self._dropped = self._dropped, 0
            return (self._gap(dropped).encode(), dropped) if dropped else None

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
    """Make standard error non-blocking for the log and tracebacks.

    The exit writes the buffer, for two seconds at most. A standard error that is no file, such as
    one that a test captures, stays as it is: it never blocks.
    """
    sys.stderr.flush()
    try:
        fd = sys.stderr.fileno()
    except io.UnsupportedOperation:
        fd = -1
    if fd < 0:
        yield
        return
    outlet = NonBlockingStderr(fd, _gap)
    text = io.TextIOWrapper(outlet, encoding="utf-8", errors="backslashreplace", write_through=True)
    with redirect_stderr(text):
        try:
            yield
        finally:
            outlet.drain()


def _gap(lines: int) -> str:
    """Return the line for dropped lines, in the configured format."""
    renderer = structlog.wrap_logger(structlog.ReturnLogger(), room="log")
    return f"{renderer.warning('log lines dropped, standard error was not read', lines=lines)}\n"


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
    """Return the exc_info to log: an unexpected error only, because it may be a bug."""
    return None if isinstance(error, DranetError | OSError) else error
