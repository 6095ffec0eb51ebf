"""What the host and a pod look like, as far as a row asks."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from dranet_nri.kernel.ethtool import NETLINK_GENERIC, Ethtool
from dranet_nri.kernel.netns import run_inside, sockets_in
from tests.box import nics
from tests.prove import fabric

Facts = frozenset[str]

# Made by the kernel some time after the link is up.
_LINK_LOCAL: Final = ('"fe80', '"ff00', '"multicast', '"anycast')
_CONF: Final = Path("/proc/sys/net")
_SYSCTLS: Final = ("ipv[46]/conf/*/arp_*", "ipv[46]/conf/*/forwarding")


def host_state(netns: str = "") -> dict[str, object]:
    """Return what there is in a namespace, the host's if "", RDMA devices and features included."""
    return {
        **nics.host_state(netns),
        "rdma": fabric.shown_in(netns),
        "features": features(netns),
    }


def in_netns(netns: str) -> Facts:
    """Return what is configured in the namespace of that name, link-local matters aside."""
    state = host_state(netns)
    rows = {
        kind: [json.loads(row) for row in dumped if not _is_link_local(kind, row)]
        for kind, dumped in state.items()
        if isinstance(dumped, list)
    }
    facts = {
        *(_described(row, "ifname", "address", "mtu", "up", "altnames") for row in rows["link4"]),
        *_addresses((*rows["addr4"], *rows["addr6"])),
        *_sysctls(netns),
        *(json.dumps(row) for kind in ("rdma", "features") for row in rows[kind]),
    }
    for kind in ("route4", "route6", "rule4", "rule6", "neigh4", "neigh6"):
        facts |= {json.dumps(row, sort_keys=True) for row in rows[kind]}
    return frozenset(facts)


def features(netns: str = "") -> list[str]:
    """Return, of each link in the namespace of that name or in the host's, what is at work."""
    fd = os.open(f"/run/netns/{netns}" if netns else "/proc/self/ns/net", os.O_RDONLY)
    try:
        (generic,) = sockets_in(fd, NETLINK_GENERIC)
        with closing(Ethtool(generic)) as ethtool:
            seen = [
                (name, ethtool.state(f"look at {name}", index))
                for index, name in run_inside(fd, socket.if_nameindex)
            ]
        return sorted(json.dumps([name, *state.active]) for name, state in seen if state)
    finally:
        os.close(fd)


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


def _described(row: dict[str, object], *keys: str) -> str:
    return json.dumps({key: row.get(key) for key in keys})


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
