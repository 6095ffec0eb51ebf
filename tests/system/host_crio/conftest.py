"""Tests in this directory run inside the node in a box, with CRI-O: hack/test host."""

import shutil

import pytest

from tests.box.attach import absent, plugin
from tests.box.crio import Crio
from tests.box.fixtures import cri, running, runtime, runtime_options
from tests.box.report import pytest_runtest_makereport
from tests.box.runtime import Runtime
from tests.capability import lacking
from tests.system.host.conftest import before, nics

__all__ = [
    "absent",
    "before",
    "cri",
    "nics",
    "plugin",
    "pytest_runtest_makereport",
    "running",
    "runtime",
    "runtime_options",
]


@pytest.fixture(scope="session")
def installed() -> Runtime:
    """Return CRI-O, not started."""
    if shutil.which("crio") is None:
        lacking(
            "Go 1.26 or newer, which CRI-O is built with,", "install it and run ./hack/test host"
        )
    return Crio()
