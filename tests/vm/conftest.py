"""Tests in this directory run inside the node in a box: hack/test vm."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.attach import absent, plugin
from tests.box.cri import Cri
from tests.box.fixtures import cri, installed, running, runtime, runtime_options
from tests.box.nics import (
    Nic,
    dress_functions,
    host_state,
    make_functions,
    remove_functions,
    settled,
)
from tests.box.rdma import movable_rdma, stock_rdma
from tests.box.report import pytest_runtest_makereport

__all__ = [
    "absent",
    "cri",
    "installed",
    "movable_rdma",
    "plugin",
    "pytest_runtest_makereport",
    "running",
    "runtime",
    "runtime_options",
    "stock_rdma",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the demo first: it starts a runtime of its own, and the other tests share one."""
    items.sort(key=lambda item: item.path.name != "test_demo.py")


@pytest.fixture(scope="module")
def functions() -> Iterator[tuple[Path, ...]]:
    """Return eight virtual functions, one on each NIC: four on each NUMA node."""
    yield make_functions()
    remove_functions()


@pytest.fixture(scope="module")
def nics(functions: tuple[Path, ...]) -> tuple[Nic, ...]:
    """Return the virtual functions' NICs, with addresses, routes and rules on the host."""
    return dress_functions(functions)


@pytest.fixture
def before(cri: Cri, nics: tuple[Nic, ...]) -> dict[str, object]:
    """Return the host's state once the runtime's bridge exists and addresses have settled."""
    settled()
    return host_state()
