"""Tests in this directory run inside the node in a box: hack/test host."""

import pytest

from tests.box.attach import absent, plugin
from tests.box.cri import Cri
from tests.box.fixtures import cri, installed, running, runtime, runtime_options
from tests.box.nics import Nic, host_state, make_wires, settled
from tests.box.report import pytest_runtest_makereport

__all__ = [
    "absent",
    "cri",
    "installed",
    "plugin",
    "pytest_runtest_makereport",
    "running",
    "runtime",
    "runtime_options",
]


@pytest.fixture(scope="session")
def nics() -> tuple[Nic, ...]:
    """Return eight NICs; without hardware, one end of a wire each."""
    return make_wires(8)


@pytest.fixture
def before(cri: Cri, nics: tuple[Nic, ...]) -> dict[str, object]:
    """Return the host's state once the runtime's bridge exists and addresses have settled."""
    settled()
    return host_state()
