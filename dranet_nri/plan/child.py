"""Children: links that are made for a pod on a device that stays on the host, and end with it.

Rules:
1. A child is made in the pod, below its parent on the host. An IPoIB child is made on the host,
   and moved: making it in another namespace than its parent's has crashed kernels.
2. It is made under a name of the plugin's. Its alias identifies it, in any namespace and under any
   name; before it has one, its first name.
3. The kernel deletes children with the pod's namespace, but returns IPoIB children to the host. A
   child that exists nowhere is restored, and one that appears later without a record is orphaned.
4. The parent is set up if it is down. Nothing else of it is changed, so that pods can share it.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    ChildConfig,
    IpoibConfig,
    IpvlanConfig,
    Link,
    MacvlanConfig,
    Ns,
    Observed,
    VlanConfig,
)
from dranet_nri.plan.ops import AddChild, DelLink, Plan, SetUp
from dranet_nri.plan.pod_network import PodNetwork

ALIAS: Final = "dra.net/"  # begins the alias of every link that we make
_NAME: Final = "dra"


@dataclass(frozen=True, slots=True)
class Child:
    """The link that the pod shall get.

    Attributes:
        alias: what it is known by, see alias_of.
        parent: the link of the host on which it is made.
        link: what it shall be; the partition key of an IPoIB child is known.
    """

    alias: str
    parent: Link
    link: ChildConfig


def alias_of(claim_uid: str, device: str, share_id: str = "") -> str:
    """Return the alias of the link that is made on a device, or on a share of it, for a claim."""
    return ALIAS + "/".join(filter(None, (claim_uid, device, share_id)))


def first_name(alias: str) -> str:
    """Return the name under which the link is made, which no one else uses."""
    return f"{_NAME}{sha256(alias.encode()).hexdigest()[:11]}"


def is_ours(link: Link) -> bool:
    """Whether the plugin made a pod's link. A pod may set any alias; most links have no kind."""
    return bool(link.kind) and link.alias.startswith(ALIAS)


def is_ours_on_host(link: Link) -> bool:
    """Whether the plugin made a host's link: its parent is visible there, a port has none."""
    return is_ours(link) and bool(link.lower)


def is_child(link: Link, alias: str) -> bool:
    """Whether the link was made under that alias."""
    return link.alias == alias or (not link.alias and link.name == first_name(alias))


def make_child(network: PodNetwork, child: Child, observed: Observed) -> Plan:
    """Say how to make a link that is nowhere yet.

    Raises:
        RefusedError: its name is taken in the pod, or its MTU is above its parent's.
    """
    if network.name in observed.taken_pod_names:
        raise RefusedError(
            f"interface.name {network.name!r} is taken in the pod; set interface.name to another"
        )
    mtu, parent = network.settings.mtu, child.parent
    if mtu is not None and mtu > parent.mtu and not isinstance(child.link, IpoibConfig):
        raise RefusedError(
            f"interface.mtu {mtu} is above that of {parent.name}, the parent of the pod's"
            f" interface, which has {parent.mtu}; lower it, or raise that of {parent.name}"
        )
    ns = Ns.HOST if isinstance(child.link, IpoibConfig) else Ns.POD
    made = AddChild(ns, parent.index, first_name(child.alias), child.alias, child.link)
    return (made,) if parent.up else (SetUp(Ns.HOST, parent.name), made)


def remove_child(observed: Observed) -> Plan:
    """Say how to remove the link, wherever it is."""
    there = ((Ns.POD, observed.pod), (Ns.HOST, observed.host))
    return tuple(DelLink(ns, state.link.index) for ns, state in there if state is not None)


def why_not_beside(wanted: ChildConfig, other: ChildConfig) -> str:
    """Return why the kernel has no such child beside another one of the same parent, "" if it can.

    The mode of IPVLAN is the parent's, and a change of it is one for all (ipvlan_set_port_mode,
    drivers/net/ipvlan/ipvlan_main.c). IPVLAN and MACVLAN each want all packets of the parent
    (netdev_rx_handler_register). A VLAN id is one link's, in whichever namespace.
    """
    match wanted, other:
        case IpvlanConfig(), IpvlanConfig() if wanted != other:
            return f"its IPVLAN children have {other}; use the same in interface.ipvlan"
        case (IpvlanConfig(), MacvlanConfig()) | (MacvlanConfig(), IpvlanConfig()):
            return f"it has a child of type {other.kind}; use the same in interface.type"
        case VlanConfig(), VlanConfig() if wanted == other:
            return f"its VLAN {other.id} is another pod's; use another interface.vlan.id"
        case _:
            return ""
