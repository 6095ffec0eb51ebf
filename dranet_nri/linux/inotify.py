"""Changes in a directory since the previous query, through inotify (inotify(7)).

Rules:
1. A query without changes costs one read(2).
2. A query returns every change made before it: the kernel queues the event during the rename or
   link. After lost events it returns that everything may have changed.
"""

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from errno import ENOSPC
from pathlib import Path
from typing import Final

from dranet_nri.errors import StateError

# linux/inotify.h
IN_CLOSE_WRITE: Final = 0x00000008
IN_MOVED_FROM: Final = 0x00000040
IN_MOVED_TO: Final = 0x00000080
IN_CREATE: Final = 0x00000100
IN_DELETE: Final = 0x00000200
IN_DELETE_SELF: Final = 0x00000400
IN_MOVE_SELF: Final = 0x00000800
IN_UNMOUNT: Final = 0x00002000
IN_Q_OVERFLOW: Final = 0x00004000
IN_IGNORED: Final = 0x00008000
IN_ONLYDIR: Final = 0x01000000

_CONTENT: Final = IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
_GONE: Final = IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED
_EVENT: Final = struct.Struct("iIII")  # watch, mask, cookie, length of the padded name
_BUFFER: Final = 64 << 10  # bytes per read
_MAX_EVENT: Final = 16 + 256  # bytes, with the longest name
_MAX_READS: Final = 128  # bounds a query while a writer does not stop
_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_libc: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class InotifyEvent:
    """One struct inotify_event; name is "" for an event of the directory itself."""

    watch: int
    mask: int
    name: str


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """Files to read again.

    Attributes:
        names: entries that were created, removed or changed.
        removed: those of them whose last event is their removal. A name that was moved is not among
            them: in an exchange of two files, that event can be its last one.
        everything: events were lost, or the directory was replaced.
    """

    names: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    everything: bool = False


UNCHANGED: Final = ChangedFiles()


def parse_events(data: bytes) -> Iterator[InotifyEvent]:
    """Yield the events of one read."""
    offset = 0
    while offset < len(data):
        watch, mask, _cookie, length = _EVENT.unpack_from(data, offset)
        start = offset + _EVENT.size
        offset = start + length
        yield InotifyEvent(watch, mask, os.fsdecode(data[start:offset].rstrip(b"\0")))


class Watch:
    """Watch of one directory, which may appear later, and may be replaced.

    Attributes:
        directory: descriptor of the watched directory, None while it does not exist.
    """

    def __init__(self, path: Path) -> None:
        """Start watching.

        Raises:
            StateError: no inotify instance is available.
            OSError: the directory exists but cannot be watched.
        """
        self.directory: int | None = None
        self._path = path
        self._watch = -1
        self._parent = -1  # watch of the parent, while the directory exists
        self._armed = False
        self._inotify = _new_inotify()
        try:
            self._arm()
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor that becomes readable on changes."""
        return self._inotify

    def close(self) -> None:
        """Stop watching. Idempotent."""
        self._forget_directory()
        if self._inotify >= 0:
            os.close(self._inotify)
            self._inotify = -1

    def drain(self) -> ChangedFiles:
        """Return what changed since the last call.

        Raises:
            StateError: no directory of the path can be watched.
            OSError: the directory cannot be watched now; the next call retries, and reports all.
        """
        removed: dict[str, bool] = {}  # by name, as of the last event
        everything = False
        for _ in range(_MAX_READS):
            data = self._read()
            if not data:
                break
            for event in parse_events(data):
                if event.mask & IN_Q_OVERFLOW:
                    everything = True
                elif event.watch == self._parent:
                    self._armed = self._armed and event.name != self._path.name
                elif event.watch != self._watch:
                    continue  # of a directory that is no longer watched
                elif self.directory is None or event.mask & _GONE:
                    self._armed = False
                else:
                    removed[event.name] = bool(event.mask & IN_DELETE)
            if len(data) <= _BUFFER - _MAX_EVENT:
                break  # the queue was empty then
        else:
            everything = True
        if not self._armed:
            everything = True
            self._arm()
        if everything:
            return ChangedFiles(everything=True)
        if not removed:
            return UNCHANGED
        return ChangedFiles(
            frozenset(removed),
            frozenset(name for name, is_removed in removed.items() if is_removed),
        )

    def rearm(self) -> None:
        """Watch the directory that is at the path now, if it was replaced."""
        if self.directory is None or not self._is_current(self.directory):
            self._arm()

    def _is_current(self, directory: int) -> bool:
        try:
            return os.path.samestat(os.fstat(directory), self._path.stat())
        except FileNotFoundError:
            return False

    def _read(self) -> bytes:
        try:
            return os.read(self._inotify, _BUFFER)
        except BlockingIOError:
            return b""

    def _arm(self) -> None:
        """Watch the directory, or else the nearest ancestor in which it may appear."""
        self._armed = False
        while not self._try_arm():
            pass  # a component of the path appeared during the attempt
        self._armed = True

    def _try_arm(self) -> bool:
        self._forget_directory()
        for candidate in (self._path, *self._path.parents):
            with suppress(FileNotFoundError, NotADirectoryError):
                if candidate != self._path:
                    self._watch_only(self._add(candidate))
                    step = self._path.relative_to(candidate).parts[0]
                    return not (candidate / step).is_dir()
                # The removal of an open directory causes an event of its parent only.
                parent = -1
                with suppress(PermissionError):
                    parent = self._add(candidate.parent, IN_DELETE)
                self._watch_only(self._add(candidate), parent)
                # Watched before it is opened: a replacement in between causes an event.
                self.directory = os.open(candidate, _OPEN_DIRECTORY)
                return True
        raise StateError(f"{self._path}: neither it nor a directory above it can be watched")

    def _add(self, path: Path, mask: int = _CONTENT | IN_DELETE_SELF | IN_MOVE_SELF) -> int:
        try:
            return _call("inotify_add_watch", self._inotify, os.fsencode(path), mask | IN_ONLYDIR)
        except OSError as cause:
            if cause.errno == ENOSPC:
                raise _exhausted(cause, "watches") from cause
            cause.filename = str(path)
            raise

    def _watch_only(self, watch: int, parent: int = -1) -> None:
        """Replace the watches; for the same directory no event is sent."""
        for former in {self._watch, self._parent} - {watch, parent, -1}:
            _libc.inotify_rm_watch(self._inotify, former)  # EINVAL: already removed
        self._watch, self._parent = watch, parent

    def _forget_directory(self) -> None:
        if self.directory is not None:
            os.close(self.directory)
            self.directory = None


def _new_inotify() -> int:
    try:
        return _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as cause:
        raise _exhausted(cause, "instances") from cause


def _exhausted(cause: OSError, limit: str) -> StateError:
    return StateError(f"{cause.strerror}; raise the node's sysctl fs.inotify.max_user_{limit}")


def _call(name: str, *arguments: int | bytes) -> int:
    result = int(getattr(_libc, name)(*arguments))
    if result >= 0:
        return result
    code = ctypes.get_errno()
    raise OSError(code, f"{name}: {os.strerror(code)}")
