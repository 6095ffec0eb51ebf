"""Observed state of the host and of a pod, as far as a row compares it.

Sysctls come as the arrays that the kernel tells of a link, whole: what the program knows of them
decides nothing here.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.kernel.netns import run_inside, sockets_in
from dranet_nri.kernel.settings.ethtool import Ethtool
from dranet_nri.linux.bpf import programs_on
from dranet_nri.linux.netlink.codec import attributes
from dranet_nri.linux.netlink.generic import NETLINK_GENERIC
from dranet_nri.linux.netlink.links import IFLA_AF_SPEC, DumpedLink, dump_links
from dranet_nri.linux.netlink.rtnetlink import NETLINK_ROUTE, rtnetlink_socket
from dranet_nri.model import SettingGroup
from tests.box import nics
from tests.prove import rdma_functions

Facts = frozenset[str]

# Made by the kernel some time after the link is up.
_LINK_LOCAL: Final = ('"fe80', '"ff00', '"multicast', '"anycast')
_LINK_SCOPE: Final = "20"  # IPV6_ADDR_LINKLOCAL in hexadecimal, include/net/ipv6.h
_CONF: Final = Path("/proc/sys/net")
_CONFS: Final = {"ipv4": (socket.AF_INET, 1), "ipv6": (socket.AF_INET6, 2)}  # IFLA_INET*_CONF
_PASSING: Final = 0x40 | 0x10000  # IFF_RUNNING and IFF_LOWER_UP, which follow the wire
_OF_LINK: Final = ("ifname", "address", "mtu", "up", "altnames", "master", "linkinfo")
_SETTINGS: Final = (SettingGroup.RINGS, SettingGroup.CHANNELS, SettingGroup.COALESCE)
_SYSCTLS: Final = ("ipv[46]/conf/*/arp_*", "ipv[46]/conf/*/forwarding")


def host_state(netns: str = "") -> dict[str, object]:
    """Return what there is in a namespace, the host's if "".

    Beside what ip shows: RDMA devices, and of each link features, settings of the driver, flags,
    sysctls and TCX programs.
    """
    return {kind: rows for part in parts(netns) for kind, rows in part.items()}


def parts(netns: str = "") -> Iterator[dict[str, object]]:
    """Look at the namespace bit by bit, at what is cheap to see and comes late first.

    Whoever waits for a state needs no more than the first bit that is not as it should be. A link
    that goes up gets its link-local address within a second, and meanwhile nothing else changes.
    """
    if not netns:
        yield {"inet6": _late_addresses()}
    yield {"rdma": rdma_functions.shown_in(netns), **_dumped(netns)}
    yield nics.host_state(netns)


def in_netns(netns: str) -> Facts:
    """Return what is configured in the namespace of that name, link-local matters aside."""
    state = host_state(netns)
    rows = {
        kind: [json.loads(row) for row in dumped if not _is_link_local(kind, row)]
        for kind, dumped in state.items()
        if isinstance(dumped, list)
    }
    facts = {
        *map(_described, rows["link4"]),
        *_addresses((*rows["addr4"], *rows["addr6"])),
        *_sysctls(netns),
        *(json.dumps(row) for kind in ("rdma", "features") for row in rows[kind]),
    }
    for kind in ("route4", "route6", "rule4", "rule6", "neigh4", "neigh6"):
        facts |= {json.dumps(row, sort_keys=True) for row in rows[kind]}
    return frozenset(facts)


def _dumped(netns: str) -> dict[str, list[str]]:
    """Return what ip does not show of the links in the namespace of that name, or in the host's."""
    fd = os.open(f"/run/netns/{netns}" if netns else "/proc/self/ns/net", os.O_RDONLY)
    try:
        route, generic = sockets_in(fd, NETLINK_ROUTE, NETLINK_GENERIC)
        with closing(rtnetlink_socket(route)) as netlink, closing(Ethtool(generic)) as ethtool:
            links = dump_links(netlink, netns or "the host")
            features = sorted(row for link in links for row in _features(link, ethtool))
        return {
            "features": features,
            "flags": sorted(json.dumps([link.name, link.flags & ~_PASSING]) for link in links),
            "sysctls": [row for link in links for row in _confs(link)],
            "tcx": run_inside(fd, lambda: [row for link in links for row in _programs(link)]),
        }
    finally:
        os.close(fd)


def links_with_link_local() -> frozenset[str]:
    """Return the host's links that have an IPv6 link-local address."""
    return frozenset(row[-1] for row in _inet6_rows() if row[3] == _LINK_SCOPE)


def _inet6_rows() -> Iterator[list[str]]:
    """Yield local address, ifindex, length, scope, flags and link of the host's addresses."""
    return (line.split() for line in Path("/proc/net/if_inet6").read_text().splitlines())


def _late_addresses() -> list[str]:
    """Return the host's IPv6 addresses, each with its length, scope and link."""
    return sorted(
        json.dumps([local, length, scope, name])
        for local, _index, length, scope, _flags, name in _inet6_rows()
        if name != nics.RUNTIMES_BRIDGE
    )


def _features(link: DumpedLink, ethtool: Ethtool) -> Iterator[str]:
    with suppress(KernelError):  # the link is just leaving
        state = ethtool.state("look", link.index, _SETTINGS)
        if state:
            settings = (f"{setting.name}={setting.value}" for setting in state.settings)
            yield json.dumps([link.name, *state.active, *settings])


def _confs(link: DumpedLink) -> Iterator[str]:
    families = attributes(link.attrs.get(IFLA_AF_SPEC, b""))
    for label, (family, array) in _CONFS.items():
        data = attributes(families.get(family, b"")).get(array, b"")
        # One row for all of them: a row for each costs more than the rest of the comparison.
        yield json.dumps([link.name, label, struct.unpack(f"={len(data) // 4}i", data)])


def _programs(link: DumpedLink) -> Iterator[str]:
    with suppress(KernelError):  # the link is just leaving
        for program in programs_on(link.index):
            yield json.dumps([link.name, program.side, program.id])


def unrouted(netns: str) -> Facts:
    """Return the IPv6 addresses in the namespace that the kernel, in its own time, will route."""
    state = nics.host_state(netns)
    assert isinstance(state["addr6"], list)
    assert isinstance(state["route6"], list)
    routed = {json.loads(row)["dst"] for row in state["route6"]}
    given = (info for row in state["addr6"] for info in json.loads(row)["addr_info"])
    return frozenset({info["local"] for info in given if info["scope"] == "global"} - routed)


def of_link(facts: Facts, name: str) -> Facts:
    """Return the facts that are about the link of that name."""
    return frozenset(fact for fact in facts if f'"{name}"' in fact)


def links(netns: str = "") -> frozenset[str]:
    """Return the names of the links in the namespace of that name, or in the host's."""
    rows = nics.host_state(netns)["link4"]
    assert isinstance(rows, list)
    return frozenset(json.loads(row)["ifname"] for row in rows)


def exists(netns: str) -> bool:
    """Whether the namespace has its name."""
    return Path("/run/netns", netns).exists()


def own_namespace() -> int:
    """Return the inode of the network namespace we are in."""
    return Path("/proc/self/ns/net").stat().st_ino


def namespaces_of(pid: int) -> frozenset[int]:
    """Return the inodes of the network namespaces that the process has open."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue
        if target.startswith("net:["):
            found.add(int(target[5:-1]))
    return frozenset(found)


def _is_link_local(kind: str, row: str) -> bool:
    return kind == "route6" and any(word in row for word in _LINK_LOCAL)


def _described(row: dict[str, object]) -> str:
    shown = {key: row.get(key) for key in _OF_LINK}
    info = row.get("linkinfo")
    if isinstance(info, dict) and info.get("info_kind") == "vrf":
        del shown["address"]  # the kernel makes another one each time
    return json.dumps(shown)


def _addresses(rows: Iterable[dict[str, object]]) -> Iterator[str]:
    for row in rows:
        infos = row.get("addr_info", [])
        assert isinstance(infos, list)
        for info in infos:
            if info.get("scope") == "global":
                yield json.dumps([row["ifname"], info["local"], info["prefixlen"]])


def _sysctls(netns: str) -> tuple[str, ...]:
    fd = os.open(Path("/run/netns", netns), os.O_RDONLY)
    try:
        return run_inside(fd, _own_sysctls)
    finally:
        os.close(fd)


def _own_sysctls() -> tuple[str, ...]:
    """Return the sysctls of the namespace that this thread is in."""
    return tuple(_read(path) for pattern in _SYSCTLS for path in _CONF.glob(pattern))


def _read(path: Path) -> str:
    *_, family, _conf, name, key = path.parts
    try:
        value = path.read_text().strip()
    except OSError:  # the link is just leaving
        value = ""
    return json.dumps([name, family, key, value])
