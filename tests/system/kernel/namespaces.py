"""Private namespaces and virtual links for tests. Nothing of the machine is touched.

The "host" of these tests is a namespace of its own as well; everything vanishes with the
descriptors.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from pyroute2 import IPRoute

from dranet_nri.kernel.netns import CLONE_NEWNET, run_inside

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int, ns: str) -> int:
    """Make a namespace in a thread that dies, and return a descriptor of it.

    Raises:
        OSError: not permitted; run as root or under `unshare -Urn`.
    """
    made: list[int | OSError] = []

    def body() -> None:
        if _libc.unshare(flags) != 0:
            code = ctypes.get_errno()
            made.append(OSError(code, os.strerror(code)))
        else:
            made.append(os.open(f"/proc/thread-self/ns/{ns}", os.O_RDONLY | os.O_CLOEXEC))

    thread = Thread(target=body)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


def new_netns() -> int:
    """Make a network namespace and return a descriptor of it."""
    return unshare(CLONE_NEWNET, "net")


@contextmanager
def open_netns() -> Iterator[int]:
    """Make a network namespace for the length of a block."""
    fd = new_netns()
    try:
        yield fd
    finally:
        os.close(fd)


def add_veth(nsfd: int, name: str, wire: int) -> None:
    """Make a veth in the namespace whose other end, up, is in the namespace wire."""

    def body() -> None:
        with IPRoute() as ip:
            ip.link("add", ifname=name, kind="veth", peer={"ifname": f"p{name}"[:15]})
            peer = ip.link_lookup(ifname=f"p{name}"[:15])[0]
            ip.link("set", index=peer, net_ns_fd=wire)

    run_inside(nsfd, body)
    run_inside(wire, lambda: _set_up(f"p{name}"[:15]))


def add_bridge(nsfd: int, name: str) -> None:
    """Make a bridge in the namespace."""

    def body() -> None:
        with IPRoute() as ip:
            ip.link("add", ifname=name, kind="bridge")

    run_inside(nsfd, body)


def add_vxlan(nsfd: int, name: str, lower: str) -> None:
    """Make a tunnel in the namespace whose packets go through the link called lower."""

    def body() -> None:
        with IPRoute() as ip:
            below = ip.link_lookup(ifname=lower)[0]
            ip.link("add", ifname=name, kind="vxlan", vxlan_id=below, vxlan_link=below)

    run_inside(nsfd, body)


def _set_up(name: str) -> None:
    with IPRoute() as ip:
        ip.link("set", index=ip.link_lookup(ifname=name)[0], state="up")
