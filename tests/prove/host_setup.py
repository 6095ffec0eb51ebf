"""Further host configuration of the matrix's NICs, and changes that a pod makes to them.

Each setting adds an operation to a plan, and so a point of crash, that a plain NIC does not have.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dranet_nri.kernel.netns import run_inside
from dranet_nri.model import XdpMode
from tests.box.nics import Nic, ip
from tests.box.waiting import wait_until
from tests.system.kernel import bpf, xdp

_SYSCTLS: Final = {  # a move resets them
    "ipv4": {"rp_filter": "2", "arp_ignore": "2"},
    "ipv6": {"accept_ra": "0"},
}
_FIRST_GROUP: Final = 70


def configure(nics: Sequence[Nic]) -> tuple[Nic, ...]:
    """Set sysctls and a group on each NIC, and flags on two; return the settled NICs."""
    for number, nic in enumerate(nics):
        for family, values in _SYSCTLS.items():
            for key, value in values.items():
                Path("/proc/sys/net", family, "conf", nic.name, key).write_text(value)
        ip("link", "set", nic.name, "group", str(_FIRST_GROUP + number))
    first, _, third = nics
    ip("link", "set", first.name, "allmulticast", "on")
    ip("link", "set", third.name, "arp", "off")
    # They come up to a second after the carrier; the state is compared from now on.
    wait_until(
        "link-local addresses",
        lambda: all(ip("-6", "addr", "show", "dev", nic.name, "scope", "link") for nic in nics),
    )
    return tuple(nics)


def occupy_name(name: str) -> None:
    """Give another link the name that a NIC had on the host."""
    ip("link", "add", name, "type", "bridge")


def free_name(name: str) -> None:
    """Delete the link that took the name."""
    ip("link", "del", name)


def move_to_host(netns: str, name: str, host_name: str) -> None:
    """Move the NIC to the host under a name, without the plugin."""
    ip("-n", netns, "link", "set", name, "netns", str(os.getpid()), "name", host_name)


def change_in_pod(netns: str, name: str) -> None:
    """Change settings of the NIC in a pod that a move keeps: flags, group, XDP and TCX programs."""
    ip("-n", netns, "link", "set", name, "promisc", "on", "allmulticast", "off", "group", "99")
    fd = os.open(Path("/run/netns", netns), os.O_RDONLY)
    try:
        xdp.attach(fd, name, XdpMode.GENERIC)
        run_inside(fd, lambda: bpf.attach_tcx(name))
    finally:
        os.close(fd)
