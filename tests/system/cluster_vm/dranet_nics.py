"""NICs of dranet's end-to-end cases on the node, and claims and pods for them.

Facts: kubernetes-sigs/dranet, tests/*.bats and tests/manifests. There each case has a
cluster of its own, with a link dummy0. Here all links exist at once, each with its own name.
"""

from __future__ import annotations

from typing import Any, Final

from tests.system.cluster import documents
from tests.system.cluster.api import Object
from tests.system.cluster_vm.webhook import FIXED, NIC, RANGE

# dranet's cases use dummies, which depend on no other link.
DUMMIES: Final = (
    "static", "mlx5_6", "arp0", "template", "routes", "advanced", "bigtcp", "programs", "double0",
    "double1", "reapply", "neigh", "rules", "subnet6", "leased", NIC,
)  # fmt: skip
WIRES: Final = ("pbr1", "pbr2", "vrf1", "vrf2")  # each with the end of its router, such as pbr1-rtr
NICS: Final = frozenset([*DUMMIES, *WIRES, *(f"{name}-rtr" for name in WIRES)])
CREATE: Final = f"""
for name in {" ".join(DUMMIES)}; do
    ip link add name $name type dummy
    ip link set $name up
done
for name in {" ".join(WIRES)}; do
    ip link add name $name type veth peer name $name-rtr
    ip link set $name up
    ip link set $name-rtr up
done
ip link set template down
ip addr add 169.254.14.14/32 dev template
ip addr add 169.254.15.13/32 dev double0
ip addr add 169.254.15.14/32 dev double1
ip addr add 169.254.16.14/32 dev reapply
ip addr add 169.254.17.15/32 dev neigh
ip neigh add 192.168.1.1 lladdr 00:11:22:33:44:55 dev neigh nud permanent
ip -6 neigh add 2001:db8::1 lladdr 00:aa:bb:cc:dd:ee dev neigh nud permanent
ip addr add 169.254.18.13/24 dev rules
ip route add 10.10.10.0/24 via 169.254.18.1 dev rules table 100
ip rule add from 10.20.30.0/24 table 100 priority 500
ip -6 addr add fd36::3:0:e:0:0/96 dev subnet6
python3 -m tests.system.kernel.bpf programs handle_ingress 'dummy_bpf.o:[classifier]'
"""
DELETE: Final = f"""
ip rule del priority 500
for name in {" ".join((*DUMMIES, *WIRES))}; do ip link del $name; done
"""
BIG: Final = ("gsoMaxSize", "groMaxSize", "gsoIPv4MaxSize", "groIPv4MaxSize")


def device_class() -> Object:
    """Return the class of dranet's cases."""
    return documents.device_class() | {"metadata": {"name": "dra.net"}}


def claim_of(name: str, *interfaces: str, more: str = "", **exactly: Any) -> Object:
    """Return a request for links of these names, or of one of them."""
    attributes = 'device.attributes["dra.net"]'
    called = " || ".join(f'{attributes}.ifName == "{interface}"' for interface in interfaces)
    expression = f"has({attributes}.ifName) && ({called}){more}"
    selectors = documents.selectors(expression)
    return documents.request(name, "dra.net", selectors=selectors, **exactly)


def pod(name: str, **source: str) -> Object:
    """Return a pod of dranet's cases: it lists a claim, and its container does not."""
    return documents.pod(name, "nic", source=source or None, main={"resources": {}})


def static(name: str, nic: str, **parameters: Any) -> tuple[Object, Object]:
    """Return a claim with these parameters, and a pod of its name."""
    config = documents.parameters(**parameters) if parameters else []
    return documents.claim(name, claim_of("nic", nic), config=config), pod(name)


def templated(name: str, request: Object, *, profile: str = "") -> tuple[Object, Object]:
    """Return a template, and a Deployment of one pod of its name."""
    config = documents.parameters(profile=profile) if profile else []
    template = documents.template(name, request, config=config)
    made = pod(name, resourceClaimTemplateName=name)
    labels = {"app": name}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": made["spec"]},
        },
    }
    return template, deployment


def eth99(address: str = "169.254.169.13/24") -> Object:
    """Return the interface of the cases that rename theirs."""
    return {"name": "eth99", "addresses": [address]}


def through_router(case: str, nets: tuple[str, str], **parameters: Any) -> list[Object]:
    """Return two pods and a router between them, with two NICs, and their claims.

    Args:
        case: prefix of the links: pbr or vrf.
        nets: first three octets of the networks; pods have host 1, the router has host 2.
        parameters: of the interface of each.
    """
    made: list[Object] = []
    for number, net in enumerate(nets):
        other = nets[1 - number]
        interface = {"name": "eth1", "addresses": [f"{net}.1/24"], **parameters}
        route: Object = {"destination": "0.0.0.0/0", "gateway": f"{net}.2"}
        config: Object = {"interface": interface, "routes": [route]}
        if case == "pbr":
            route["table"] = 100
            selected = {"table": 100, "priority": 32000}
            ends = ({"source": f"{net}.0/24"}, {"destination": f"{other}.0/24"})
            config["rules"] = [{**end, **selected} for end in ends]
        made += static(f"{case}1" if number == 0 else f"{case}2", f"{case}{number + 1}", **config)
    requests, configs = [], []
    for number, net in enumerate(nets, 1):
        interface = {"name": f"eth{number}", "addresses": [f"{net}.2/24"], "forwarding": True}
        (config,) = documents.parameters(interface={**interface, **parameters})
        requests.append(claim_of(f"side-{number}", f"{case}{number}-rtr"))
        configs.append({"requests": [f"side-{number}"], **config})
    name = f"{case}-router"
    return [*made, documents.claim(name, *requests, config=configs), pod(name)]


def all_documents() -> list[Object]:
    """Return the class, and the claims and pods of all cases."""
    kind = (
        ' && has(device.attributes["dra.net"].type) && device.attributes["dra.net"].type == "dummy"'
    )
    custom = ' && device.attributes["dra.net"].?webhook_attr.orValue("") == "python"'
    off = ("tcp-segmentation-offload", "generic-receive-offload", "large-receive-offload")
    far = {"destination": "169.254.169.0/24", "gateway": "169.254.169.1"}
    near = {"destination": "169.254.169.1/32", "scope": 253}
    advanced = {
        "name": "dranet0",
        "addresses": ["169.254.169.14/24"],
        "mtu": 4321,
        "hardwareAddr": "00:11:22:33:44:55",
    }
    big = {"name": "dranet1", "addresses": ["192.168.200.1/24"], "mtu": 8896}
    first = documents.claim(
        "static",
        claim_of("nic", "static", more=kind),
        config=documents.parameters(interface=eth99()),
    )
    return [
        device_class(),
        first,
        pod("static"),
        *static("normalized", "mlx5_6", interface=eth99()),
        *static("arp", "arp0", interface={"name": "dranet-arp", "arpIgnore": 1, "arpAnnounce": 2}),
        *templated("template", claim_of("nic", "template")),
        *static("routes", "routes", interface=eth99("169.254.169.13/32"), routes=[far, near]),
        *static(
            "advanced",
            "advanced",
            interface=advanced,
            ethtool={"features": dict.fromkeys(off, False)},
        ),
        *static(
            "bigtcp",
            "bigtcp",
            interface=big | dict.fromkeys(BIG, 65536),
            ethtool={"features": {off[0]: True, off[1]: True, off[2]: False}},
        ),
        *static("programs", "programs", interface={"disableEbpfPrograms": True}),
        *templated("double", claim_of("nics", "double0", "double1", count=2)),
        *templated("reapply", claim_of("nic", "reapply")),
        *static("neigh", "neigh", interface=eth99()),
        *static("rules", "rules", interface=eth99("169.254.18.13/24")),
        *static("subnet6", "subnet6"),
        *through_router("pbr", ("192.168.101", "192.168.102")),
        *through_router("vrf", ("10.10.10", "10.10.20"), vrf={"name": "test-vrf"}),
        *templated("leased", claim_of("nic", "leased"), profile=RANGE),
        *templated("custom", claim_of("nic", NIC, more=custom), profile=FIXED),
    ]
