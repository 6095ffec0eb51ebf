"""Virtual functions of a machine, each with an RDMA device that moves with its NIC or is shared."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.kernel.netns import run_inside
from dranet_nri.linux.rdma.socket import RdmaSocket, open_here
from tests.box import rdma
from tests.box.nics import Nic
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
    fd = os.open(f"/run/netns/{netns}" if netns else "/proc/self/ns/net", os.O_RDONLY)
    try:
        opened = run_inside(fd, open_here)
    finally:
        os.close(fd)
    assert opened is not None, "a kernel with an RDMA class has NETLINK_RDMA"
    with closing(opened) as socket:
        return sorted(_ports(socket, netns or "the host"))


def _ports(socket: RdmaSocket, where: str) -> Iterator[str]:
    for device in socket.devices(where):
        with suppress(KernelError):  # the device is just leaving
            for port in socket.ports("look", device.index):
                yield json.dumps(["rdma", device.name, port.netdev])
