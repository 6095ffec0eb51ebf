"""Exclusion rules: links that no pod may get, because the node would lose its network.

Rules:
1. The uplinks: see uplinks.py.
2. Lower links of an uplink carry it, and upper links depend on it; neither is published. Lower: its
   lower links in netlink, the slaves, and the peer through which a veth's or an Open vSwitch port's
   traffic passes. Upper: the master, and links of which this is a lower one. Both relations are
   followed transitively, but not mixed: a second VLAN on the uplink's bond is neither an upper nor
   a lower link of the uplink, so pods may have it.
3. The rules use current facts; only uplinks depend on previous scans.
4. On Hyper-V a NIC appears twice: as the synthetic device and as a VF behind it (accelerated
   networking). The VF is not published, neither before the kernel enslaves it nor after, nor as an
   RDMA device without its net device.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_interface, ip_network
from typing import Final

from dranet_nri.inventory.host_facts import HostFacts, NetDevice, PciFunction
from dranet_nri.model import (
    DELETED_WITH_LOWER,
    DOWN_WITH_LOWER,
    PEER_KINDS,
    Link,
    PolicyRoute,
    is_in_use,
    is_representor,
    is_temporary_name,
)

_CNI_NAMES: Final = {
    "antrea-egress0": "Antrea",
    "antrea-gw0": "Antrea",
    "antrea-tun0": "Antrea",
    "br-int": "Open vSwitch",
    "cilium_host": "Cilium",
    "cilium_net": "Cilium",
    "cilium_vxlan": "Cilium",
    "cilium_geneve": "Cilium",
    "cni0": "the bridge CNI plugin",
    "docker0": "Docker",
    "ip6tnl0": "the kernel's tunnel module",
    "kube-bridge": "kube-router",
    "kube-dummy-if": "kube-router",
    "kube-ipvs0": "kube-proxy",
    "nodelocaldns": "node-local DNS",
    "ovn-k8s-mp0": "OVN-Kubernetes",
    "ovs-system": "Open vSwitch",
    "podman0": "Podman",
    "tunl0": "Calico or the kernel's tunnel module",
    "virbr0": "libvirt",
    "vxlan-v6.calico": "Calico",
    "vxlan.calico": "Calico",
    "weave": "Weave",
    "wg-v6.cali": "Calico",
    "wireguard.cali": "Calico",
}
_CNI_PREFIXES: Final = (
    ("cali", "Calico"),
    ("flannel.", "Flannel"),
    ("flannel-", "Flannel"),
    ("genev_sys_", "Open vSwitch"),
    ("lxc", "Cilium"),
    ("vxlan_sys_", "Open vSwitch"),
)
_ALL_CNI_PREFIXES: Final = tuple(prefix for prefix, _ in _CNI_PREFIXES)
_OVERLAYS: Final = frozenset(
    {
        *("erspan", "ip6erspan", "geneve", "gre", "gretap", "ip6gre", "ip6gretap", "ip6tnl"),
        *("ipip", "sit", "vti", "vti6", "wireguard", "xfrm"),
    }
)
_LAG_KINDS: Final = frozenset({"bond", "team"})  # link aggregation
# Kinds that set netns_immutable (drivers/net, net/), which is in netlink since Linux 6.15 only.
_PINNED_KINDS: Final = frozenset(
    {"amt", "batadv", "bond", "bridge", "hsr", "lowpan", "openvswitch", "team", "vrf"}
)
_USERSPACE_DRIVERS: Final = frozenset({"igb_uio", "pci-stub", "uio_pci_generic", "vfio-pci"})
NETVSC_BUS: Final = "vmbus"
_ACCELERATED: Final = "Ethernet RDMA without its net device on Hyper-V: accelerated networking"

_Neighbours = Callable[[NetDevice], Iterable[int]]


def uplink_tree(devices: Sequence[NetDevice], roots: Mapping[int, str]) -> dict[int, str]:
    """Return ifindex -> reason for the uplinks and their upper and lower links.

    Args:
        devices: all net devices of the namespace.
        roots: ifindex -> reason for the uplinks.
    """
    by_index = {device.link.index: device for device in devices}
    slaves: dict[int, list[int]] = defaultdict(list)
    uppers: dict[int, list[int]] = defaultdict(list)
    for index, device in by_index.items():
        slaves[device.link.master].append(index)
        for lower in _lowers(device):
            uppers[lower].append(index)
    datapaths = [index for index, device in by_index.items() if device.link.name == "ovs-system"]

    def below(device: NetDevice) -> list[int]:
        link = device.link
        found = [*_lowers(device), *slaves[link.index]]
        if link.kind == "veth" and link.lower in by_index:
            found.append(by_index[link.lower].link.master)
        return found + datapaths if link.kind == "openvswitch" else found

    def above(device: NetDevice) -> list[int]:
        return [device.link.master, *uppers[device.link.index]]

    reasons: dict[int, str] = {}
    for root in sorted(roots):
        name = by_index[root].link.name
        for index in _reachable(by_index, root, above):
            reasons.setdefault(index, f"depends on the uplink {name}")
        for index in _reachable(by_index, root, below):
            reasons.setdefault(index, f"carries the uplink {name}")
    return reasons | dict(roots)


def _lowers(device: NetDevice) -> tuple[int, ...]:
    return device.link.lower, *device.also_lower


def link_hazard(
    device: NetDevice,
    links: dict[int, Link],
    slaved: frozenset[int],
    *,
    included: bool = False,
    stays: bool = False,
) -> str:
    """Return why this link must not be published, independent of routes; "" if it may.

    Args:
        device: the net device to judge.
        links: all links of the namespace by ifindex.
        slaved: ifindexes that are the master of some link.
        included: whether --include matches it, which overrides name rules.
        stays: whether it stays on the host as a parent of child links.
    """
    link = device.link
    if device.unreadable:
        return f"its kernel facts cannot be read: {device.unreadable}"
    if link.loopback:
        return "loopback"
    owner = "" if included else _cni_owner(link.name)
    if owner:
        return f"belongs to {owner}"
    if is_temporary_name(link.name) and not link.parent:
        return "returned from a pod with a temporary name, see dranet-nri status"
    master = links.get(link.master)
    if link.master and not (master and master.kind == "vrf"):
        return _slave_reason(master)
    if is_representor(device.port_name):
        return f"represents {device.port_name} in the NIC's embedded switch"
    if link.kind == "bridge" and link.index in slaved:
        return "a bridge with ports"
    if stays and link.kind in _LAG_KINDS:
        return ""
    if device.pinned or link.kind in _PINNED_KINDS:
        return "the kernel does not let it leave its network namespace"
    return ""


def probable_use(device: NetDevice, rules: Sequence[PolicyRoute]) -> str:
    """Return why the node probably uses this link, "" without a sign. --include overrides it."""
    link = device.link
    if link.kind in _OVERLAYS:
        return f"{_a(link.kind)} tunnel, which is the node's; --include {link.name} offers it"
    for rule in rules:
        if link.index in rule.links and not _is_own(rule, device):
            return (
                f"policy routing sends others' packets through it (table {rule.table}); --include"
                f" {link.name} offers it"
            )
    return ""


def underlay_hazard(device: NetDevice, tunnels: Sequence[NetDevice]) -> str:
    """Return which tunnel sends through this link, "" without one. --include overrides it.

    Args:
        device: the net device to judge.
        tunnels: the tunnels that are net devices.
    """
    own = {address.cidr.partition("/")[0] for address in device.addresses}
    offer = f"--include {device.link.name} offers it"
    for tunnel in tunnels:
        source, over = tunnel.tunnel_ends
        if source in own or over == device.link.index:
            how = f"from its address {source}" if source in own else "through it"
            return f"the tunnel {tunnel.link.name} sends {how}; {offer}"
    if device.underlay_of:
        return f"{device.underlay_of[0]} of the node sends through it; {offer}"
    return ""


def daemon_hazard(device: NetDevice, routes: Sequence[tuple[int, str]]) -> str:
    """Return whose routes go through this link, "" without any. --include overrides it.

    Args:
        device: the net device to judge.
        routes: ifindexes and protocols of the routes of routing daemons.
    """
    link = device.link
    protocols = [protocol for index, protocol in routes if index == link.index]
    if not protocols:
        return ""
    return (
        f"a routing daemon of the node has routes through it (protocol {', '.join(protocols)});"
        f" --include {link.name} offers it"
    )


def _is_own(rule: PolicyRoute, device: NetDevice) -> bool:
    """Whether the rule is for the link's own packets, so that a move may remove it."""
    if rule.only_destination or device.link.name in rule.names:
        return True
    if not rule.source or rule.invert:
        return False
    network = ip_network(rule.source, strict=False)
    return any(ip_interface(address.cidr).ip in network for address in device.addresses)


def switch_hazards(devices: Sequence[NetDevice]) -> dict[int, str]:
    """Return ifindex -> reason for uplinks of embedded switches (switchdev mode).

    Their representors send through them. mlx5 refuses to move one (mlx5e_fix_features in
    drivers/net/ethernet/mellanox/mlx5/core/en_main.c), but reports that since Linux 6.15 only.
    """
    representors = {
        (device.link.bus, device.link.parent): device.link.name
        for device in devices
        if device.link.parent and is_representor(device.port_name)
    }
    places = ((device.link.index, device.link.bus, device.link.parent) for device in devices)
    return {
        index: f"carries {representors[bus, parent]}, a representor of the NIC's embedded switch"
        for index, bus, parent in places
        if (bus, parent) in representors
    }


def carrier_hazards(devices: Sequence[NetDevice]) -> dict[int, str]:
    """Return ifindex -> reason for links with upper links that would break.

    A VLAN or an IPoIB child counts if the host uses it or if it has such an upper link; any other
    link counts.
    """
    uppers: dict[int, list[NetDevice]] = defaultdict(list)
    places = {device.link.index: (device.link.bus, device.link.parent) for device in devices}
    for device in devices:
        link = device.link
        # For an IPoIB child the kernel does not report that its lower link is in another namespace.
        apart = link.kind == "ipoib" and places.get(link.lower) != (link.bus, link.parent)
        if link.kind not in PEER_KINDS and not apart:
            for lower in filter(None, _lowers(device)):
                uppers[lower].append(device)
    elsewhere = {
        device.link.index: device.foreign_upper_kinds
        for device in devices
        if device.foreign_upper_kinds
    }
    if not uppers and not elsewhere:
        return {}
    found = (
        (device.link.index, _carried(device.link.index, uppers, elsewhere)) for device in devices
    )
    return {index: reason for index, reason in found if reason}


def _carried(
    index: int,
    uppers: Mapping[int, Sequence[NetDevice]],
    elsewhere: Mapping[int, Sequence[str]],
) -> str:
    """Return the reason of an upper link that a move would break, "" without one."""
    reached, pending = {index}, [index]
    while pending:
        lower = pending.pop()
        if elsewhere.get(lower):
            return (
                f"carries {_a(elsewhere[lower][0])} link of another network namespace, maybe a"
                " pod's, which loses its network when the NIC leaves"
            )
        for upper in uppers.get(lower, ()):
            if reason := _lost(upper):
                return reason
            if upper.link.index not in reached:
                reached.add(upper.link.index)
                pending.append(upper.link.index)
    return ""


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def _lost(device: NetDevice) -> str:
    """Return what an upper link loses with its lower link; "" for an unused VLAN or IPoIB child."""
    upper = device.link
    if upper.kind in DELETED_WITH_LOWER:
        return f"carries {upper.name}, which the kernel deletes when it leaves"
    if upper.kind not in DOWN_WITH_LOWER:
        kind = f", {_a(upper.kind)} link" if upper.kind else ""
        return f"carries {upper.name}{kind}, which loses its network when the NIC leaves"
    if not is_in_use(upper, device.addresses):
        return ""
    return (
        f"carries {upper.name}, {DOWN_WITH_LOWER[upper.kind]} that the host uses: its routes and"
        " IPv6 addresses are lost when the NIC leaves; to offer that, take addresses and master of"
        f" {upper.name} away"
    )


def function_hazard(function: PciFunction) -> str:
    """Return why this PCI function cannot have a net device, "" if it may."""
    if not function.driver:
        return "no driver is bound"
    if function.driver in _USERSPACE_DRIVERS:
        return f"bound to {function.driver} for userspace"
    return ""


def is_synthetic(link: Link) -> bool:
    """Whether this is the synthetic device of a Hyper-V NIC, which also has a PCI function."""
    return link.bus == NETVSC_BUS


def accelerated_hazard(device: NetDevice, synthetic: Mapping[str, str]) -> str:
    """Return the reason if this net device is the VF of a Hyper-V NIC, else "".

    Args:
        device: the net device to judge.
        synthetic: MAC address -> name of synthetic net devices.
    """
    master = synthetic.get(device.link.mac) if device.link.bus == "pci" else None
    return _vf_reason(master) if master else ""


def hazards_without_netdev(facts: HostFacts) -> dict[str, str]:
    """Return PCI address -> reason for functions not to publish without their net device."""
    reasons = {function.address: function_hazard(function) for function in facts.functions}
    if any(is_synthetic(device.link) for device in facts.netdevs):
        for device in facts.rdma:
            if any(port.link_layer == "Ethernet" for port in device.ports):
                reasons[device.pci] = reasons.get(device.pci) or _ACCELERATED
    return reasons


def _reachable(devices: dict[int, NetDevice], root: int, step: _Neighbours) -> list[int]:
    visited = {root}
    pending = [root]
    found: list[int] = []
    while pending:
        for index in step(devices[pending.pop()]):
            if index in devices and index not in visited:
                visited.add(index)
                pending.append(index)
                found.append(index)
    return found


def _cni_owner(name: str) -> str:
    owner = _CNI_NAMES.get(name, "")
    if owner or not name.startswith(_ALL_CNI_PREFIXES):
        return owner
    return next(who for prefix, who in _CNI_PREFIXES if name.startswith(prefix))


def _slave_reason(master: Link | None) -> str:
    if master is None:
        return "enslaved"
    if is_synthetic(master):
        return _vf_reason(master.name)
    return f"enslaved to {master.name}"


def _vf_reason(master: str) -> str:
    return f"the VF behind {master}: Hyper-V shows one NIC as two"
