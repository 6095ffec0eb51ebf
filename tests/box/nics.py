"""NICs of a test node, and their observed state on the host."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.box.waiting import wait_until

IGB: Final = Path("/sys/bus/pci/drivers/igb")
FIRST_RULE: Final = 2000  # priority of the first NIC's rule
IFF_UP: Final = 1  # linux/if.h
SWITCH: Final = "switch"  # the namespace at the other end of the wires
RUNTIMES_BRIDGE: Final = "cni0"  # its ports and timers follow every pod
# What changes by itself or tells nothing about restoration.
_TRANSIENT: Final = frozenset(
    {
        "ifindex",
        "operstate",
        "link_index",
        "link_netnsid",
        "valid_life_time",
        "preferred_life_time",
        "flags",
    }
)

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Nic:
    """A NIC on the host: its name, and the address it has there."""

    name: str
    cidr: str


def has_carrier(name: str) -> bool:
    """Whether the interface has its carrier, which comes a moment after it is up, or is not up."""
    interface = Path("/sys/class/net", name)
    try:
        up = int((interface / "flags").read_text(), 16) & IFF_UP
        return not up or (interface / "carrier").read_text() == "1\n"
    except OSError:
        return True  # not there, or down by now: whoever wants it says so


def ip(*arguments: str) -> str:
    """Run iproute2's ip and return what it printed."""
    return subprocess.run(("ip", *arguments), check=True, capture_output=True, text=True).stdout


def make_wires(count: int) -> tuple[Nic, ...]:
    """Make veth NICs nic0, nic1, … with addresses, routes, a rule and a neighbour on the host."""
    ip("netns", "add", SWITCH)
    ip("-n", SWITCH, "link", "set", "lo", "up")
    return tuple(make_wire(number) for number in range(count))


def make_wire(number: int) -> Nic:
    """Make the veth NIC of that number, with its configuration; an earlier one is replaced."""
    nic = Nic(f"nic{number}", f"10.{100 + number}.0.5/24")
    wire = f"wire{number}"
    mac = f"02:00:00:00:01:{number:02x}"
    peer = ("type", "veth", "peer", "name", wire, "netns", SWITCH)
    ip("link", "add", nic.name, "address", mac, *peer)
    ip("-n", SWITCH, "link", "set", wire, "up")
    configure(nic, number)
    return nic


def make_functions(count: int = 8) -> tuple[Path, ...]:
    """Make one virtual function on each of the first SR-IOV NICs; return their PCI devices."""
    made: list[Path] = []
    for nic in sorted(IGB.glob("0000:*"))[:count]:
        ip("link", "set", _netdev(nic), "up")
        (nic / "sriov_numvfs").write_text("1")
        made.append((nic / "virtfn0").resolve())
    wait_until("the VFs to have netdevs", lambda: all(list(f.glob("net/*")) for f in made))
    subprocess.run(("udevadm", "settle", "--timeout=60"), check=True)  # it renames them
    return tuple(made)


def remove_functions(count: int = 8) -> None:
    """Take the virtual functions away again, and the rules, which stay when a link goes.

    The kernel takes a second for each NIC (sriov_disable), so all are asked at once.
    """
    nics = sorted(IGB.glob("0000:*"))[:count]
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda nic: (nic / "sriov_numvfs").write_text("0"), nics))
    for number, _ in enumerate(nics):
        ip("rule", "del", "priority", str(FIRST_RULE + number))


def dress_functions(functions: Sequence[Path]) -> tuple[Nic, ...]:
    """Give each virtual function addresses, routes and a rule on the host."""
    nics = []
    for number, function in enumerate(functions):
        nic = Nic(_netdev(function), f"10.{100 + number}.0.5/24")
        configure(nic, number)
        nics.append(nic)
    return tuple(nics)


def _netdev(function: Path) -> str:
    return next((function / "net").iterdir()).name


def configure(nic: Nic, number: int) -> None:
    """Give the NIC everything that a pod must not cost it."""
    net = f"10.{100 + number}"
    ip("addr", "add", nic.cidr, "dev", nic.name)
    ip("addr", "add", f"fd00:{number + 1}::5/64", "dev", nic.name, "nodad")
    ip("link", "set", nic.name, "mtu", "1400", "alias", f"port {number}")
    ip("link", "property", "add", "dev", nic.name, "altname", f"port-{number}")
    ip("link", "set", nic.name, "up")
    ip("route", "add", f"{net}.1.0/24", "via", f"{net}.0.1", "dev", nic.name, "metric", "77")
    table = str(1000 + number)
    ip("route", "add", "default", "via", f"{net}.0.1", "dev", nic.name, "table", table)
    ip(
        "rule",
        "add",
        "from",
        f"{net}.0.0/16",
        "lookup",
        table,
        "priority",
        str(FIRST_RULE + number),
    )
    ip("neigh", "add", f"{net}.0.9", "lladdr", "02:00:00:00:00:09", "dev", nic.name)


# What tells the state of a namespace. Only by family: ip shows rules of one, routes of any.
_SHOWN: Final = {
    "link": "link",
    "addr": "addr",
    "route": "route show table all",
    "rule": "rule",
    "neigh": "neigh show nud permanent",
}


def host_state(netns: str = "") -> dict[str, object]:
    """Return links, addresses, routes and rules of the host, transient facts aside.

    With netns, of the namespace of that name instead.
    """
    where = ("-n", netns) if netns else ()
    return {
        f"{kind}{family}": rows for family in "46" for kind, rows in _dump(*where, f"-{family}")
    }


def changes(before: dict[str, object], now: dict[str, object]) -> str:
    """Return a line for each row of the host's state that went (-) or came (+)."""
    lines: list[str] = []
    for kind in sorted(now):
        was, is_ = before[kind], now[kind]
        assert isinstance(was, list)
        assert isinstance(is_, list)
        lines += (f"- {kind} {row}" for row in was if row not in is_)
        lines += (f"+ {kind} {row}" for row in is_ if row not in was)
    return "\n".join(lines)


def _dump(*options: str) -> Iterator[tuple[str, list[str]]]:
    """Return what ip shows, by kind. One process for all of it: emulated, each takes 50 ms."""
    done = subprocess.run(
        ("ip", *options, "-j", "-d", "-batch", "-"),
        input="\n".join((*_SHOWN.values(), "")),
        check=True,
        capture_output=True,
        text=True,
    )
    for kind, line in zip(_SHOWN, done.stdout.splitlines(), strict=True):
        rows: list[Json] = json.loads(line)
        if kind == "addr":  # the rest of it is the link's, and how much is shown varies
            rows = [{key: row[key] for key in ("ifname", "addr_info")} for row in rows]
        yield kind, _rows(rows)


def _rows(dumped: Sequence[Json]) -> list[str]:
    host_rows = (
        row for row in dumped if RUNTIMES_BRIDGE not in (row.get("ifname"), row.get("dev"))
    )
    return sorted(json.dumps(_lasting(row), sort_keys=True) for row in host_rows)


def _lasting(value: object) -> object:
    match value:
        case dict():
            lasting = {
                key: _lasting(member) for key, member in value.items() if key not in _TRANSIENT
            }
            if "flags" in value:
                lasting["up"] = "UP" in value["flags"]
            if "altnames" in value:  # udev gives hardware that is new its own beside us
                lasting["altnames"] = sorted(value["altnames"])
            return lasting
        case list():
            return [_lasting(element) for element in value]
        case _:
            return value


def settled() -> None:
    """Return once no address is tentative any more."""
    wait_until("addresses to settle", lambda: not ip("-6", "addr", "show", "tentative"))
