"""Per-interface sysctls. /proc/sys/net shows the namespace of the thread that looks.

Rules:
1. Everything here runs inside a thread that entered the namespace (netns.run_inside).
2. Names come from records, so none may lead out of its directory.
"""

import os
from errno import EINVAL, EROFS
from pathlib import Path
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.model import Sysctl

# What a move resets to net/<family>/conf/default of the namespace the link enters.
RESET_BY_A_MOVE: Final = (
    ("ipv4", "accept_local"),
    ("ipv4", "accept_redirects"),
    ("ipv4", "accept_source_route"),
    ("ipv4", "arp_accept"),
    ("ipv4", "arp_announce"),
    ("ipv4", "arp_filter"),
    ("ipv4", "arp_ignore"),
    ("ipv4", "arp_notify"),
    ("ipv4", "forwarding"),
    ("ipv4", "log_martians"),
    ("ipv4", "promote_secondaries"),
    ("ipv4", "proxy_arp"),
    ("ipv4", "route_localnet"),
    ("ipv4", "rp_filter"),
    ("ipv4", "secure_redirects"),
    ("ipv4", "send_redirects"),
    ("ipv4", "shared_media"),
    ("ipv4", "src_valid_mark"),
    ("ipv6", "accept_dad"),
    ("ipv6", "accept_ra"),
    ("ipv6", "accept_ra_defrtr"),
    ("ipv6", "accept_ra_pinfo"),
    ("ipv6", "accept_ra_rt_info_max_plen"),
    ("ipv6", "accept_redirects"),
    ("ipv6", "accept_source_route"),
    ("ipv6", "addr_gen_mode"),
    ("ipv6", "autoconf"),
    ("ipv6", "dad_transmits"),
    ("ipv6", "disable_ipv6"),
    ("ipv6", "forwarding"),
    ("ipv6", "keep_addr_on_down"),
    ("ipv6", "ndisc_notify"),
    ("ipv6", "proxy_ndp"),
    ("ipv6", "router_solicitations"),
    ("ipv6", "use_tempaddr"),
)
# What a claim can set is told of a pod even where it has the default value.
SET_BY_CLAIMS: Final = frozenset(
    {
        ("ipv4", "arp_announce"),
        ("ipv4", "arp_ignore"),
        ("ipv4", "forwarding"),
        ("ipv6", "forwarding"),
    }
)

VALUE_LEN: Final = 64  # all of them are numbers

Values = dict[tuple[str, str], str]


def read_values(proc_root: str, name: str) -> Values:
    """Return the sysctls of link name, or of "default", that a move resets.

    Keys that the kernel lacks are left out; so is all of IPv6 where it is switched off.
    """
    values: Values = {}
    for family, key in RESET_BY_A_MOVE:
        # Twice as fast as pathlib, and there are dozens of files.
        try:
            fd = os.open(_path(proc_root, name, family, key), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            values[family, key] = os.read(fd, VALUE_LEN).decode().strip()
        finally:
            os.close(fd)
    return values


def changed(
    values: Values, defaults: Values, always: frozenset[tuple[str, str]] = frozenset()
) -> tuple[Sysctl, ...]:
    """Return what differs from the defaults or is asked for, in the order of the table."""
    return tuple(
        Sysctl(*slot, value)
        for slot, value in values.items()
        if slot in always or value != defaults.get(slot)
    )


def write_value(proc_root: str, what: str, name: str, sysctl: Sysctl) -> None:
    """Write one sysctl of link name.

    Raises:
        KernelError: there is no such file, or it cannot be written; says what to do.
    """
    parts = (name, sysctl.family, sysctl.key)
    if any(part in {"", ".", ".."} or "/" in part for part in parts):
        raise KernelError(what, EINVAL, "not the name of a sysctl")
    try:
        Path(_path(proc_root, *parts)).write_text(sysctl.value)
    except FileNotFoundError as error:
        raise KernelError(
            what,
            error.errno or EINVAL,
            "the link or the sysctl is not there; IPv6 ones need a kernel with IPv6 on",
        ) from error
    except OSError as error:
        hint = "mount a procfs of our own, /proc/sys is read-only" if error.errno == EROFS else ""
        raise KernelError(what, error.errno or EINVAL, hint) from error


def _path(proc_root: str, name: str, family: str, key: str) -> str:
    return f"{proc_root}/sys/net/{family}/conf/{name}/{key}"
