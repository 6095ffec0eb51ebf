"""Tests in this directory run on one of two machines that share a wire: hack/test vm."""

import pytest

from tests.box.peer import Peer
from tests.box.report import pytest_runtest_makereport
from tests.system.vm_pair.wire import roce, shared_roce, wire

__all__ = ["pytest_runtest_makereport", "roce", "shared_roce", "wire"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag of hack/prove."""
    parser.addoption("--prove", action="store_true", help="every fault, and 20 healthy runs")


@pytest.fixture(scope="session")
def peer() -> Peer:
    """Return the other machine, once it takes commands."""
    peer = Peer()
    peer.wait()
    return peer
