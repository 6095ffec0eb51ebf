"""Reads of small files below one open directory.

Devices appear and disappear during a scan: a file that cannot be read is "" or absent. An error is
raised only if the process can open no file at all, because the node would seem to have no devices.
"""

import os
from errno import EMFILE, ENFILE, ENOMEM
from pathlib import Path
from typing import Final, Self

from dranet_nri.errors import KernelError

_EXHAUSTION: Final = frozenset({EMFILE, ENFILE, ENOMEM})
_MAX_BYTES: Final = 4096  # one page, the maximum of a sysfs attribute


class DirFd:
    """An open directory; a context manager. One that does not exist reads as empty."""

    def __init__(self, path: Path) -> None:
        """Open path, if it exists.

        Raises:
            KernelError: the process can open no file now.
        """
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            _raise_if_exhausted(error)
            self._fd = -1

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the directory."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def names(self, path: str = ".") -> list[str]:
        """Return the sorted names below path.

        Raises:
            KernelError: the process can open no file now.
        """
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._fd)
        except OSError as error:
            _raise_if_exhausted(error)
            return []
        try:
            with os.scandir(fd) as entries:
                return sorted(entry.name for entry in entries)
        except OSError as error:
            _raise_if_exhausted(error)
            return []
        finally:
            os.close(fd)

    def text(self, path: str) -> str:
        """Return the file's text without surrounding white space, "" if there is none.

        Raises:
            KernelError: the process can open no file now.
        """
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._fd)
        except OSError as error:
            _raise_if_exhausted(error)
            return ""
        try:
            return os.read(fd, _MAX_BYTES).decode(errors="replace").strip()
        except OSError:
            return ""
        finally:
            os.close(fd)

    def number(self, path: str, default: int = 0) -> int:
        """Return the file's decimal number, or default."""
        try:
            return int(self.text(path))
        except ValueError:
            return default

    def target(self, path: str) -> str:
        """Return where the symbolic link points, "" if it is none."""
        try:
            return os.readlink(path, dir_fd=self._fd)
        except OSError:
            return ""


def _raise_if_exhausted(error: OSError) -> None:
    """Raise for an error of the process, not of the requested file."""
    if error.errno in _EXHAUSTION:
        raise KernelError("read sysfs", error.errno, os.strerror(error.errno)) from error
