"""Privileged facts of the host's network namespace, see state/privileged_facts.py."""

import os
from contextlib import ExitStack, closing
from errno import EPERM
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.linux import bpf
from dranet_nri.linux.netlink.links import dump_links
from dranet_nri.linux.netlink.other_netns import UpperLinks
from dranet_nri.linux.netlink.protocols import LoadedProtocols
from dranet_nri.linux.netlink.rtnetlink import open_here
from dranet_nri.linux.netlink.underlays import open_ipsec, underlays
from dranet_nri.state.privileged_facts import PrivilegedFacts, Programs

_OWN: Final = "/proc/thread-self/ns/net"


def read_privileged_facts(uppers: UpperLinks) -> PrivilegedFacts:
    """Return the current facts.

    Args:
        uppers: upper links of the host's namespace, in which the calling thread is.

    Raises:
        KernelError: the request failed; EPERM: the privilege is missing.
        OSError: /proc is not available.
    """
    return _facts(bpf.tcx_names(), uppers)


def read_allowed_facts() -> PrivilegedFacts:
    """Return the readable facts; without the privilege, no programs."""
    return _facts(_programs_if_allowed(), UpperLinks(None))


def _facts(programs: Programs, uppers: UpperLinks) -> PrivilegedFacts:
    nsfd = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with ExitStack() as opened:
            netlink = opened.enter_context(closing(open_here()))
            ipsec = open_ipsec(LoadedProtocols())
            if ipsec is not None:
                opened.enter_context(closing(ipsec))
            links = dump_links(netlink, "the host")
            upper_kinds = uppers.kinds(netlink, nsfd)
            return PrivilegedFacts(programs, upper_kinds, underlays(netlink, links, ipsec))
    finally:
        os.close(nsfd)


def _programs_if_allowed() -> Programs:
    try:
        return bpf.tcx_names()
    except KernelError as error:
        if error.code != EPERM:
            raise
        return {}
