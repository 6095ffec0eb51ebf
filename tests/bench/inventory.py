"""Benchmark of discovery on a node with 512 VFs: a full scan, and a scan after one link change."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from struct import pack
from typing import Final

from dra_shim.checkpoint.cache import RecordedDevices
from dra_shim.discovery import DeviceSelection
from dra_shim.discovery.snapshot import snapshot_of
from dranet_nri.facts.links import RTM_GETQDISC, RTM_GETTFILTER
from dranet_nri.facts.netlink_events import NetEvent, NetEventKind
from dranet_nri.facts.scan import Scanner
from dranet_nri.inventory import HostFacts, Memo, NetDevice
from dranet_nri.kernel.netns import run_inside
from dranet_nri.linux.netlink.addresses import RTM_GETADDR
from dranet_nri.linux.netlink.links import RTM_GETLINK, index_of
from dranet_nri.linux.netlink.routes import RTM_GETROUTE
from dranet_nri.linux.netlink.rtnetlink import open_here
from tests.bench.table import Row, ms, print_now
from tests.fakes.sysfs import FakeSysfs
from tests.system.kernel.namespaces import open_netns

PFS: Final = 8
VFS: Final = 64  # of each
WHOLE_BUDGET_S: Final = 0.150
AGAIN_BUDGET_S: Final = 0.005
OFFER_BUDGET_S: Final = 0.010
TRIES: Final = 15  # the best counts: others only take time away

_OF_FUNCTION: Final = ("modalias", "numa_node")
_LINKS_OF_FUNCTION: Final = ("driver", "physfn", ".")
_OF_NET: Final = ("address", "dev_port", "speed")
_LINKS_OF_NET: Final = ("device/subsystem", "device")


@dataclass(frozen=True, slots=True)
class Node:
    """A made-up sysfs of NICs, and links of their names and addresses in a private namespace."""

    root: Path
    addresses: tuple[str, ...]
    names: tuple[str, ...]


def make_node(root: Path, wires: int) -> Node:
    """Make the tree, and the links in the calling thread's namespace.

    Args:
        root: an empty directory.
        wires: descriptor of the namespace for the other ends.
    """
    host = FakeSysfs(root, numa_nodes=2)
    addresses: list[str] = []
    names: list[str] = []
    for pf in range(PFS):
        bus = 0x10 * (pf + 1)
        physical = f"0000:{bus:02x}:00.0"
        where = {"root": f"pci0000:{bus - 1:02x}", "numa": pf % 2, "driver": "mlx5_core"}
        host.pci(physical, ids="15b3:101d:0040", vf_limit=VFS, vf_count=VFS, **where)  # type: ignore[arg-type]
        addresses.append(physical)
        names.append(f"pf{pf}")
        for vf in range(VFS):
            address = f"0000:{bus:02x}:{1 + vf // 8:02x}.{vf % 8}"
            host.pci(address, ids="15b3:101e:0040", physical=physical, **where)  # type: ignore[arg-type]
            addresses.append(address)
            names.append(f"pf{pf}v{vf}")
    macs = [f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}" for number in range(len(names))]
    for name, address, mac in zip(names, addresses, macs, strict=True):
        host.net(name, ("pci", address), mac=mac, speed=100_000)
    far = f"/proc/{os.getpid()}/fd/{wires}"
    lines = [
        line
        for number, (name, mac) in enumerate(zip(names, macs, strict=True))
        for line in (
            f"link add name {name} address {mac} type veth peer name w{number} netns {far}",
            f"link set dev {name} up",
            f"addr add 10.{number >> 8}.{number & 255}.5/24 dev {name}",
        )
    ]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)
    return Node(root, tuple(addresses), tuple(names))


def best(work: Callable[[], object]) -> float:
    """Return the seconds of this thread's CPU, the kernel's included, of the best of some tries."""
    taken = []
    for _ in range(TRIES):
        begin = time.thread_time()
        work()
        taken.append(time.thread_time() - begin)
    return min(taken)


def dump_everything(node: Node) -> None:
    """Ask the kernel what a whole scan asks, and decode nothing."""
    with closing(open_here()) as netlink:
        netlink.dump("links", RTM_GETLINK, pack("=BxHiII", 0, 0, 0, 0, 0))
        netlink.dump("addresses", RTM_GETADDR, pack("=BBBBI", 0, 0, 0, 0, 0))
        netlink.dump("qdiscs", RTM_GETQDISC, pack("=BxHiIII", 0, 0, 0, 0, 0, 0))
        netlink.dump("routes", RTM_GETROUTE, pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 0, 0, 1, 0))
    for address in node.addresses:
        _read(node.root / "bus/pci/devices" / address, _OF_FUNCTION, _LINKS_OF_FUNCTION)
    for name in node.names:
        _read(node.root / "class/net" / name, _OF_NET, _LINKS_OF_NET)


def dump_link(index: int) -> None:
    """Ask the kernel what the scan after a change of one link asks, and decode nothing."""
    with closing(open_here()) as netlink:
        netlink.get("a link", RTM_GETLINK, pack("=BxHiII", 0, 0, index, 0, 0))
        netlink.dump("addresses", RTM_GETADDR, pack("=BBBBI", 0, 0, 0, 0, index))
        for side in (0xFFFFFFF2, 0xFFFFFFF3):
            netlink.dump("filters", RTM_GETTFILTER, pack("=BxHiIII", 0, 0, index, 0, side, 0))


def _read(directory: Path, files: Sequence[str], links: Sequence[str]) -> None:
    """Read files and symbolic links below one open directory; what is missing is passed over."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in files:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        os.read(file, 4096)
        os.close(file)
    for name in links:
        try:
            os.readlink(name, dir_fd=folder)
        except OSError:
            continue
    os.close(folder)


def scan_row(what: str, taken: float, least: float, budget: float) -> Row:
    """Return the row of a scan that took so many seconds; asking the kernel alone, the least."""
    return Row(
        f"scan of {PFS * VFS} VFs, {what}",
        ms(taken),
        f"{ms(least)} asking alone",
        taken / least,
        f"≤ {ms(budget)}",
        taken <= budget,
    )


def measure(rows: list[Row], notes: list[str], node: Node) -> None:
    """Measure scans, and what becomes of them."""
    scanner = Scanner(node.root)
    facts = scanner.scan(whole=True)
    with closing(open_here()) as netlink:
        index = index_of(netlink, "find a link", node.names[-1])

    def again() -> HostFacts:
        scanner.invalidate([NetEvent(NetEventKind.LINK, index)])
        return scanner.scan(whole=False)

    found = len(snapshot_of("box", facts, RecordedDevices(), DeviceSelection(filter="")).devices)
    assert found == len(node.names), f"{found} devices of {len(node.names)} are offered"
    assert again() == facts
    for what, scan, floor, budget in (
        (
            "everything",
            lambda: scanner.scan(whole=True),
            lambda: dump_everything(node),
            WHOLE_BUDGET_S,
        ),
        ("after one link changed", again, lambda: dump_link(index), AGAIN_BUDGET_S),
    ):
        rows.append(scan_row(what, best(scan), best(floor), budget))
    print_now("inventory: from facts to what is offered")
    memo, flips = Memo(), cycle((replace(facts, netdevs=_with_mtu(facts, 9000)), facts))
    anew = best(lambda: snapshot_of("box", facts, RecordedDevices(), DeviceSelection()))
    one_changed = best(
        lambda: snapshot_of("box", next(flips), RecordedDevices(), DeviceSelection(), memo=memo)
    )
    rows.append(Row("what is offered, from a scan", ms(anew)))
    rows.append(
        Row(
            "what is offered, after one link changed",
            ms(one_changed),
            f"{ms(anew)} anew",
            one_changed / anew,
            f"≤ {ms(OFFER_BUDGET_S)}",
            one_changed <= OFFER_BUDGET_S,
        )
    )
    notes.append(
        f"scan: CPU time of the best of {TRIES}; sysfs is a made-up tree of files, links are veths"
        " named like its NICs; the baseline asks the kernel the same and decodes no answer"
    )


def _with_mtu(facts: HostFacts, mtu: int) -> tuple[NetDevice, ...]:
    """Return the net devices, the last one with another MTU."""
    *others, last = facts.netdevs
    return (*others, replace(last, link=replace(last.link, mtu=mtu)))


def run(rows: list[Row], notes: list[str]) -> None:
    """Measure on a node of its own."""
    print_now(f"inventory: making {PFS * VFS} VFs")
    with open_netns() as nsfd, open_netns() as wires, tempfile.TemporaryDirectory() as root:

        def inside() -> None:
            measure(rows, notes, make_node(Path(root), wires))

        run_inside(nsfd, inside)
