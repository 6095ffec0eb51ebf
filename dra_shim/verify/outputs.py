"""Parsers of the outputs of the measuring programs."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address
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
    """An interface in a pod; speed_gbit is 0 if it is unknown."""

    up: bool
    mtu: int
    mac: str
    speed_gbit: float


@dataclass(frozen=True, slots=True)
class RdmaPortOutput:
    """Port 1 of an RDMA device; gids is index → (GID, type) without zero GIDs."""

    active: bool
    rate_gbit: float
    gids: Mapping[int, tuple[str, str]]
    pkeys: frozenset[int]


@dataclass(slots=True)
class PodFacts:
    """Facts of a pod: its interfaces, RDMA devices, and limit of locked memory in MiB.

    Attributes:
        missing: measuring programs that the image does not have.
        complete: whether the script reached its end.
    """

    links: dict[str, LinkOutput] = field(default_factory=dict)
    ports: dict[str, RdmaPortOutput] = field(default_factory=dict)
    memlock_mib: float = 0.0
    missing: set[str] = field(default_factory=set)
    complete: bool = False


# Prints a line for each fact, for `parse_facts`. The shell itself reads small files: on a busy
# node, a process per file would take longer than the measurements.
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
    # One process reads all entries, of which hundreds are empty.
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
    """Return the facts in the output of FACTS_SCRIPT; other lines are ignored."""
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
        port: port of the RDMA device.
        address: address of its NIC, IPv4 or IPv6, "" for none.
    """
    own = _gid_of(address)
    for index, (gid, kind) in sorted(port.gids.items()):
        if kind == "RoCE v2" and gid == own:
            return index
    others = [
        index
        for index, (gid, kind) in sorted(port.gids.items())
        if not kind.startswith("RoCE") or (kind == "RoCE v2" and "." not in address)
    ]
    return others[0] if others else None


def _gid_of(address: str) -> str:
    """Return the GID of an address as the kernel prints it; "" for no address."""
    if not address:
        return ""
    # Python 3.13 has dotted decimals in `exploded` of these IPv4 addresses.
    digits = IPv6Address(f"::ffff:{address}" if "." in address else address).packed.hex()
    return ":".join(digits[place : place + 4] for place in range(0, 32, 4))


def share_partition(own_keys: frozenset[int], peer_keys: frozenset[int]) -> bool:
    """Return whether two ports share a partition in which one of them is a full member."""
    return any(
        own & ~FULL_MEMBER == peer & ~FULL_MEMBER and (own | peer) & FULL_MEMBER
        for own in own_keys
        for peer in peer_keys
    )


def parse_loss(text: str) -> float | None:
    """Return the percentage of packets that `ping -q` lost; None if the output has none."""
    found = LOSS.search(text)
    return float(found[1]) if found else None


def parse_route_device(text: str) -> str:
    """Return the interface that `ip route get` shows; empty if none."""
    found = DEV.search(text)
    return found[1] if found else ""


def parse_gateway(text: str) -> str:
    """Return the next hop that `ip route get` shows; "" for a destination on the link."""
    found = VIA.search(text)
    return found[1] if found else ""


def parse_neighbour(text: str) -> str:
    """Return the link-layer address that `ip neigh show` prints; "" if there is none."""
    found = LLADDR.search(text)
    return found[1].lower() if found else ""


def parse_iperf3(text: str) -> float | None:
    """Return the Gbit/s that `iperf3 --json` received; None without a measurement."""
    try:
        end = json.loads(text)["end"]
        return float(end["sum_received"]["bits_per_second"]) / 1e9
    except (ValueError, KeyError, TypeError):
        return None


def counted_seconds(duration: int) -> int:
    """Return the seconds in which perftest counts with `-D`: all but a quarter at each end."""
    return duration - 2 * (duration // 4)


def parse_write(text: str, seconds: int) -> float | None:
    """Return the average Gbit/s of `ib_write_bw --report_gbits -D`; None without a result.

    perftest computes rates by the CPU's clock frequency. If that is unknown, as in a VM, it prints
    0, and the rate follows from the number of messages.

    Args:
        text: its output.
        seconds: duration in which it counted messages.
    """
    rows = [row for row in map(str.split, text.splitlines()) if _numeric(row, 4)]
    if not rows:
        return None
    size, messages, _, average = map(float, rows[-1][:4])
    return average or size * messages * 8 / seconds / 1e9


def parse_latency(text: str) -> float | None:
    """Return the typical µs of `ib_read_lat -n`, the 5th column; None without a result."""
    rows = [row for row in map(str.split, text.splitlines()) if _numeric(row, 5)]
    return float(rows[-1][4]) if rows else None


def parse_counted_latency(text: str, seconds: int) -> float | None:
    """Return the average µs of `ib_read_lat -D` by its number of reads; None without reads."""
    rows = [row for row in map(str.split, text.splitlines()) if _numeric(row, 2)]
    reads = int(rows[-1][1]) if rows else 0
    return seconds * 1e6 / reads if reads else None


def parse_collectives(text: str) -> tuple[str, dict[str, float]] | None:
    """Return backend, and GB/s of each operation, as `collectives.py` printed them.

    None if the program did not reach its end.
    """
    found = COLLECTIVES_RESULT.search(text)
    if found is None:
        return None
    figures = json.loads(found[1])
    rates = {name: float(figures[key]) for name, key in COLLECTIVE_KEYS.items()}
    return str(figures["backend"]), rates


def _numeric(row: list[str], least: int) -> bool:
    return len(row) >= least and all(re.fullmatch(r"[\d.]+", cell) for cell in row[:least])
