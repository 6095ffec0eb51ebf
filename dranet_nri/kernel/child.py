"""Child links: requests that create, find and delete them.

Numbers are those of linux/if_link.h.
"""

import struct
from errno import EEXIST
from pathlib import Path
from typing import Final, assert_never

from dranet_nri.errors import KernelError
from dranet_nri.kernel.links import (
    NLM_F_EXCL_CREATE,
    RTM_NEWLINK,
    MoveEnd,
    link_info,
    set_settings,
    u16_attribute,
)
from dranet_nri.kernel.messages import LinkMessage
from dranet_nri.kernel.namespace import Namespace
from dranet_nri.kernel.settings import rate
from dranet_nri.linux.netlink.codec import Value, attribute, encode
from dranet_nri.linux.netlink.links import (
    IFLA_IPOIB_MODE,
    INFO,
    IPOIB_MODE_CONNECTED,
    IPOIB_MODE_DATAGRAM,
    index_of,
    links_from,
)
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.linux.rdma import errors
from dranet_nri.model import (
    ChildConfig,
    ChildFlag,
    IpoibConfig,
    IpoibMode,
    IpvlanConfig,
    IpvlanMode,
    Link,
    LinkState,
    MacvlanConfig,
    Ns,
    Observed,
    VlanConfig,
    VlanProtocol,
)
from dranet_nri.plan.child import is_any_child_on_host, is_child
from dranet_nri.plan.ops import AddChild, LinkSettings

RTM_DELLINK: Final = 17
IFLA_IPOIB_PKEY: Final = 1
IFLA_IPVLAN_MODE, IFLA_IPVLAN_FLAGS = 1, 2
IFLA_MACVLAN_MODE: Final = 1
IFLA_VLAN_ID, IFLA_VLAN_PROTOCOL = 1, 5
# IPVLAN_MODE_*, IPVLAN_F_*, MACVLAN_MODE_*, and ETH_P_8021Q and ETH_P_8021AD (linux/if_ether.h).
IPVLAN_MODES: Final = {IpvlanMode.L2: 0, IpvlanMode.L3: 1, IpvlanMode.L3S: 2}
IPVLAN_FLAGS: Final = {ChildFlag.BRIDGE: 0, ChildFlag.PRIVATE: 1, ChildFlag.VEPA: 2}
MACVLAN_MODES: Final = {ChildFlag.PRIVATE: 1, ChildFlag.VEPA: 2, ChildFlag.BRIDGE: 4}
PROTOCOLS: Final = {VlanProtocol.CUSTOMER: 0x8100, VlanProtocol.SERVICE: 0x88A8}


def add(host: RtnetlinkSocket, where: MoveEnd, what: str, op: AddChild) -> None:
    """Create the child, unless it exists, and set its alias.

    Args:
        host: socket of the parent's namespace.
        where: namespace of the child.
        what: name of the operation in errors.
        op: the operation.

    Raises:
        KernelError: the kernel refused; for an IPoIB child the text has the remedy.
    """
    attrs: list[tuple[str, Value]] = [
        ("IFLA_IFNAME", op.name),
        ("IFLA_LINK", op.parent),
        ("IFLA_LINKINFO", _info(op.link)),
    ]
    if op.ns is Ns.POD:
        attrs.append(("IFLA_NET_NS_FD", where.fd))
    try:
        host.do(what, RTM_NEWLINK, NLM_F_EXCL_CREATE, encode(LinkMessage, {}, attrs))
    except KernelError as error:
        # EEXIST may also mean a VLAN id in use, maybe in another namespace.
        if error.code != EEXIST or not _exists(where.netlink, what, op.name):
            raise _explained(error, op.link) from error
    index = index_of(where.netlink, what, op.name)
    set_settings(where.netlink, what, index, LinkSettings(alias=op.alias))


def _info(link: ChildConfig) -> Value:
    """Return IFLA_LINKINFO."""
    match link:
        case IpoibConfig(pkey, mode):
            connected = mode is IpoibMode.CONNECTED
            number = IPOIB_MODE_CONNECTED if connected else IPOIB_MODE_DATAGRAM
            key = (u16_attribute(IFLA_IPOIB_PKEY, pkey),) if pkey is not None else ()
            return link_info("ipoib", *key, u16_attribute(IFLA_IPOIB_MODE, number))
        case IpvlanConfig(ipvlan_mode, flag):
            return link_info(
                "ipvlan",
                u16_attribute(IFLA_IPVLAN_MODE, IPVLAN_MODES[ipvlan_mode]),
                u16_attribute(IFLA_IPVLAN_FLAGS, IPVLAN_FLAGS[flag]),
            )
        case MacvlanConfig(flag):
            number = MACVLAN_MODES[flag]
            return link_info("macvlan", attribute(IFLA_MACVLAN_MODE, struct.pack("=I", number)))
        case VlanConfig(vlan_id, protocol):
            tag = struct.pack("!H", PROTOCOLS[protocol])
            return link_info(
                "vlan", u16_attribute(IFLA_VLAN_ID, vlan_id), attribute(IFLA_VLAN_PROTOCOL, tag)
            )
        case _:
            assert_never(link)


def _exists(netlink: RtnetlinkSocket, what: str, name: str) -> bool:
    try:
        return bool(index_of(netlink, what, name))
    except KernelError as error:
        if error.already_gone:
            return False
        raise


def _explained(error: KernelError, link: ChildConfig) -> KernelError:
    if not isinstance(link, IpoibConfig):
        return error
    connected = link.mode is IpoibMode.CONNECTED
    return errors.explained(error, errors.ADD_CONNECTED if connected else errors.ADD_IPOIB)


def delete(netlink: RtnetlinkSocket, what: str, index: int) -> None:
    """Delete the link, if it exists."""
    try:
        netlink.do(what, RTM_DELLINK, 0, INFO.pack(0, 0, index, 0, 0))
    except KernelError as error:
        if not error.already_gone:
            raise


def observe_child(host: Namespace, pod: Namespace | None, alias: str) -> Observed:
    """Return the location and state of the child with this alias.

    Raises:
        KernelError: a dump failed.
    """
    here, there = _child_in(host, alias), _child_in(pod, alias)
    links = pod.links() if pod else ()
    taken = {name for dumped in links for name in (dumped.name, *dumped.altnames)}
    return Observed(
        host=_state(host, here),
        pod=_state(pod, there),
        taken_pod_names=frozenset(taken - {there.name if there else ""}),
        pod_rules=pod.rules() if pod else (),
        pod_rate=rate.rate_of(pod.netlink, pod.ns, there.index) if pod and there else 0,
    )


def children(host: Namespace) -> tuple[tuple[str, int], ...]:
    """Return alias and ifindex of every child on the host."""
    links = links_from(host.links())
    return tuple((link.alias, link.index) for link in links if is_any_child_on_host(link))


def pkeys(sys_root: str, rdma_device: str, port: int) -> tuple[int, ...]:
    """Return the P_Key table of a port of the RDMA device, empty slots as 0; () without one."""
    directory = Path(sys_root, "class/infiniband", rdma_device, f"ports/{port}/pkeys")
    try:
        return tuple(int(path.read_text(), 16) for path in sorted(directory.iterdir(), key=_number))
    except (OSError, ValueError):
        return ()


def _number(path: Path) -> int:
    return int(path.name)


def _child_in(namespace: Namespace | None, alias: str) -> Link | None:
    links = links_from(namespace.links()) if namespace else ()
    return next((link for link in links if is_child(link, alias)), None)


def _state(namespace: Namespace | None, link: Link | None) -> LinkState | None:
    return None if namespace is None or link is None else namespace.state(link)
