"""IP-over-InfiniBand children: made on the host, identified by alias, deleted by the plugin.

Numbers are those of linux/if_link.h.
"""

from errno import EEXIST
from pathlib import Path
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.kernel.links import NLM_F_EXCL_CREATE, RTM_NEWLINK, ipoib_info, set_settings
from dranet_nri.kernel.messages import LinkMessage
from dranet_nri.kernel.namespace import Namespace
from dranet_nri.linux.netlink.codec import Value, encode
from dranet_nri.linux.netlink.links import (
    INFO,
    IPOIB_MODE_CONNECTED,
    IPOIB_MODE_DATAGRAM,
    index_of,
    links_from,
)
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.linux.rdma import errors
from dranet_nri.model import Link, LinkState, Observed
from dranet_nri.plan.ipoib import is_child, is_ours_on_host
from dranet_nri.plan.ops import AddIpoib, LinkSettings

RTM_DELLINK: Final = 17


def add(netlink: RtnetlinkSocket, what: str, op: AddIpoib) -> None:
    """Make the child, which may be there already, and give it its alias.

    Raises:
        KernelError: the kernel refused; the text has the remedy.
    """
    mode = IPOIB_MODE_CONNECTED if op.connected else IPOIB_MODE_DATAGRAM
    data: list[tuple[str, Value]] = [("IFLA_IPOIB_MODE", mode)]
    if op.pkey is not None:
        data.insert(0, ("IFLA_IPOIB_PKEY", op.pkey))
    attrs: list[tuple[str, Value]] = [
        ("IFLA_IFNAME", op.name),
        ("IFLA_LINK", op.parent),
        ("IFLA_LINKINFO", ipoib_info(*data)),
    ]
    try:
        netlink.do(what, RTM_NEWLINK, NLM_F_EXCL_CREATE, encode(LinkMessage, {}, attrs))
    except KernelError as error:
        if error.code != EEXIST:
            meant = errors.ADD_CONNECTED if op.connected else errors.ADD_IPOIB
            raise errors.explained(error, meant) from error
    index = index_of(netlink, what, op.name)
    set_settings(netlink, what, index, LinkSettings(alias=op.alias))


def delete(netlink: RtnetlinkSocket, what: str, index: int) -> None:
    """Delete the link, which may be gone."""
    try:
        netlink.do(what, RTM_DELLINK, 0, INFO.pack(0, 0, index, 0, 0))
    except KernelError as error:
        if not error.already_gone:
            raise


def observe_child(host: Namespace, pod: Namespace | None, alias: str) -> Observed:
    """Return where the link of that alias is.

    Raises:
        KernelError: a dump failed.
    """
    here, there = _child_in(host, alias), _child_in(pod, alias)
    links = pod.links() if pod else ()
    taken = {name for seen in links for name in (seen.name, *seen.altnames)}
    return Observed(
        host=_state(host, here),
        pod=_state(pod, there),
        taken_pod_names=frozenset(taken - {there.name if there else ""}),
        pod_rules=pod.rules() if pod else (),
    )


def children(host: Namespace) -> tuple[tuple[str, int], ...]:
    """Return alias and ifindex of every link on the host that the plugin made."""
    links = links_from(host.links())
    return tuple((link.alias, link.index) for link in links if is_ours_on_host(link))


def pkeys(sys_root: str, rdma_device: str, port: int) -> tuple[int, ...]:
    """Return the P_Key table of a port of the RDMA device, empty slots as 0; () if it has none."""
    folder = Path(sys_root, "class/infiniband", rdma_device, f"ports/{port}/pkeys")
    try:
        return tuple(int(path.read_text(), 16) for path in sorted(folder.iterdir(), key=_number))
    except (OSError, ValueError):
        return ()


def _number(path: Path) -> int:
    return int(path.name)


def _child_in(space: Namespace | None, alias: str) -> Link | None:
    links = links_from(space.links()) if space else ()
    return next((link for link in links if is_child(link, alias)), None)


def _state(space: Namespace | None, link: Link | None) -> LinkState | None:
    return None if space is None or link is None else space.state(link)
