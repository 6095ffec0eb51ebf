"""IP-over-InfiniBand children: links that are made for a pod and end with it.

Rules:
1. The parent stays on the host. The child is made there, under a name of the plugin's, and moved:
   making it in another namespace than its parent's has crashed kernels.
2. Its alias identifies it, in any namespace and under any name; before it has one, its first name.
3. A kernel whose namespace ends returns the child to the host. A child that exists nowhere is
   restored, and one that appears later without a record is orphaned.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from dranet_nri.errors import RefusedError
from dranet_nri.model import Link, Ns, Observed
from dranet_nri.plan.ops import AddIpoib, DelLink, Plan
from dranet_nri.plan.pod_network import PodNetwork

ALIAS: Final = "dra.net/"  # begins the alias of every link that we make
_NAME: Final = "dra"


@dataclass(frozen=True, slots=True)
class Child:
    """The link that the pod shall get.

    Attributes:
        alias: what it is known by, see alias_of.
        parent: ifindex of its parent on the host.
        pkey: partition key with the full-membership bit, None: the parent's.
        connected: IPoIB connected mode, else datagram.
    """

    alias: str
    parent: int
    pkey: int | None = None
    connected: bool = False


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
        RefusedError: its name is taken in the pod.
    """
    if network.name in observed.taken_pod_names:
        raise RefusedError(
            f"interface.name {network.name!r} is taken in the pod; set interface.name to another"
        )
    name = first_name(child.alias)
    return (AddIpoib(child.parent, name, child.alias, child.pkey, child.connected),)


def remove_child(observed: Observed) -> Plan:
    """Say how to remove the link, wherever it is."""
    there = ((Ns.POD, observed.pod), (Ns.HOST, observed.host))
    return tuple(DelLink(ns, state.link.index) for ns, state in there if state is not None)
