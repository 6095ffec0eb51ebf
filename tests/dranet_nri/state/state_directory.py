"""A directory of allocations, its writer and a reader. A module lists the fixtures in __all__."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dranet_nri.state.reader import AllocationReader
from dranet_nri.state.store import AllocationStore
from tests.dranet_nri.state.directories import ME


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a path that nothing has yet."""
    return tmp_path / "allocations"


@pytest.fixture
def store(directory: Path) -> Iterator[AllocationStore]:
    """Return the shim's side."""
    with AllocationStore(directory) as opened:
        yield opened


@pytest.fixture
def reader(store: AllocationStore, directory: Path) -> Iterator[AllocationReader]:
    """Return the plugin's side."""
    with AllocationReader(directory, owner=ME) as opened:
        yield opened
