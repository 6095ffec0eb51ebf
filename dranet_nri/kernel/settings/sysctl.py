"""Per-interface sysctls. /proc/sys/net shows the namespace of the calling thread.

Rules:
1. Code that reads or writes procfs runs in a thread inside the namespace (netns.run_inside).
2. Names come from records, so a name that leaves its directory is refused.
"""

import os
import struct
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from errno import EINVAL, EROFS
from functools import lru_cache
from itertools import chain
from pathlib import Path
from socket import AF_INET, AF_INET6
from types import MappingProxyType
from typing import Final
from weakref import finalize

from dranet_nri.errors import InvalidValueError, KernelError
from dranet_nri.kernel.netns import run_inside
from dranet_nri.kernel.settings.neighbour_tables import NEIGHBOUR_KEYS
from dranet_nri.linux.netlink.codec import attributes
from dranet_nri.model import Sysctl

# Sysctls that a move resets to net/<family>/conf/default of the target namespace, with their index
# in the value array of IFLA_AF_SPEC per family (linux/if_link.h). The numbers are those of
# linux/ip.h minus one, and those of linux/ipv6.h.
RESET_BY_A_MOVE: Final = {
    "ipv4": {
        "accept_local": 22,
        "accept_redirects": 3,
        "accept_source_route": 8,
        "arp_accept": 20,
        "arp_announce": 17,
        "arp_evict_nocarrier": 32,
        "arp_filter": 12,
        "arp_ignore": 18,
        "arp_notify": 21,
        "bc_forwarding": 31,
        "bootp_relay": 9,
        "disable_policy": 15,
        "disable_xfrm": 14,
        "drop_gratuitous_arp": 30,
        "drop_unicast_in_l2_multicast": 29,
        "force_igmp_version": 16,
        "forwarding": 0,
        "igmpv2_unsolicited_report_interval": 26,
        "igmpv3_unsolicited_report_interval": 27,
        "ignore_routes_with_linkdown": 28,
        "log_martians": 10,
        "medium_id": 13,
        "promote_secondaries": 19,
        "proxy_arp": 2,
        "proxy_arp_pvlan": 24,
        "route_localnet": 25,
        "rp_filter": 7,
        "secure_redirects": 4,
        "send_redirects": 5,
        "shared_media": 6,
        "src_valid_mark": 23,
        "tag": 11,
    },
    "ipv6": {
        "accept_dad": 27,
        "accept_ra": 3,
        "accept_ra_defrtr": 17,
        "accept_ra_from_local": 33,
        "accept_ra_min_hop_limit": 38,
        "accept_ra_min_lft": 58,
        "accept_ra_mtu": 35,
        "accept_ra_pinfo": 18,
        "accept_ra_rt_info_max_plen": 21,
        "accept_ra_rt_info_min_plen": 49,
        "accept_ra_rtr_pref": 19,
        "accept_redirects": 4,
        "accept_source_route": 24,
        "accept_untracked_na": 57,
        "addr_gen_mode": 47,
        "autoconf": 5,
        "dad_transmits": 6,
        "disable_ipv6": 26,
        "disable_policy": 48,
        "drop_unicast_in_l2_multicast": 40,
        "drop_unsolicited_na": 41,
        "enhanced_dad": 46,
        "force_forwarding": 59,
        "force_mld_version": 16,
        "force_tllao": 28,
        "forwarding": 0,
        "hop_limit": 1,
        "ignore_routes_with_linkdown": 39,
        "ioam6_enabled": 53,
        "ioam6_id": 54,
        "ioam6_id_wide": 55,
        "keep_addr_on_down": 42,
        "max_addresses": 15,
        "max_desync_factor": 14,
        "mldv1_unsolicited_report_interval": 30,
        "mldv2_unsolicited_report_interval": 31,
        "ndisc_evict_nocarrier": 56,
        "ndisc_notify": 29,
        "ndisc_tclass": 50,
        "optimistic_dad": 23,
        "proxy_ndp": 22,
        "ra_defrtr_metric": 52,
        "regen_max_retry": 13,
        "router_probe_interval": 20,
        "router_solicitation_delay": 9,
        "router_solicitation_interval": 8,
        "router_solicitation_max_interval": 43,
        "router_solicitations": 7,
        "rpl_seg_enabled": 51,
        "seg6_enabled": 44,
        "seg6_require_hmac": 45,
        "suppress_frag_ndisc": 32,
        "temp_prefered_lft": 12,
        "temp_valid_lft": 11,
        "use_oif_addrs_only": 37,
        "use_optimistic": 34,
        "use_tempaddr": 10,
    },
}
# Keys whose file has seconds, and the array milliseconds; and unsigned ones.
_IN_SECONDS: Final = frozenset(
    {
        *("router_probe_interval", "router_solicitation_delay", "router_solicitation_interval"),
        "router_solicitation_max_interval",
    }
)
_UNSIGNED: Final = frozenset({"ioam6_id_wide", "ra_defrtr_metric"})
# Sysctls that a move resets and that IFLA_AF_SPEC lacks. NEIGHBOUR_KEYS are without those files
# that have the same value in another unit.
IN_NO_ARRAY: Final = {
    "ipv4": NEIGHBOUR_KEYS,
    "ipv6": ("ra_honor_pio_life", "ra_honor_pio_pflag", "regen_min_advance", *NEIGHBOUR_KEYS),
    "mpls": ("input",),
}
_SECRET_AND_OTHERS: Final = (
    ("ipv6", "stable_secret"),
    *((family, key) for family, keys in IN_NO_ARRAY.items() for key in keys),
)
ARRAYS: Final = {"ipv4": (AF_INET, 1), "ipv6": (AF_INET6, 2)}  # IFLA_INET_CONF, IFLA_INET6_CONF
SET_BY_CLAIMS: Final = frozenset(
    {("ipv4", "arp_announce"), ("ipv4", "arp_ignore"), ("ipv4", "forwarding")}
    | {("ipv6", "disable_ipv6"), ("ipv6", "forwarding"), ("ipv6", "addr_gen_mode")}
    | {("ipv6", "accept_ra"), ("ipv6", "dad_transmits"), ("ipv6", "router_solicitations")}
    | {("ipv6", "autoconf"), ("ipv6", "accept_ra_pinfo"), ("ipv6", "ra_defrtr_metric")}
    | {("ipv6", f"router_solicitation_{key}") for key in ("delay", "interval", "max_interval")}
)

STABLE_PRIVACY: Final = Sysctl("ipv6", "addr_gen_mode", "2")  # IN6_ADDR_GEN_MODE_STABLE_PRIVACY
MAX_U32: Final = (1 << 32) - 1
VALUE_LEN: Final = 64  # bytes; a number or an IPv6 address


def check_root(proc_root: Path) -> None:
    """Check that the procfs, or at least its sys/net, is there.

    Without it sysctls that a move resets could not be read, and would not be restored.

    Raises:
        InvalidValueError: the directory does not exist.
    """
    directory = Path(_path(str(proc_root), "default", "ipv4", "forwarding")).parent
    if not directory.is_dir():
        raise InvalidValueError(
            f"--proc {proc_root}: is no procfs: {directory} is not there; mount the host's "
            f"/proc/sys/net at {proc_root}/sys/net"
        )


class SysctlDefaults:
    """Default sysctls of a namespace: the values to which a move resets a link.

    Files stay open, because opening one takes twenty times as long as reading it, and every attach
    reads all. Thread-safe.
    """

    def __init__(self, proc_root: str) -> None:
        """Prepare; proc_root as in NetlinkKernel."""
        self._proc_root = proc_root
        self._files: dict[str, _Files] = {}
        self._lock = threading.Lock()
        finalize(self, _close, self._files)

    def read(self, nsfd: int) -> Mapping[tuple[str, str], str]:
        """Return family and key → value of the namespace, which must be the same at every call.

        Keys that the kernel lacks are left out; so is IPv6 if it is disabled.

        Raises:
            KernelError: the namespace cannot be entered, or a value cannot be read.
        """
        if len(self._files) < len(RESET_BY_A_MOVE):
            self._store(run_inside(nsfd, self._open))
        with self._lock:
            files = tuple(self._files.items())
        return _by_key(tuple(chain.from_iterable(_values(*opened) for opened in files)))

    def _open(self) -> dict[str, "_Files"]:
        found: dict[str, _Files] = {}
        for family, keys in RESET_BY_A_MOVE.items():
            paths = {
                key: _path(self._proc_root, "default", family, key)
                for key in (*keys, *IN_NO_ARRAY[family])
            }
            if not Path(paths["locktime"]).exists():
                # Only the initial namespace has neigh/default, whose values links get in all
                # namespaces (neigh_parms_alloc). The loopback has them, unless it was changed.
                paths |= {key: _path(self._proc_root, "lo", family, key) for key in NEIGHBOUR_KEYS}
            is_on = Path(paths["forwarding"]).parent.is_dir()
            if family not in self._files and is_on:
                found[family] = _opened(paths)
        return found

    def _store(self, found: dict[str, "_Files"]) -> None:
        """Store the opened files, except those that another thread has stored."""
        with self._lock:
            for family in RESET_BY_A_MOVE:
                if family in found and family not in self._files:
                    self._files[family] = found.pop(family)
        _close(found)


_Files = tuple[tuple[str, int], ...]  # key and descriptor of each


def _values(family: str, opened: _Files) -> list[tuple[str, str, bytes]]:
    """Return family, keys and content of open files.

    Raises:
        KernelError: one cannot be read.
    """
    found: list[tuple[str, str, bytes]] = []
    try:
        for key, fd in opened:
            found.append((family, key, os.pread(fd, VALUE_LEN, 0)))
    except OSError as error:
        what = f"read the default of {family} {opened[len(found)][0]}"
        raise KernelError(what, error.errno or EINVAL) from error
    return found


@lru_cache(maxsize=1)  # a host seldom changes its defaults
def _by_key(values: tuple[tuple[str, str, bytes], ...]) -> Mapping[tuple[str, str], str]:
    """Return family and key → value."""
    found = {(family, key): value.decode().strip() for family, key, value in values}
    return MappingProxyType(found)


def _close(files: dict[str, _Files]) -> None:
    for _, fd in chain.from_iterable(files.values()):
        os.close(fd)


def _opened(paths: Mapping[str, str]) -> _Files:
    """Return keys and open descriptors of the paths; none stays open after an error.

    Raises:
        KernelError: an existing file cannot be opened.
    """
    opened: list[tuple[str, int]] = []
    try:
        for key, path in paths.items():
            with suppress(FileNotFoundError):  # the kernel lacks it
                opened.append((key, os.open(path, os.O_RDONLY | os.O_CLOEXEC)))
    except OSError as error:
        for _, fd in opened:
            os.close(fd)
        raise KernelError(f"read {error.filename}", error.errno or EINVAL) from error
    return tuple(opened)


def reset_by_move(af_spec: bytes) -> tuple[Sysctl, ...]:
    """Return the sysctls that a move resets, from the link's IFLA_AF_SPEC, in table order.

    A missing family is left out. A key that the kernel lacks may be returned as 0.
    """
    families = attributes(af_spec)
    found: list[Sysctl] = []
    for label, (family, array) in ARRAYS.items():
        found += _in_array(label, attributes(families.get(family, b"")).get(array, b""))
    return tuple(found)


@lru_cache(maxsize=64)  # most links have the same values
def _in_array(label: str, data: bytes) -> tuple[Sysctl, ...]:
    values = struct.unpack_from(f"={len(data) // 4}i", data)
    return tuple(
        Sysctl(label, key, _as_in_file(key, values[number]))
        for key, number in RESET_BY_A_MOVE[label].items()
        if number < len(values)
    )


def _as_in_file(key: str, value: int) -> str:
    if key in _IN_SECONDS:
        return str(value // 1000)
    return str(value & MAX_U32 if key in _UNSIGNED else value)


def has_stable_privacy(sysctls: Iterable[Sysctl]) -> bool:
    """Return whether a link derives its addresses from stable_secret."""
    return any(entry.key == "addr_gen_mode" and entry == STABLE_PRIVACY for entry in sysctls)


def in_no_array(compared: Iterable[Sysctl] | None, *, secret: bool) -> tuple[tuple[str, str], ...]:
    """Return family and key of the sysctls that a move resets and IFLA_AF_SPEC lacks.

    Args:
        compared: sysctls to which they are limited, None for no limit.
        secret: include stable_secret, first: addr_gen_mode 2 requires it, and writing it sets that
            mode (net/ipv6/addrconf.c).
    """
    keys = _SECRET_AND_OTHERS if secret else _SECRET_AND_OTHERS[1:]
    if compared is None:
        return keys
    limit = {(sysctl.family, sysctl.key) for sysctl in compared}
    return tuple(key for key in keys if key in limit)


def read_from_files(
    proc_root: str, name: str, keys: Iterable[tuple[str, str]]
) -> tuple[Sysctl, ...]:
    """Return the sysctls with these families and keys; absent files are left out.

    Args:
        proc_root: as in NetlinkKernel.
        name: name of the link.
        keys: see in_no_array.
    """
    # A failed lookup in procfs frees its dentry by RCU, for which a move waits (rcu_barrier in
    # __dev_change_net_namespace, net/core/dev.c), so files of an absent family are not opened.
    with os.scandir(f"{proc_root}/sys/net") as directories:
        families = {directory.name for directory in directories}
    found: list[Sysctl] = []
    for family, key in (entry for entry in keys if entry[0] in families):
        try:
            found.append(Sysctl(family, key, _read(_path(proc_root, name, family, key))))
        except OSError:  # the kernel lacks it, or EIO: no secret is set
            continue
    return tuple(found)


def _read(path: str) -> str:
    """Return the value in a file.

    Three system calls and no buffer: every attach reads some 30 files.

    Raises:
        OSError: it cannot be read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, VALUE_LEN).decode().strip()
    finally:
        os.close(fd)


def set_by_claims(sysctls: Iterable[Sysctl]) -> tuple[Sysctl, ...]:
    """Return the sysctls that a claim can set."""
    return tuple(sysctl for sysctl in sysctls if (sysctl.family, sysctl.key) in SET_BY_CLAIMS)


def write_value(proc_root: str, what: str, name: str, sysctl: Sysctl) -> None:
    """Write one sysctl of the link of that name.

    Raises:
        KernelError: the file does not exist or cannot be written; the text has the remedy.
    """
    parts = (name, sysctl.family, sysctl.key)
    if any(part in {"", ".", ".."} or "/" in part for part in parts):
        raise KernelError(what, EINVAL, "not the name of a sysctl")
    try:
        Path(_path(proc_root, name, sysctl.family, sysctl.key)).write_text(sysctl.value)
    except FileNotFoundError as error:
        raise KernelError(
            what,
            error.errno or EINVAL,
            "the link or the sysctl is not there; IPv6 ones need a kernel with IPv6 on",
        ) from error
    except OSError as error:
        hint = ""
        if error.errno == EROFS:
            hint = "/proc/sys is read-only; mount the host's /proc/sys/net elsewhere, see --proc"
        raise KernelError(what, error.errno or EINVAL, hint) from error


def _path(proc_root: str, name: str, family: str, key: str) -> str:
    table = "neigh" if key in NEIGHBOUR_KEYS else "conf"
    return f"{proc_root}/sys/net/{family}/{table}/{name}/{key}"
