"""Fixtures for both tiers; conftest.py of each tier imports them by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.box.containerd import Containerd
from tests.box.cri import Cri


@pytest.fixture(scope="session")
def runtime() -> Iterator[Containerd]:
    """Return a containerd that runs for the whole session."""
    runtime = Containerd()
    runtime.start()
    yield runtime
    runtime.stop()


@pytest.fixture
def containerd(runtime: Containerd) -> Iterator[Containerd]:
    """Return the running containerd; whatever a test did to it is undone."""
    yield runtime
    runtime.heal()


@pytest.fixture
def cri(containerd: Containerd) -> Iterator[Cri]:
    """Return a client of a runtime without pods; pods left by the test are removed."""
    with Cri() as client:
        yield client
        client.remove_all()
