"""Per-interface sysctls. /proc/sys/net shows the namespace of the thread that looks.

Rules:
1. Everything here runs inside a thread that entered the namespace (netns.run_inside).
2. Names come from records, so none may lead out of its directory.
"""

import os
from contextlib import suppress
from errno import EINVAL, EROFS
from pathlib import Path
from socket import AF_INET, AF_INET6
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.model import Sysctl
from dranet_nri.netlink.codec import attributes, u32

# What a move resets to net/<family>/conf/default of the namespace the link enters.
RESET_BY_A_MOVE: Final = {
    "ipv4": (
        "accept_local",
        "accept_redirects",
        "accept_source_route",
        "arp_accept",
        "arp_announce",
        "arp_filter",
        "arp_ignore",
        "arp_notify",
        "forwarding",
        "log_martians",
        "promote_secondaries",
        "proxy_arp",
        "route_localnet",
        "rp_filter",
        "secure_redirects",
        "send_redirects",
        "shared_media",
        "src_valid_mark",
    ),
    "ipv6": (
        "accept_dad",
        "accept_ra",
        "accept_ra_defrtr",
        "accept_ra_pinfo",
        "accept_ra_rt_info_max_plen",
        "accept_redirects",
        "accept_source_route",
        "addr_gen_mode",
        "autoconf",
        "dad_transmits",
        "disable_ipv6",
        "forwarding",
        "keep_addr_on_down",
        "ndisc_notify",
        "proxy_ndp",
        "router_solicitations",
        "use_tempaddr",
    ),
}
# IFLA_AF_SPEC of a link holds all values of each family as an array (linux/if_link.h): by address
# family, the array's attribute, and what claims can set, which is all that is told of a pod. The
# numbers are those of linux/ip.h less one, and those of linux/ipv6.h.
SET_BY_CLAIMS: Final = (
    ("ipv4", AF_INET, 1, {"arp_announce": 17, "arp_ignore": 18, "forwarding": 0}),
    ("ipv6", AF_INET6, 2, {"forwarding": 0}),
)

VALUE_LEN: Final = 64  # all of them are numbers

Values = dict[tuple[str, str], str]


def read_values(proc_root: str, name: str) -> Values:
    """Return the sysctls of link name, or of "default", that a move resets.

    Keys that the kernel lacks are left out; so is all of IPv6 where it is switched off.
    """
    values: Values = {}
    for family, keys in RESET_BY_A_MOVE.items():
        try:
            directory = os.open(_path(proc_root, name, family), os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            for key in keys:
                with suppress(OSError):
                    values[family, key] = _read(directory, key)
        finally:
            os.close(directory)
    return values


def _read(directory: int, key: str) -> str:
    """Return one value; with a directory's descriptor this takes a third of what a path does."""
    fd = os.open(key, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        return os.read(fd, VALUE_LEN).decode().strip()
    finally:
        os.close(fd)


def set_by_claims(af_spec: bytes) -> tuple[Sysctl, ...]:
    """Return what a claim can set, as the link's IFLA_AF_SPEC tells it."""
    families = attributes(af_spec)
    found: list[Sysctl] = []
    for label, family, array, keys in SET_BY_CLAIMS:
        values = attributes(families.get(family, b"")).get(array, b"")
        found += (
            Sysctl(label, key, str(u32(values[4 * number :])))
            for key, number in keys.items()
            if len(values) >= 4 * number + 4
        )
    return tuple(found)


def changed(values: Values, defaults: Values) -> tuple[Sysctl, ...]:
    """Return what differs from the defaults, in the order of the table."""
    return tuple(
        Sysctl(*slot, value) for slot, value in values.items() if value != defaults.get(slot)
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
        Path(_path(proc_root, name, sysctl.family), sysctl.key).write_text(sysctl.value)
    except FileNotFoundError as error:
        raise KernelError(
            what,
            error.errno or EINVAL,
            "the link or the sysctl is not there; IPv6 ones need a kernel with IPv6 on",
        ) from error
    except OSError as error:
        hint = "mount a procfs of our own, /proc/sys is read-only" if error.errno == EROFS else ""
        raise KernelError(what, error.errno or EINVAL, hint) from error


def _path(proc_root: str, name: str, family: str) -> str:
    return f"{proc_root}/sys/net/{family}/conf/{name}"
