"""Parsers of what the measuring programs print."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LOSS: Final = re.compile(r"([\d.]+)% packet loss")
DEV: Final = re.compile(r"\bdev (\S+)")
VIA: Final = re.compile(r"\bvia (\S+)")
LLADDR: Final = re.compile(r"\blladdr (\S+)")
FULL_MEMBER: Final = 0x8000
COLLECTIVES_RESULT: Final = re.compile(r"^COLLECTIVES_RESULT (\{.*\})$", re.MULTILINE)
COLLECTIVE_KEYS: Final = {"all-gather": "all_gather_gb_s", "all-reduce": "all_reduce_gb_s"}
CAP_IPC_LOCK: Final = 14  # linux/capability.h


@dataclass(frozen=True, slots=True)
class LinkOutput:
    """An interface in a pod. `speed_gbit` is 0 where the kernel does not know it."""

    up: bool
    mtu: int
    mac: str
    speed_gbit: float


@dataclass(frozen=True, slots=True)
class RdmaPortOutput:
    """Port 1 of an RDMA device. GIDs are by index, with their type; zero GIDs are left out."""

    active: bool
    rate_gbit: float
    gids: Mapping[int, tuple[str, str]]
    pkeys: frozenset[int]


@dataclass(slots=True)
class PodFacts:
    """What a pod sees: its interfaces, RDMA devices, and limit of locked memory in MiB.

    It is complete only if the script came to its end. `missing` are measuring programs that the
    image does not have.
    """

    links: dict[str, LinkOutput] = field(default_factory=dict)
    ports: dict[str, RdmaPortOutput] = field(default_factory=dict)
    memlock_mib: float = 0.0
    missing: set[str] = field(default_factory=set)
    complete: bool = False


# Prints a line for each fact, which `parse_facts` reads. The shell itself reads small files: on a
# busy node, a process for each takes longer than the measurements.
FACTS_SCRIPT: Final = r"""
value() { # FILE DEFAULT
    value=
    { read -r value <"$1"; } 2>/dev/null
    value=${value:-$2}
}
for program in ip ping iperf3 rping stdbuf ib_write_bw ib_read_lat; do
    command -v "$program" >/dev/null || echo "missing $program"
done
echo "memlock $(ulimit -l)"
while read -r key value; do
    [ "$key" != CapEff: ] || echo "capabilities $value"
done </proc/self/status
for path in /sys/class/net/*; do
    [ -e "$path/ifindex" ] || continue
    line="link ${path##*/}"
    value "$path/carrier" 0
    line="$line $value"
    value "$path/mtu" 0
    line="$line $value"
    value "$path/address" -
    line="$line $value"
    value "$path/speed" -1
    echo "$line $value"
done
for path in /sys/class/infiniband/*; do
    [ -e "$path/ports/1/state" ] || continue
    name=${path##*/} port=$path/ports/1
    value "$port/state" "- DOWN"
    state=$value
    value "$port/rate" 0
    echo "rdma $name $state $value"
    # There are hundreds of empty entries: one process reads them all.
    grep -Hv '^[0:]*$' "$port"/gids/* 2>/dev/null | while IFS=: read -r path gid; do
        index=${path##*/}
        value "$port/gid_attrs/types/$index" ""
        echo "gid $name $index $gid $value"
    done
    sort -u "$port"/pkeys/* 2>/dev/null | while read -r pkey; do echo "pkey $name $pkey"; done
done
echo end
"""


def parse_facts(text: str) -> PodFacts:
    """Return what FACTS_SCRIPT printed; lines that are not its own are ignored."""
    facts = PodFacts()
    gids: dict[str, dict[int, tuple[str, str]]] = {}
    pkeys: dict[str, set[int]] = {}
    states: dict[str, tuple[bool, float]] = {}
    for line in text.splitlines():
        match line.split():
            case ["memlock", amount]:
                facts.memlock_mib = float("inf") if amount == "unlimited" else int(amount) / 1024
            case ["capabilities", mask] if int(mask, 16) >> CAP_IPC_LOCK & 1:
                facts.memlock_mib = float("inf")  # the kernel then ignores the limit
            case ["missing", program]:
                facts.missing.add(program)
            case ["end"]:
                facts.complete = True
            case ["link", name, carrier, mtu, mac, speed]:
                speed_gbit = max(int(speed), 0) / 1000
                facts.links[name] = LinkOutput(carrier == "1", int(mtu), mac, speed_gbit)
            case ["rdma", name, _, state, rate, *_]:
                states[name] = (state == "ACTIVE", float(rate))
            case ["gid", name, index, gid, *kind] if gid.strip("0:"):
                gids.setdefault(name, {})[int(index)] = (gid, " ".join(kind))
            case ["pkey", name, pkey] if int(pkey, 16):
                pkeys.setdefault(name, set()).add(int(pkey, 16))
            case _:
                pass
    for name, (active, rate_gbit) in states.items():
        port = RdmaPortOutput(active, rate_gbit, gids.get(name, {}), frozenset(pkeys.get(name, ())))
        facts.ports[name] = port
    return facts


def usable_gid(port: RdmaPortOutput, address: str) -> int | None:
    """Return the index of the GID to use: RoCE v2 of the address, else the first; None without one.

    Args:
        port: of the RDMA device.
        address: of its NIC, IPv4 or IPv6; may be empty.
    """
    mapped = _mapped(address)
    for index, (gid, kind) in sorted(port.gids.items()):
        if kind == "RoCE v2" and gid == mapped:
            return index
    others = [
        index
        for index, (gid, kind) in sorted(port.gids.items())
        if not kind.startswith("RoCE") or (kind == "RoCE v2" and not mapped)
    ]
    return others[0] if others else None


def _mapped(address: str) -> str:
    """Return an IPv4 address as the kernel prints its GID; empty for anything else."""
    parts = address.split(".")
    if len(parts) != 4:
        return ""
    first, second, third, fourth = map(int, parts)
    return f"0000:0000:0000:0000:0000:ffff:{first:02x}{second:02x}:{third:02x}{fourth:02x}"


def share_partition(one: frozenset[int], other: frozenset[int]) -> bool:
    """Whether two ports share a partition in which one of them is a full member."""
    return any(
        mine & ~FULL_MEMBER == theirs & ~FULL_MEMBER and (mine | theirs) & FULL_MEMBER
        for mine in one
        for theirs in other
    )


def parse_loss(text: str) -> float | None:
    """Return the percentage that `ping -q` lost; None if it did not say."""
    found = LOSS.search(text)
    return float(found[1]) if found else None


def parse_route_device(text: str) -> str:
    """Return the interface that `ip route get` shows; empty if none."""
    found = DEV.search(text)
    return found[1] if found else ""


def parse_gateway(text: str) -> str:
    """Return the next hop that `ip route get` shows; empty on a link of its own."""
    found = VIA.search(text)
    return found[1] if found else ""


def parse_neighbour(text: str) -> str:
    """Return the link-layer address that `ip neigh show` has; empty while there is none."""
    found = LLADDR.search(text)
    return found[1].lower() if found else ""


def parse_iperf3(text: str) -> float | None:
    """Return the Gbit/s received by an `iperf3 --json` run; None if it measured none."""
    try:
        end = json.loads(text)["end"]
        return float(end["sum_received"]["bits_per_second"]) / 1e9
    except (ValueError, KeyError, TypeError):
        return None


def counted_seconds(duration: int) -> int:
    """Return the seconds in which perftest counts with `-D`: all but a quarter at each end."""
    return duration - 2 * (duration // 4)


def parse_write(text: str, seconds: int) -> float | None:
    """Return the average Gbit/s of `ib_write_bw --report_gbits -D`; None if it has none.

    perftest computes rates by the CPU's clock. Where it does not know that, as in a VM, it prints
    0, and the rate is that of the messages that it counted.

    Args:
        text: its output.
        seconds: in which it counted.
    """
    rows = [row for row in map(str.split, text.splitlines()) if _numeric(row, 4)]
    if not rows:
        return None
    size, messages, _, average = map(float, rows[-1][:4])
    return average or size * messages * 8 / seconds / 1e9


def parse_latency(text: str) -> float | None:
    """Return the typical µs of `ib_read_lat -n`, the 5th column; None if it does not know them."""
    rows = [row for row in map(str.split, text.splitlines()) if _numeric(row, 5)]
    return float(rows[-1][4]) if rows else None


def parse_counted_latency(text: str, seconds: int) -> float | None:
    """Return the average µs of `ib_read_lat -D` by the reads that it counted; None without any."""
    rows = [row for row in map(str.split, text.splitlines()) if _numeric(row, 2)]
    reads = int(rows[-1][1]) if rows else 0
    return seconds * 1e6 / reads if reads else None


def parse_collectives(text: str) -> tuple[str, dict[str, float]] | None:
    """Return backend, and GB/s of each operation, as `collectives.py` printed them.

    None if the program did not come to its end.
    """
    found = COLLECTIVES_RESULT.search(text)
    if found is None:
        return None
    figures = json.loads(found[1])
    rates = {name: float(figures[key]) for name, key in COLLECTIVE_KEYS.items()}
    return str(figures["backend"]), rates


def _numeric(row: list[str], least: int) -> bool:
    return len(row) >= least and all(re.fullmatch(r"[\d.]+", cell) for cell in row[:least])
