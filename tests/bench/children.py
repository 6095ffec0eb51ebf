"""Attach and detach of children, against netlink messages alone and against the NICs themselves.

They are IPVLAN if the kernel has it, else MACVLAN. A child is created and deleted, and its parent
stays on the host, so that no driver is asked and no move waits.
"""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_interface
from statistics import median
from typing import Final

from dranet_nri.model import (
    Allocation,
    InterfaceConfig,
    IpvlanConfig,
    MacvlanConfig,
    NetworkConfig,
    table_of,
)
from tests.bench.attach import SPACE, SPACE_PATH, Times, executing, timed
from tests.bench.floor import (
    FIRST_CHILD,
    RULE_PRIORITY,
    ChildLink,
    Side,
    Wire,
    add_children,
    delete_children,
)
from tests.bench.nics import allocation, make_wires
from tests.bench.table import Row, ms, print_now, spread
from tests.box.nics import ip

ROUNDS: Final = {1: 60, 4: 30}
WARM_UP: Final = 2


@dataclass(slots=True)
class Ways:
    """Seconds of the same rounds.

    Attributes:
        child: of children by the executor.
        floor: of children by netlink messages alone.
        whole: of the NICs themselves by the executor.
    """

    child: Times = field(default_factory=Times)
    floor: Times = field(default_factory=Times)
    whole: Times = field(default_factory=Times)


def kind_of(wire: Wire) -> str:
    """Return the kind of children that the kernel makes."""
    try:
        ip("link", "add", "link", wire.name, "name", "probe", "type", "ipvlan")
    except subprocess.CalledProcessError:
        return "macvlan"
    ip("link", "del", "probe")
    return "ipvlan"


def links_of(wires: Sequence[Wire], kind: str) -> tuple[ChildLink, ...]:
    """Return a child for each NIC, in its network."""
    return tuple(
        ChildLink(
            kind=kind,
            name=f"net{number}",
            parent=wire.index,
            index=FIRST_CHILD + number,
            cidr=f"{ip_interface(wire.v4).network.network_address + 30}/24",
            table=table_of(f"net{number}"),
        )
        for number, wire in enumerate(wires)
    )


def claim_of(wires: Sequence[Wire], links: Sequence[ChildLink]) -> Allocation:
    """Return a claim that has children of the NICs."""
    whole = allocation(wires, "children")
    configs = [
        InterfaceConfig(
            name=link.name,
            addresses=(link.cidr,),
            ipvlan=IpvlanConfig() if link.kind == "ipvlan" else None,
            macvlan=MacvlanConfig() if link.kind == "macvlan" else None,
        )
        for link in links
    ]
    devices = zip(whole.devices, configs, strict=True)
    return replace(
        whole, devices=tuple(replace(one, config=NetworkConfig(own)) for one, own in devices)
    )


def shown() -> str:
    """Return what the pod has, without the number and the state of links, which follow later."""
    commands = ("-br -4 addr", "-4 route show table all", "-4 rule")
    text = "".join(ip("-n", SPACE, *command.split()) for command in commands)
    return re.sub(r"@if\d+ +\w+ +| linkdown", "", text)


def delete_rules(count: int) -> None:
    """Delete the rules of children, which stay in a pod until it ends."""
    for _ in range(count):
        ip("-n", SPACE, "rule", "del", "priority", str(RULE_PRIORITY))


def measured(wires: Sequence[Wire], kind: str) -> Ways:
    """Attach and detach children by executor and by messages alone, and the NICs, in turn."""
    links = links_of(wires, kind)
    ways = Ways()
    host, pod = Side("/proc/self/ns/net"), Side(SPACE_PATH)
    with executing(claim_of(wires, links)) as child:
        whole = replace(child, claim=allocation(wires))
        for number in range(-WARM_UP, ROUNDS[len(wires)]):
            if number == 0:
                ways = Ways()
            timed(child.attach, ways.child.attach)
            made = shown() if number < 0 else ""
            timed(child.detach, ways.child.detach)
            delete_rules(len(links))
            timed(partial(add_children, host, pod, links), ways.floor.attach)
            made_by_messages = shown() if number < 0 else ""
            assert made == made_by_messages, f"{made}\nis not\n{made_by_messages}"
            timed(partial(delete_children, pod, links), ways.floor.detach)
            delete_rules(len(links))
            timed(whole.attach, ways.whole.attach)
            timed(whole.detach, ways.whole.detach)
    host.close()
    pod.close()
    return ways


def run(rows: list[Row], notes: list[str]) -> None:
    """Measure attach and detach of children."""
    wires = make_wires(max(ROUNDS), "parent")
    kind = kind_of(wires[0])
    ip("netns", "add", SPACE)
    for count, rounds in ROUNDS.items():
        print_now(
            f"children: {rounds} rounds of {count}: executor, messages alone, and the NICs, in turn"
        )
        ways = measured(wires[:count], kind)
        for way in ("attach", "detach"):
            what = f"{way} {count} {kind}"
            child, messages, whole = (
                getattr(times, way) for times in (ways.child, ways.floor, ways.whole)
            )
            here, floor, nic = map(median, (child, messages, whole))
            rows.append(
                Row(
                    f"{what}, executor and records",
                    ms(here),
                    f"{ms(floor)} messages alone",
                    here / floor,
                )
            )
            rows.append(Row(f"{what}, against the NIC itself", ms(here), ms(nic), here / nic))
            notes.append(
                f"{what}, middle half: executor {spread(child)}, messages {spread(messages)},"
                f" NIC {spread(whole)}"
            )
    ip("netns", "del", SPACE)
    notes.append(
        "messages alone, of a child: create in the pod, address, up, route and rule; at the detach"
        " only the link, with which the rest goes, but for the rule"
    )
