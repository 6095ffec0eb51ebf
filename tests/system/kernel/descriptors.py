"""Counting of the open descriptors of a process."""

import gc
import os
from pathlib import Path


def open_descriptors() -> frozenset[int]:
    """Return the numbers of the descriptors that are open now."""
    found = {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}
    return frozenset(fd for fd in found if _is_open(fd))


def descriptors_before() -> frozenset[int]:
    """Return the open descriptors before a test, without those that nothing can reach.

    Earlier tests leave some in reference cycles, as of exceptions. The collector would close them
    during the test.
    """
    gc.collect()
    return open_descriptors()


def _is_open(fd: int) -> bool:
    """Whether fd is still open: the one that listed the directory is not."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
