"""Attacks of a pod with NET_ADMIN on its network namespace and on its NIC.

Rules:
1. Every command must succeed, or the attack proves nothing. A flood that meets a limit of the
   kernel names the limit in its size.
2. An attack keeps to the pod's namespace and to namespaces that the pod made.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Final

from dranet_nri.kernel.netns import run_inside
from dranet_nri.model import XdpMode
from tests.system.kernel import bpf, xdp

_ADDRESSES: Final = 1000  # of each of 100 links: what adding one takes grows with those of its link
_ALTNAMES: Final = (
    490  # of 127 bytes; Linux lets a link have some 496, those from the host included
)
_IMPOSTOR: Final = "dra9"  # such a name has a NIC that waits for its own on the host
_NO_UTF8: Final = b"\xff\xfe\x80\xc3"


class End(StrEnum):
    """What becomes of the NIC once the pod has ended."""

    RESTORED = "restored"  # it is on the host as it was
    LOST = "lost"  # the pod deleted it, and that is reported
    NESTED = "away"  # in a namespace that the pod made: hardware returns when that one ends


@dataclass(frozen=True, slots=True)
class Hostile:
    """A pod that attacks.

    Attributes:
        netns: the name of its namespace.
        nested: that of a namespace that it made.
        nic: the name of its NIC, there and on the host.
        other: the name of another NIC of the host.
        mac: of its NIC.
        index: of its NIC, in the pod.
    """

    netns: str
    nested: str
    nic: str
    other: str
    mac: str
    index: int

    def run(self, *arguments: str | bytes, stdin: bytes | None = None) -> None:
        """Run a program in the pod's namespace.

        Raises:
            CalledProcessError: it failed; its standard error is in the notes.
        """
        done = subprocess.run(
            ("nsenter", f"--net=/run/netns/{self.netns}", *arguments),
            input=stdin, capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            error = subprocess.CalledProcessError(done.returncode, arguments)
            error.add_note(done.stderr.decode(errors="replace")[-2000:])
            raise error

    def ip(self, lines: Iterable[str | bytes]) -> None:
        """Run commands of iproute2 in the pod's namespace, in one process."""
        data = b"\n".join(line.encode() if isinstance(line, str) else line for line in lines)
        self.run("ip", "-batch", "-", stdin=data + b"\n")

    def inside(self, act: Callable[[], object]) -> None:
        """Run a function in the pod's namespace."""
        fd = os.open(Path("/run/netns", self.netns), os.O_RDONLY)
        try:
            run_inside(fd, act)
        finally:
            os.close(fd)


@dataclass(frozen=True, slots=True)
class Attack:
    """One thing that a pod does.

    Attributes:
        name: in the table.
        do: does it.
        end: what becomes of the NIC.
        virtual: only a virtual NIC can meet it.
    """

    name: str
    do: Callable[[Hostile], None]
    end: End = End.RESTORED
    virtual: bool = False


def _ip(*lines: str) -> Callable[[Hostile], None]:
    """Return an attack by commands of iproute2 that have the fields of Hostile in braces."""

    def do(pod: Hostile) -> None:
        fields = {name: getattr(pod, name) for name in Hostile.__slots__}
        pod.ip(line.format(**fields) for line in lines)

    return do


def _many(count: int, line: str) -> Callable[[Hostile], None]:
    """Return an attack by one command count times, with n and its two bytes high and low."""

    def do(pod: Hostile) -> None:
        pod.ip(
            line.format(n=n, high=n >> 8, low=n & 0xFF, nic=pod.nic, far="x" * 123)
            for n in range(count)
        )

    return do


def _addresses(pod: Hostile) -> None:
    links = [f"d{n}" for n in range(99)]
    pod.ip(f"link add {link} type dummy" for link in links)
    pod.ip(
        f"addr add 11.{number}.{n >> 8}.{n & 0xFF}/32 dev {link}"
        for number, link in enumerate((pod.nic, *links))
        for n in range(_ADDRESSES)
    )


def _no_utf8(pod: Hostile) -> None:
    nic = pod.nic.encode()
    pod.ip(
        (
            b"link add " + _NO_UTF8 + b"b type bridge",
            b"link property add dev " + nic + b" altname " + _NO_UTF8 * 20,
            b"link set " + nic + b" alias " + _NO_UTF8 * 50,
            b"link set " + nic + b" down",
            b"link set " + nic + b" name " + _NO_UTF8,
        )
    )


def _rename_storm(pod: Hostile) -> None:
    names = [pod.nic, *(f"storm{n}" for n in range(500))]
    lines = (f"link set {old} name {new}" for old, new in pairwise(names))
    pod.ip((f"link set {pod.nic} down", *lines))


def _xdp(pod: Hostile) -> None:
    fd = os.open(Path("/run/netns", pod.netns), os.O_RDONLY)
    try:
        xdp.attach(fd, pod.nic, XdpMode.GENERIC)
    finally:
        os.close(fd)


def _tcx(pod: Hostile) -> None:
    def attach() -> None:
        for number in range(20):
            bpf.attach_tcx(pod.nic, f"evil{number}")

    pod.inside(attach)


def _filters(pod: Hostile) -> None:
    pod.run("tc", "qdisc", "add", "dev", pod.nic, "clsact")
    for side in ("ingress", "egress"):
        pod.run("tc", "filter", "add", "dev", pod.nic, side, "matchall", "action", "drop")
    pod.run("tc", "qdisc", "add", "dev", pod.nic, "root", "netem", "delay", "10s", "loss", "100%")


def _firewall(pod: Hostile) -> None:
    rules = (
        "add table inet evil",
        "add chain inet evil in { type filter hook input priority 0; policy drop; }",
        "add table netdev evil",
        f"add chain netdev evil in {{ type filter hook ingress device {pod.nic} priority 0;"
        " policy drop; }",
    )
    pod.run("nft", "; ".join(rules))


def _sysctls(pod: Hostile) -> None:
    """Change every sysctl of the NIC, of lo and of what is new in the namespace that it can."""
    paths = [
        path
        for link in ("all", "default", "lo", pod.nic)
        for pattern in (f"ipv4/conf/{link}/*", f"ipv6/conf/{link}/*", f"ipv4/neigh/{link}/*")
        for path in Path("/proc/sys/net").glob(pattern)
    ]

    def write() -> None:
        changed = 0
        for path in sorted(paths):
            try:
                path.write_text("1" if path.read_text().strip() == "0" else "0")
                changed += 1
            except OSError:
                continue  # not one of two values, or not to be written
        assert changed > 100, f"{changed} of {len(paths)} changed"

    pod.inside(write)


def _offloads(pod: Hostile) -> None:
    pod.run("ethtool", "-K", pod.nic, "gro", "off", "gso", "off", "tso", "off", "rx", "off")


_DOWN: Final = "link set {nic} down"
_AS_IT_WAS: Final = "link add name {nic} index {index} address {mac} type dummy"

ATTACKS: Final = (
    Attack(
        "altnames on the NIC", _many(_ALTNAMES, "link property add dev {nic} altname a{n:03d}{far}")
    ),
    Attack("altnames on lo", _many(_ALTNAMES, "link property add dev lo altname a{n:03d}{far}")),
    Attack(
        "altnames of the host's links",
        _ip(
            "link property add dev {nic} altname {other}",
            "link property add dev {nic} altname uplink",
        ),
    ),
    Attack("aliases", _ip("link set {nic} alias " + "x" * 255, "link set lo alias " + "y" * 255)),
    Attack("100,000 addresses", _addresses),
    Attack("10,000 routes", _many(10_000, "route add 11.{high}.{low}.0/24 dev {nic}")),
    Attack(
        "5,000 rules", _many(5_000, "rule add from 12.{high}.{low}.0/24 lookup 99 priority {n}")
    ),
    Attack(
        "5,000 neighbours",
        _many(
            5_000, "neigh add 10.99.{high}.{low} lladdr 02:00:00:00:bd:01 dev {nic} nud permanent"
        ),
    ),
    Attack("1,000 VLANs", _many(1_000, "link add link {nic} name v{n} type vlan id {n}")),
    Attack("1,000 links", _many(1_000, "link add d{n} type dummy")),
    Attack("names that are no UTF-8", _no_utf8),
    Attack("a rename storm", _rename_storm),
    Attack("the name of another NIC", _ip(_DOWN, "link set {nic} name {other}")),
    Attack("a name for NICs that wait", _ip(_DOWN, f"link set {{nic}} name {_IMPOSTOR}")),
    Attack(
        "a bond",
        _ip(_DOWN, "link add evil type bond", "link set {nic} master evil", "link set evil up"),
    ),
    Attack(
        "a team",
        _ip(_DOWN, "link add evil type team", "link set {nic} master evil", "link set evil up"),
    ),
    Attack(
        "a bridge",
        _ip("link add evil type bridge", "link set {nic} master evil", "link set evil up"),
    ),
    Attack(
        "a VRF",
        _ip("link add evil type vrf table 66", "link set evil up", "link set {nic} master evil"),
    ),
    Attack("macvlan links", _many(100, "link add link {nic} name m{n} type macvlan mode bridge")),
    Attack("ipvlan links", _many(100, "link add link {nic} name i{n} type ipvlan mode l2")),
    Attack(
        "a macvlan link in a nested namespace",
        _ip(
            "link add link {nic} name evil type macvlan",
            "link set evil netns {nested}",
        ),
    ),
    Attack(
        "a MACsec link",
        _ip("link add link {nic} name evil type macsec encrypt on", "link set evil up"),
    ),
    Attack(
        "tunnels",
        _ip(
            "link add evil type vxlan id 66 dev {nic} dstport 4789",
            "link set evil up",
            "link add evil6 type geneve id 66 remote 192.0.2.1",
            "link set evil6 up",
        ),
    ),
    Attack("an XDP program", _xdp),
    Attack("TCX programs", _tcx),
    Attack("tc filters and netem", _filters),
    Attack("nftables", _firewall),
    Attack("sysctls", _sysctls),
    Attack("offloads", _offloads),
    Attack("an MTU", _ip("link set {nic} mtu 68")),
    Attack("flags", _ip("link set {nic} promisc on allmulticast on arp off multicast off")),
    Attack("a group and a queue length", _ip("link set {nic} group 666 txqueuelen 1")),
    Attack("no link-local address", _ip("link set {nic} addrgenmode none", "addr flush dev {nic}")),
    Attack("a MAC", _ip(_DOWN, "link set {nic} address 02:00:00:ba:d0:01", "link set {nic} up")),
    Attack("link down", _ip(_DOWN)),
    Attack(
        "an impostor with the NIC's name",
        _ip(
            _DOWN,
            "link set {nic} name mine",
            "link add name {nic} type dummy",
        ),
    ),
    Attack(
        "an impostor with the NIC's MAC",
        _ip("link add evil address {mac} type dummy", "link set evil up"),
    ),
    Attack(
        "an impostor in a nested namespace",
        _ip(
            "link add name evil index {index} address {mac} netns {nested} type dummy",
        ),
    ),
    Attack(
        "nested namespaces",
        _ip(
            *(f"link add n{n} type veth peer name {{nic}}x{n} netns {{nested}}" for n in range(50))
        ),
    ),
    Attack("moved to a nested namespace", _ip("link set {nic} netns {nested}"), End.NESTED),
    Attack(
        "moved away, an impostor in its place",
        _ip(
            "link set {nic} netns {nested}",
            _AS_IT_WAS,
        ),
        End.NESTED,
    ),
    Attack("deleted", _ip("link del {nic}"), End.LOST, virtual=True),
    Attack(
        "deleted, an impostor in its place",
        _ip("link del {nic}", _AS_IT_WAS),
        End.LOST,
        virtual=True,
    ),
)


def attack(name: str) -> Attack:
    """Return the attack of that name."""
    return next(some for some in ATTACKS if some.name == name)
