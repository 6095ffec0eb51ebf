"""Plans for child links: created for a pod on a device that stays on the host.

Rules:
1. A child is created in the pod, with its parent on the host. An IPoIB child is created on the host
   and moved: its creation in another namespace than the parent's has crashed kernels.
2. It is created with a generated name. Its alias identifies it, in any namespace and with any name;
   until it has an alias, the generated name does.
3. The kernel deletes children with the pod's namespace, but returns IPoIB children to the host. A
   child that exists nowhere counts as restored; one that appears without a record is orphaned.
4. The parent is set up if it is down, and not changed otherwise, so that pods can share it.
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

ALIAS: Final = "dra.net/"  # prefix of the alias of every child
_NAME: Final = "dra"


@dataclass(frozen=True, slots=True)
class Child:
    """Desired child link.

    Attributes:
        alias: its identity, see alias_of.
        parent: its parent on the host.
        link: its parameters; the partition key of an IPoIB child is resolved.
    """

    alias: str
    parent: Link
    link: ChildConfig


def alias_of(claim_uid: str, device: str, share_id: str = "") -> str:
    """Return the alias of a claim's child on a device or on a share of it."""
    return ALIAS + "/".join(filter(None, (claim_uid, device, share_id)))


def generated_name(alias: str) -> str:
    """Return the unique name under which the link is created."""
    return f"{_NAME}{sha256(alias.encode()).hexdigest()[:11]}"


def is_any_child(link: Link) -> bool:
    """Whether a link in a pod may be a child, by its alias, which a pod can set as well."""
    return bool(link.kind) and link.alias.startswith(ALIAS)


def is_any_child_on_host(link: Link) -> bool:
    """Whether a link on the host is a child: it also has its parent there."""
    return is_any_child(link) and bool(link.lower)


def is_child(link: Link, alias: str) -> bool:
    """Whether the link is the child with this alias."""
    return link.alias == alias or (not link.alias and link.name == generated_name(alias))


def make_child(network: PodNetwork, child: Child, observed: Observed) -> Plan:
    """Return the plan that creates a child.

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
    create = AddChild(ns, parent.index, generated_name(child.alias), child.alias, child.link)
    return (create,) if parent.up else (SetUp(Ns.HOST, parent.name), create)


def remove_child(observed: Observed) -> Plan:
    """Return the plan that deletes the child in both namespaces."""
    places = ((Ns.POD, observed.pod), (Ns.HOST, observed.host))
    return tuple(DelLink(ns, state.link.index) for ns, state in places if state is not None)


def why_incompatible(child: ChildConfig, other: ChildConfig) -> str:
    """Return why two children of one parent are incompatible, "" if they are not.

    All IPVLAN children of a parent have one mode (ipvlan_set_port_mode,
    drivers/net/ipvlan/ipvlan_main.c). IPVLAN and MACVLAN both register the parent's rx handler
    (netdev_rx_handler_register). A VLAN id is unique per parent over all namespaces.
    """
    match child, other:
        case IpvlanConfig(), IpvlanConfig() if child != other:
            return f"its IPVLAN children have {other}; use the same in interface.ipvlan"
        case (IpvlanConfig(), MacvlanConfig()) | (MacvlanConfig(), IpvlanConfig()):
            return f"it has a child of type {other.kind}; use the same in interface.type"
        case VlanConfig(), VlanConfig() if child == other:
            return f"another pod has its VLAN {other.id}; use another interface.vlan.id"
        case _:
            return ""
