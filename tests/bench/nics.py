"""The NICs under measurement, and claims for them."""

import json
from collections.abc import Sequence
from typing import Final

from dranet_nri.facts.host import boot_id
from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    Device,
    DeviceKey,
    NetworkConfig,
    ObjectRef,
)
from tests.bench.floor import Wire
from tests.box.nics import ip

PREFIXES: Final = ("nic", "spare", "heavy", "parent")  # each has addresses of its own


def make_wires(count: int, prefix: str) -> tuple[Wire, ...]:
    """Make NICs as a host has them: two addresses, up, a route through a gateway.

    Each is one end of a wire whose other end is up in a namespace of its own.
    """
    switch = f"{prefix}-switch"
    base = PREFIXES.index(prefix) * 50
    ip("netns", "add", switch)
    wires = []
    for number in range(count):
        name, far, net = f"{prefix}{number}", f"wire{number}", f"10.{100 + base + number}"
        ip("link", "add", name, "type", "veth", "peer", "name", far, "netns", switch)
        ip("-n", switch, "link", "set", far, "up")
        (shown,) = json.loads(ip("-j", "link", "show", name))
        wire = Wire(
            name=name,
            index=shown["ifindex"],
            v4=f"{net}.0.5/24",
            v6=f"fd00:{base + number + 1}::5/64",
            destination=f"{net}.1.0/24",
            gateway=f"{net}.0.1",
        )
        ip("addr", "add", wire.v4, "dev", name)
        ip("addr", "add", wire.v6, "dev", name, "nodad")
        ip("link", "set", name, "up")
        ip("route", "add", wire.destination, "via", wire.gateway, "dev", name)
        wires.append(wire)
    return tuple(wires)


def allocation(wires: Sequence[Wire], name: str = "bench") -> Allocation:
    """Return a claim of pod name for the NICs, without parameters of its own."""
    devices = tuple(
        AllocatedDevice(
            request=wire.name,
            pool="box",
            device=Device(name=wire.name, key=DeviceKey("", "", wire.name), attributes=()),
            config=NetworkConfig(),
        )
        for wire in wires
    )
    return Allocation(
        claim=ObjectRef("default", name, f"{name}-claim-uid"),
        pod=ObjectRef("default", name, f"{name}-uid"),
        devices=devices,
        nonce="k3v9q2",
        boot_id=boot_id(),
    )
