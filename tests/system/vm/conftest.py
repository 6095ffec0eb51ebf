"""Tests in this directory run inside the node in a box: hack/test vm."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.attach import absent, plugin
from tests.box.boxnic import debugfs, far, netns, physical, rebound, virtual
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
    "debugfs",
    "far",
    "installed",
    "movable_rdma",
    "netns",
    "physical",
    "plugin",
    "pytest_runtest_makereport",
    "rebound",
    "running",
    "runtime",
    "runtime_options",
    "stock_rdma",
    "virtual",
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for another machine, and put the demo first.

    The demo starts a runtime of its own; the other tests share one.
    """
    out = [item for item in items if not _is_for_this_machine(item)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]
    items.sort(key=lambda item: item.path.name != "test_demo.py")


def _is_for_this_machine(item: pytest.Item) -> bool:
    """Whether the module names no MACHINE, or this one: no other has its hardware or drivers."""
    machine = os.environ.get("BOX_MACHINE")
    named = getattr(getattr(item, "module", None), "MACHINE", machine)
    return machine in (named if isinstance(named, tuple) else (named,))


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
