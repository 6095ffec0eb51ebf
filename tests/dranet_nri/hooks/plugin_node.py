"""The node of tests that drive a whole plugin. A module lists the fixture in __all__."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.node import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Return a node with two NICs, whose RDMA devices belong to one namespace each."""
    made = Node(tmp_path)
    yield made
    made.close()
