"""Planner: derives plans from desired and observed state, for attach, detach, repair and undo.

Rules:
1. The plan is empty if observed equals desired state, so also after a plan was applied.
2. A plan does not delete state that others added on the host: it only moves, sets and adds. It
   removes only what the pod left on the device (XDP and TCX programs, altnames), and the TCX
   programs of the host for `disableEbpfPrograms`.
3. One message moves a link into a pod (move, rename, MTU, MAC, offload sizes). For the restore the
   link is renamed in the pod first: with a rename in the move message, udev gets the pod's name.
4. A name in use is an error in a pod. On the host the device gets a temporary name until its own is
   free.
5. RDMA devices move before the net device, into the pod and back (rdma.py has the reasons).
"""

from dataclasses import dataclass
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    ARPHRD_INFINIBAND,
    IPOIB_MTU,
    IpoibMode,
    IpoibState,
    Link,
    LinkState,
    Ns,
    Observed,
    RdmaLink,
    Rule,
)
from dranet_nri.plan.child import Child, make_child, remove_child
from dranet_nri.plan.diff import (
    drop_altnames,
    link_with,
    missing_addresses,
    plan_settings,
    set_down_state,
    settings_of,
)
from dranet_nri.plan.lease_ops import DropAddress
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    AddChild,
    AddNeighbour,
    AddRoute,
    AddRule,
    LinkSettings,
    MoveLink,
    MoveRdma,
    Op,
    Plan,
    RenameLink,
    SetDown,
    SetLink,
    SetMaster,
    SetSysctl,
    SetUp,
)
from dranet_nri.plan.pod_network import PodNetwork
from dranet_nri.plan.rdma import plan_rdma_attach, plan_rdma_restore, why_rdma_not_restored
from dranet_nri.plan.restore import RestoreTarget, plan_restore
from dranet_nri.plan.routes.comparison import missing_routes
from dranet_nri.plan.routes.vrf import AddVrf
from dranet_nri.plan.settings.driver import plan_driver
from dranet_nri.plan.settings.offloads import plan_offloads
from dranet_nri.plan.settings.programs import DisableTcx
from dranet_nri.plan.settings.rate import LimitRate

IFA_F_MCAUTOJOIN: Final = 0x400  # linux/if_addr.h


@dataclass(frozen=True, slots=True)
class AttachTarget:
    """Desired state: the device is in the pod.

    Attributes:
        network: its configuration there; None without a net device.
        host: state of its net device before the first operation.
        rdma: its RDMA devices that move with it, as observed on the host.
        rdma_name: name in the pod of its RDMA device, "" to keep its own.
        child: child link for the pod in place of the device, None without one.
    """

    network: PodNetwork | None = None
    host: LinkState | None = None
    rdma: tuple[RdmaLink, ...] = ()
    rdma_name: str = ""
    child: Child | None = None


DesiredState = AttachTarget | RestoreTarget


def make_plan(desired: DesiredState, observed: Observed) -> Plan:
    """Return the operations for one device.

    Returns:
        The operations in order; empty if nothing is left to do, or if a device to restore is in
        neither namespace. A plan that creates a net device ends with that operation: observe and
        plan again, see `is_incomplete`.

    Raises:
        RefusedError: the desired state is not possible: a name is taken, an MTU out of range, a
            recreated link has claimed offload features, or the device is missing.
    """
    if desired.child:
        return _plan_child(desired, observed)
    if isinstance(desired, AttachTarget):
        state, moves = (
            desired.host,
            plan_rdma_attach(desired.rdma, desired.rdma_name, observed.rdma),
        )
        if desired.network is None or state is None:
            return moves
        rest = _plan_pod(desired.network, state, _without_namesake(state.link, observed))
        if is_incomplete(state, moves):
            _require_no_ethtool(desired.network, state.link)
    else:
        state, moves = desired.snapshot, plan_rdma_restore(desired.rdma, observed.rdma)
        rest = plan_restore(desired, state, observed) if state is not None else ()
    return moves if is_incomplete(state, moves) else (*moves, *rest)


def _plan_child(desired: DesiredState, observed: Observed) -> Plan:
    if isinstance(desired, RestoreTarget) or desired.child is None or desired.network is None:
        return remove_child(observed)
    state = observed.pod or observed.host
    if state is None:
        return make_child(desired.network, desired.child, observed)
    network = desired.network
    ops = _plan_pod(network, state, observed)
    if network.rate in {0, observed.pod_rate}:
        return ops
    # Before the link is up, so that all traffic is limited; a move resets the limit.
    limited = LimitRate(Ns.POD, network.name, network.rate)
    named = next((number for number, op in enumerate(ops, 1) if _sets_pod_name(op)), 0)
    return *ops[:named], limited, *ops[named:]


def _sets_pod_name(op: Op) -> bool:
    """Whether the operation sets the link's name in the pod."""
    return isinstance(op, MoveLink | RenameLink)


def is_incomplete(state: LinkState | None, ops: Plan) -> bool:
    """Whether another plan must follow, because this one creates a net device.

    The ifindex of a new child, and of an IPoIB link whose RDMA device moves, is not known before.

    Args:
        state: state of the net device before, None without one.
        ops: the plan, or its first operations.
    """
    if any(isinstance(op, AddChild) for op in ops):
        return True
    if state is None or state.link.arphrd != ARPHRD_INFINIBAND:
        return False
    return any(isinstance(op, MoveRdma) for op in ops)


def is_restored(desired: RestoreTarget, observed: Observed) -> bool:
    """Whether the device is on the host under its own name and nothing is left to restore."""
    if desired.child:
        return not make_plan(desired, observed)
    if not _is_on_host(desired, observed):
        return False
    return desired.snapshot is None or not make_plan(desired, observed)


def is_usable(desired: RestoreTarget, observed: Observed) -> bool:
    """Whether the device is on the host with its name, settings, addresses and state.

    Its RDMA devices must be there with their names, too. Routes, rules, neighbours, altnames,
    sysctls and the master may be missing, because they may depend on other links of the host; so
    may the MTU, kept attributes and the mode of an IPoIB link, which the kernel may refuse.
    """
    if desired.child:
        return is_restored(desired, observed)
    if not _is_on_host(desired, observed):
        return False
    return not any(_is_essential(op) for op in make_plan(desired, observed))


def _is_essential(op: Op) -> bool:
    if isinstance(op, SetLink):
        return replace(op.settings, mtu=None, ipoib=None, kept=None) != LinkSettings()
    return isinstance(op, RenameLink | SetDown | SetUp | AddAddress)


def _is_on_host(desired: RestoreTarget, observed: Observed) -> bool:
    """Whether the device and its RDMA devices are on the host under their own names."""
    if why_rdma_not_restored(desired.rdma, observed.rdma):
        return False
    host, before = observed.host, desired.snapshot
    return before is None or (host is not None and host.link.name == before.link.name)


# --------------------------------------------------------------------------- into the pod


def _plan_pod(network: PodNetwork, state: LinkState, observed: Observed) -> Plan:
    if observed.pod is not None:
        rename = _rename_in_pod(network, observed.pod.link, observed.taken_pod_names)
        now = set_down_state(observed.pod) if rename else observed.pod
        complete = replace(network, settings=_with_inherited(network.settings, state.link))
        return *rename, *_configure_pod(complete, now, observed.pod_rules)
    if observed.host is None:
        raise RefusedError(
            f"device {state.link.name} is neither on the host nor in the pod: its driver was"
            " unbound, or another namespace has it; see dranet-nri status"
        )
    _check_name(network, observed.host.link, observed)
    _check_mtu(network.settings.mtu, observed.host.link, state.link.ipoib)
    link = observed.host.link
    moved = LinkState(link=replace(link, name=network.name, up=False))
    return (
        *_leave_master(observed.host),
        *_leave_groups(observed.host),
        *((SetDown(Ns.HOST, link.index),) if link.up else ()),
        *plan_offloads(network.features, network.private_flags, observed.host),
        *plan_driver(network.driver, network.rss_table, observed.host),
        *_disable_ebpf(network, observed.host),
        *drop_altnames(Ns.HOST, link, network.name, observed.taken_pod_names),
        MoveLink(Ns.HOST, link.index, Ns.POD, network.name, network.settings),
        *_configure_pod(replace(network, settings=LinkSettings()), moved, observed.pod_rules),
    )


def _disable_ebpf(network: PodNetwork, host: LinkState) -> Plan:
    """Disable TCX programs, which a move keeps; it removes filters of tc (dev_shutdown)."""
    return (DisableTcx(Ns.HOST, host.link.name),) if network.disable_ebpf and host.tcx != () else ()


def _without_namesake(snapshot: Link, observed: Observed) -> Observed:
    """Return the observation without a link in the other namespace that only has its name.

    A virtual device is found by name; it has its recorded ifindex until it leaves the host.
    """
    host, pod = observed.host, observed.pod
    if host is None or pod is None or host.link.parent:
        return observed
    if host.link.index == snapshot.index:
        taken = observed.taken_pod_names | {pod.link.name, *pod.link.altnames}
        return replace(observed, pod=None, taken_pod_names=taken)
    taken = observed.taken_host_names | {host.link.name, *host.link.altnames}
    return replace(observed, host=None, taken_host_names=taken)


def _check_name(network: PodNetwork, link: Link, observed: Observed) -> None:
    if network.name in observed.taken_pod_names:
        raise RefusedError(
            f"interface.name {network.name!r} for device {link.name} is taken in the pod;"
            " set interface.name to another one"
        )


def _check_mtu(mtu: int | None, link: Link, ipoib: IpoibState | None) -> None:
    """Refuse an MTU out of the device's range; for an IPoIB link, that of its mode in the pod.

    The kernel reports the range of connected mode in both modes (ipoib_add_port, ulp/ipoib).
    """
    low, high, where, remedy = link.min_mtu, link.max_mtu, "", ""
    if ipoib is not None:
        mode = IpoibMode.CONNECTED if ipoib.connected else IpoibMode.DATAGRAM
        least, most = IPOIB_MTU[mode]
        low, high, where = max(low, least), min(high or most, most), f" in {mode} mode"
    if ipoib is not None and not ipoib.connected:
        remedy = f"; lower it, or put {link.name} into connected mode on the host"
    if mtu is not None and high and mtu > high:
        raise RefusedError(
            f"interface.mtu {mtu} is above what device {link.name} can do{where};"
            f" its maximum is {high}{remedy}"
        )
    if mtu is not None and mtu < low:
        raise RefusedError(
            f"interface.mtu {mtu} is below what device {link.name} can do{where};"
            f" its minimum is {low}"
        )


def _require_no_ethtool(network: PodNetwork, link: Link) -> None:
    """Refuse ethtool settings for a link that the kernel recreates in the pod."""
    if network.features or network.private_flags or network.driver or network.rss_table:
        raise RefusedError(
            f"ethtool for device {link.name}: the kernel recreates this IPoIB interface when its"
            " RDMA device moves to the pod, and features cannot be set there; remove ethtool"
        )


def _with_inherited(claimed: LinkSettings, before: Link) -> LinkSettings:
    """Return the claimed settings, and those of the host's link for the rest.

    Only for an IPoIB link: the kernel recreates it when its RDMA device moves, and a move keeps the
    settings of any other link. With an unknown mode it may refuse the MTU.
    """
    if before.ipoib is None:
        return claimed
    return replace(settings_of(link_with(before, claimed)), mac=claimed.mac)


def _leave_master(host: LinkState) -> Plan:
    return (SetMaster(Ns.HOST, host.link.name, ""),) if host.master_name else ()


def _leave_groups(host: LinkState) -> Plan:
    """Delete addresses whose groups the kernel joined.

    It leaves these only then, not with a move (inet_rtm_deladdr, net/ipv4/devinet.c). If it had not
    left, it would refuse the addresses in the restore.
    """
    joined = (address for address in host.addresses if address.flags & IFA_F_MCAUTOJOIN)
    return tuple(DropAddress(Ns.HOST, host.link.name, address.cidr) for address in joined)


def _rename_in_pod(network: PodNetwork, link: Link, taken: frozenset[str]) -> Plan:
    """Return the operations that rename a device in the pod to its desired name."""
    if link.name == network.name:
        return ()
    if network.name in taken:
        raise RefusedError(
            f"interface.name {network.name!r} is taken in the pod; set interface.name to another"
        )
    return (
        *drop_altnames(Ns.POD, link, network.name, frozenset()),
        SetDown(Ns.POD, link.index),
        RenameLink(Ns.POD, link.index, network.name),
    )


def _configure_pod(network: PodNetwork, now: LinkState, rules: tuple[Rule, ...]) -> Plan:
    name = network.name
    ops: list[Op] = [*plan_settings(Ns.POD, name, network.settings, now.link)]
    ops += (
        AddAltname(Ns.POD, name, altname)
        for altname in network.altnames
        # For the kernel the link's own name is in use, and the link is found by it.
        if altname not in (name, *now.link.altnames)
    )
    vrf = network.vrf
    if vrf is not None and now.master_name != vrf.name:
        # Before addresses: the kernel does not move an IPv6 address between tables.
        ops += (AddVrf(Ns.POD, vrf.name, vrf.table), SetMaster(Ns.POD, name, vrf.name))
    ops += (
        SetSysctl(Ns.POD, name, sysctl) for sysctl in network.sysctls if sysctl not in now.sysctls
    )
    ops += (
        AddAddress(Ns.POD, name, address)
        for address in missing_addresses(network.addresses, now.addresses)
    )
    if not now.link.up:
        ops.append(SetUp(Ns.POD, name))
    ops += (AddRoute(Ns.POD, name, route) for route in missing_routes(network.routes, now.routes))
    ops += (AddRule(Ns.POD, rule) for rule in network.rules if rule not in rules)
    ops += (
        AddNeighbour(Ns.POD, name, neighbour)
        for neighbour in network.neighbours
        if neighbour not in now.neighbours
    )
    return tuple(ops)
