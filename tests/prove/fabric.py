"""The VM's virtual functions with an RDMA device each, which moves with its NIC or is shared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.box import rdma
from tests.box.nics import Nic
from tests.box.place import Node
from tests.box.rdma import Driver, Mode, soft_rdma

_CLASS: Final = Path("/sys/class/infiniband")


@contextmanager
def movable(mode: Mode) -> Iterator[None]:
    """Have soft-RoCE that outlives its NIC's moves, in that mode. No other namespace may exist."""
    with soft_rdma(Driver.MOVABLE, mode):
        yield


def add_devices(nics: tuple[Nic, ...]) -> tuple[Nic, ...]:
    """Give each NIC an RDMA device; return the NICs."""
    for nic in nics:
        rdma.add_link(f"rxe_{nic.name}", nic.name)
    return nics


def shown_in(netns: str = "") -> list[str]:
    """Return the RDMA devices of the namespace, each with its net device; none without RDMA."""
    if not _CLASS.exists():
        return []
    return sorted(json.dumps(["rdma", *row]) for row in rdma.links(Node(netns)).items())
