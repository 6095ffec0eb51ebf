"""Random valid parameters of a claim, the same for the same number."""

from __future__ import annotations

from random import Random
from typing import Final

Document = dict[str, object]

TYPES: Final = ("Passthrough", "IPVLAN", "MACVLAN", "VLAN")
ROUTER: Final = "10.77.0.1"


def random_parameters(number: int, types: tuple[str, ...] = TYPES) -> Document:
    """Return parameters for a NIC of 1500 bytes MTU that has no queues to set.

    Args:
        number: seed.
        types: kinds of device to choose from.
    """
    rng = Random(number)
    kind = rng.choice(types)
    interface = _some(rng, _link(rng))
    if not interface.get("disableIPv6"):
        interface |= _some(rng, {"acceptRA": rng.randint(0, 2)})
    addresses = _addresses(rng, ipv6=not interface.get("disableIPv6"))
    if addresses or kind != TYPES[0]:
        interface |= {"addresses": addresses} if addresses else {"addressing": "Unnumbered"}
    document: Document = {"interface": interface}
    if kind == TYPES[0]:
        interface |= _some(rng, {"hardwareAddr": _mac(rng), "disableEbpfPrograms": True})
        features: Document = {"gro": rng.random() < 0.5, "tx-tcp-segmentation": rng.random() < 0.5}
        document["ethtool"] = {"features": _some(rng, features)}
    else:
        interface |= _child(rng, kind)
    if any(cidr.startswith("10.77.") for cidr in addresses):
        document |= _routes(rng, interface, addresses)
    return document


def _some(rng: Random, values: Document) -> Document:
    return {name: value for name, value in values.items() if rng.random() < 0.3}


def _link(rng: Random) -> Document:
    return {
        "name": rng.choice(("net1", "data", "nic0")),
        "mtu": rng.randint(1280, 1500),
        "gsoMaxSize": rng.randint(4096, 65536),
        "groMaxSize": rng.randint(4096, 65536),
        "gsoIPv4MaxSize": rng.randint(4096, 65536),
        "groIPv4MaxSize": rng.randint(4096, 65536),
        "arpIgnore": rng.choice((0, 1, 2, 3, 8)),
        "arpAnnounce": rng.randint(0, 2),
        "forwarding": rng.random() < 0.5,
        "txQueueLen": rng.randint(0, 5000),
        "altnames": [f"rail{rng.randint(0, 9)}"],
        "disableIPv6": rng.random() < 0.5,
        "addrGenMode": rng.choice(("eui64", "none", "random")),
        "dadTransmits": rng.randint(0, 3),
        "routerSolicitations": rng.randint(-1, 5),
        "routerSolicitationDelay": rng.randint(0, 10),
        "routerSolicitationInterval": rng.randint(0, 10),
        "routerSolicitationMaxInterval": rng.randint(0, 3600),
    }


def _addresses(rng: Random, *, ipv6: bool) -> list[str]:
    cidrs = ["10.77.0.5/24", "10.77.0.6/24", "10.78.0.5/32"]
    cidrs += ["fd77::5/64", "fd78::5/128"] if ipv6 else []
    return [cidr for cidr in cidrs if rng.random() < 0.4]


def _mac(rng: Random) -> str:
    return ":".join(["02", *(f"{rng.randint(0, 255):02x}" for _ in range(5))])


def _child(rng: Random, kind: str) -> Document:
    modes: dict[str, Document] = {
        "IPVLAN": {
            "mode": rng.choice(("L2", "L3", "L3S")),
            "flag": rng.choice(("Bridge", "Private", "VEPA")),
        },
        "MACVLAN": {"mode": rng.choice(("Bridge", "Private", "VEPA"))},
        "VLAN": {"id": rng.randint(1, 4094), "protocol": rng.choice(("802.1Q", "802.1ad"))},
    }
    given: Document = {"type": kind, kind.lower(): modes[kind]}
    return given | ({} if kind == "IPVLAN" else _some(rng, {"hardwareAddr": _mac(rng)}))


def _routes(rng: Random, interface: Document, addresses: list[str]) -> Document:
    own = _some(rng, {"source": addresses[0].partition("/")[0], "table": rng.randint(1, 250)})
    routes: list[Document] = [{"destination": "10.9.0.0/16", "gateway": ROUTER} | own]
    routes += [{"destination": "10.10.0.0/16", "scope": 253, "metric": rng.randint(1, 99)}]
    neighbours = [{"destination": ROUTER, "hardwareAddr": _mac(rng)}]
    if rng.random() < 0.3:
        interface["vrf"] = _some(rng, {"table": rng.randint(1, 250)}) | {"name": "blue"}
    rule: Document = {"priority": 500, "source": "10.77.0.0/16", "table": 77}
    rule |= _some(rng, {"destination": "10.9.0.0/16"})
    with_rules: Document = (
        {"rules": [rule]} if "vrf" not in interface and rng.random() < 0.3 else {}
    )
    return _some(rng, {"routes": routes, "neighbors": neighbours}) | with_rules
