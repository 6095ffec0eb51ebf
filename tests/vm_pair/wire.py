"""The wire between the two machines, and a soft-RoCE device at each end of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final, TypeVar

import pytest

from tests.box import rdma
from tests.box.peer import Peer
from tests.box.place import NODE, checked
from tests.box.rdma import Driver, soft_rdma

NIC: Final = "ens1"
RDMA: Final = "rxe0"
HERE: Final = "10.9.0.1"
THERE: Final = "10.9.0.2"

Given = TypeVar("Given")
Result = TypeVar("Result")


def at_once(function: Callable[[Given], Result], both: Iterable[Given]) -> list[Result]:
    """Return the function's result for each, worked out side by side: machines are slow."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(function, both))


@pytest.fixture
def wire(peer: Peer) -> Iterator[None]:
    """Have the first NIC of both machines up, with an address."""
    for node, address in ((NODE, HERE), (peer, THERE)):
        checked(node, "ip", "addr", "add", f"{address}/24", "dev", NIC)
        checked(node, "ip", "link", "set", NIC, "up")
    yield
    for node in (NODE, peer):
        checked(node, "ip", "link", "set", NIC, "down")
        checked(node, "ip", "addr", "flush", "dev", NIC)


@pytest.fixture
def roce(peer: Peer, wire: None) -> Iterator[None]:
    """Have RDMA devices over those NICs that move; each belongs to one namespace."""
    with ExitStack() as stack:
        loaded = [soft_rdma(Driver.MOVABLE, "exclusive", node) for node in (NODE, peer)]
        at_once(stack.enter_context, loaded)
        for node in (NODE, peer):
            rdma.add_link(RDMA, NIC, node)
        yield
