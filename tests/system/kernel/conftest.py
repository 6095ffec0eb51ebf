"""Private namespaces, and a guard against forks, for the tests of the kernel room."""

import os
import sys
from collections.abc import Iterator

import pytest

from tests.capability import lacking
from tests.system.kernel.namespaces import new_netns


class ForkGuard:
    """An audit hook: Python calls it before every fork, and it cannot be taken away again."""

    def __init__(self) -> None:
        """Start harmless."""
        self.armed = False
        sys.addaudithook(self._look)

    def _look(self, event: str, _: tuple[object, ...]) -> None:
        if self.armed and event in {"os.fork", "os.forkpty", "subprocess.Popen"}:
            raise AssertionError(f"{event} in the kernel room")


_GUARD = ForkGuard()


@pytest.fixture
def no_fork() -> Iterator[None]:
    """Let every fork of the test fail."""
    _GUARD.armed = True
    yield
    _GUARD.armed = False


@pytest.fixture
def nsfd() -> Iterator[int]:
    """Return a descriptor of a private network namespace."""
    try:
        fd = new_netns()
    except PermissionError:
        lacking("a network namespace", "run as root or under `unshare -Urn`")
    yield fd
    os.close(fd)
