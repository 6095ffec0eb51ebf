"""The wire between the two machines, and a soft-RoCE device at each end of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final, TypeVar

import pytest

from tests.box import rdma
from tests.box.peer import Peer
from tests.box.rdma import Driver, Mode, soft_rdma
from tests.box.target import NODE, ExecTarget, checked
from tests.box.waiting import wait_until

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


def has_carrier(node: ExecTarget) -> bool:
    """Whether the first NIC, which is up, has its carrier: a ping before that ends in an error."""
    return checked(node, "cat", f"/sys/class/net/{NIC}/carrier") == "1\n"


@pytest.fixture
def wire(peer: Peer) -> Iterator[None]:
    """Have the first NIC of both machines up, with an address."""
    for node, address in ((NODE, HERE), (peer, THERE)):
        checked(node, "ip", "addr", "add", f"{address}/24", "dev", NIC)
        checked(node, "ip", "link", "set", NIC, "up")
    for node in (NODE, peer):
        wait_until(f"the carrier of {NIC}", partial(has_carrier, node))
    yield
    for node in (NODE, peer):
        checked(node, "ip", "link", "set", NIC, "down")
        checked(node, "ip", "addr", "flush", "dev", NIC)


@pytest.fixture
def roce(peer: Peer, wire: None) -> Iterator[None]:
    """Have RDMA devices over those NICs that move; each belongs to one namespace."""
    with soft_roce(peer, "exclusive"):
        yield


@pytest.fixture
def shared_roce(peer: Peer, wire: None) -> Iterator[None]:
    """Have RDMA devices over those NICs; every namespace has them."""
    with soft_roce(peer, "shared"):
        yield


@contextmanager
def soft_roce(peer: Peer, mode: Mode) -> Iterator[None]:
    """Have RDMA devices over the first NIC of both machines."""
    with ExitStack() as stack:
        loaded = [soft_rdma(Driver.MOVABLE, mode, node) for node in (NODE, peer)]
        at_once(stack.enter_context, loaded)
        for node in (NODE, peer):
            rdma.add_link(RDMA, NIC, node)
        yield
