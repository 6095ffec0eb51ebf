"""Directories of records for the tests of stores and readers."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EIO
from math import inf
from pathlib import Path

import pytest

from dranet_nri.state.record import MAX_RECORD
from tests.dranet_nri.state.examples import CLAIM_UID

ME = os.geteuid()
NAME = f"{CLAIM_UID}.json"


def put_file(directory: Path, name: str, data: bytes) -> None:
    """Put a file there as any writer would, by rename."""
    (directory / ".placed").write_bytes(data)
    (directory / ".placed").replace(directory / name)


def tree(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return the state that any change modifies."""
    return {
        str(path.relative_to(directory)): (
            path.lstat().st_ino,
            path.lstat().st_ctime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in directory.rglob("*")
    }


def open_descriptors() -> list[str]:
    """Return the names of this process's descriptors."""
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def removed_and_open(directory: Path) -> int:
    """Return the number of removed entries of the directory that this process has open."""
    entries = Path("/proc/self/fd").iterdir()
    links = (str(entry.readlink()) for entry in entries if entry.is_symlink())
    return sum(link.startswith(str(directory)) and link.endswith(" (deleted)") for link in links)


@contextmanager
def unreadable(times: float = inf) -> Iterator[None]:
    """Let reads of records fail the given number of times."""
    left, real_read = times, os.read

    def fail(descriptor: int, size: int) -> bytes:
        nonlocal left
        if size == MAX_RECORD + 1 and left > 0:
            left -= 1
            raise OSError(EIO, os.strerror(EIO))
        return real_read(descriptor, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "read", fail)
        yield


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Exhaust the descriptors of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(open_descriptors()) + 20, hard))
    taken: list[int] = []
    try:
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
