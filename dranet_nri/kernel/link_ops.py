"""Operations on one link, which the kernel identifies by ifindex.

A plan identifies the link by the ifindex that it has now, or by the name that it has then.
"""

from typing import assert_never

from dranet_nri.kernel import links
from dranet_nri.kernel.ip import addresses, neighbours, routes, rules
from dranet_nri.kernel.ip.addresses import AddressOp
from dranet_nri.kernel.namespace import Namespace
from dranet_nri.kernel.settings import rate
from dranet_nri.model import Ns
from dranet_nri.plan.lease_ops import DropAddress, LeaseAddress
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    AddNeighbour,
    AddRoute,
    AddRule,
    DelAltname,
    RenameLink,
    SetDown,
    SetLink,
    SetMaster,
    SetUp,
)
from dranet_nri.plan.settings.programs import DetachXdp
from dranet_nri.plan.settings.rate import LimitRate


def apply_by_index(
    namespace: Namespace, what: str, op: SetDown | RenameLink | DelAltname | DetachXdp | AddRule
) -> None:
    """Apply an operation on a link by ifindex, or one that concerns no link.

    Raises:
        KernelError: the kernel refused.
    """
    netlink = namespace.netlink
    match op:
        case SetDown():
            links.set_down(netlink, what, op.index)
        case RenameLink():
            links.rename(netlink, what, op.index, op.name)
        case DelAltname():
            links.del_altname(netlink, what, op.index, op.altname)
        case DetachXdp():
            links.detach_xdp(netlink, what, op.index, op.mode)
        case AddRule():
            rules.add_rule(netlink, what, op.rule)
        case _:
            assert_never(op)


def apply_by_name(
    namespace: Namespace,
    what: str,
    op: SetLink | SetUp | AddAltname | SetMaster | AddressOp | AddRoute | AddNeighbour | LimitRate,
) -> None:
    """Apply an operation on a link by name.

    Raises:
        KernelError: there is no link of that name, or the kernel refused.
    """
    netlink = namespace.netlink
    index = namespace.index(what, op.name)
    match op:
        case AddAddress() | LeaseAddress() | DropAddress():
            addresses.apply(netlink, what, index, op)
        case SetLink():
            links.set_settings(netlink, what, index, op.settings)
        case SetUp():
            links.set_up(netlink, what, index)
        case LimitRate():
            rate.limit(netlink, what, index, op.rate)
        case AddAltname():
            links.add_altname(netlink, what, index, op.altname)
        case SetMaster():
            master = namespace.index(what, op.master) if op.master else 0
            links.set_master(netlink, what, index, master)
        case AddRoute():
            routes.add_route(
                netlink,
                what,
                index,
                op.route,
                lambda name: namespace.index(what, name),
                append=op.ns is Ns.HOST,
            )
        case AddNeighbour():
            neighbours.add_neighbour(netlink, what, index, op.neighbour)
        case _:
            assert_never(op)
