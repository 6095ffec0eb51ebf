"""Fixtures of every tier with a runtime; conftest.py of each tier imports them by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.box.containerd import Containerd
from tests.box.cri import Cri
from tests.box.runtime import Options, Runtime


@pytest.fixture(scope="session")
def installed() -> Runtime:
    """Return the runtime of the node, not started."""
    return Containerd()


@pytest.fixture(scope="session")
def running(installed: Runtime) -> Iterator[Runtime]:
    """Return the runtime, which runs for the whole session."""
    installed.start()
    yield installed
    installed.stop()


@pytest.fixture(scope="session")
def runtime_options() -> Options:
    """Return those that the runtime runs with; a module whose tests need others has its own."""
    return Options()


@pytest.fixture
def runtime(running: Runtime, runtime_options: Options) -> Iterator[Runtime]:
    """Return the running runtime; whatever a test did to it is undone."""
    running.ensure_running(runtime_options)
    yield running
    running.ensure_running(runtime_options)


@pytest.fixture
def cri(runtime: Runtime) -> Iterator[Cri]:
    """Return a client of a runtime without pods; pods left by the test are removed."""
    with Cri(f"unix://{runtime.socket}") as client:
        yield client
        try:
            client.remove_all()
        except BaseException:
            if runtime.running:
                runtime.kill()  # one that hangs would fail every test after this one as well
            raise
