"""Desired state of a pod's devices: the allocation merged with the observed state.

Rules:
1. The snapshot of a device is taken here, once, before any operation on the device.
2. Nothing is changed in the kernel.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_interface
from typing import Final

from dranet_nri.attach.checks.guard import HostScan, has_temporary_name
from dranet_nri.attach.child import expect_child
from dranet_nri.attach.observation import observe
from dranet_nri.attach.rdma import (
    IP_ONLY_WARNING,
    NETWORK,
    NO_GID_WARNING,
    RdmaOptions,
    require_no_lost_links,
    require_no_software_rdma,
    require_verbs,
    shared_after_move,
    with_files,
    with_rdma,
)
from dranet_nri.attach.snapshot import snapshot_of
from dranet_nri.component.replace import replace
from dranet_nri.config import char_kinds, violations_for_share, why_without_interface
from dranet_nri.errors import KernelError, RefusedError
from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    LinkState,
    Observed,
    RdmaMode,
)
from dranet_nri.plan.child import Child
from dranet_nri.plan.identity import rdma_identity, why_ambiguous
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import AddAddress, Op, Plan
from dranet_nri.plan.optional import Refused, is_optional, warning_lines
from dranet_nri.plan.planner import AttachTarget, make_plan
from dranet_nri.plan.pod_network import PodNetwork, pod_network
from dranet_nri.plan.rdma import find_same
from dranet_nri.plan.routes.conflicts import separate_routes

MAX_NAMED: Final = 3  # routes in a warning


@dataclass(frozen=True, slots=True)
class DesiredDevice:
    """One device to attach.

    Attributes:
        claim_uid: UID of its claim.
        allocated: the allocated device.
        record: its record, with snapshot and names in the pod.
        observed: its current location.
        network: desired configuration in the pod; None without a net device, or for a shared
            device, which stays on the host.
        child: link to create for the pod in place of the device, None without one.
        dynamic_addresses: addresses by DHCP or SLAAC.
        has_addresses: whether these are complete; routes may need them.
    """

    claim_uid: str
    allocated: AllocatedDevice
    record: AttachedDevice
    observed: Observed
    network: PodNetwork | None = None
    child: Child | None = None
    dynamic_addresses: tuple[str, ...] = ()
    has_addresses: bool = False

    @property
    def is_in_use(self) -> bool:
        """Whether a part of an attached device is still in the pod."""
        in_pod = self.observed.pod is not None or any(
            find_same(link, self.observed.rdma.pod) for link in self.record.rdma
        )
        return in_pod and self.record.was_attached

    def plan(self) -> Plan:
        """Return the attach plan; without routes until dynamic addresses are complete.

        Raises:
            RefusedError: the desired state is not possible.
        """
        record, network = self.record, self.network
        if network and network.is_dynamic and not self.has_addresses:
            network = replace(network, routes=(), rules=())
        target = AttachTarget(
            network, record.snapshot, record.rdma, record.rdma_name, child=self.child
        )
        return make_plan(target, self.observed)

    def observed_again(self, session: Session) -> "DesiredDevice":
        """Return the same desired state with a new observation."""
        return replace(self, observed=observe(session, self.record))

    def is_optional(self, op: Op, error: KernelError) -> bool:
        """Whether the attach continues without the refused operation."""
        return self.network is not None and is_optional(self.network.inherited, op, error)

    def attached(
        self,
        session: Session,
        options: RdmaOptions,
        sleep: Callable[[float], None],
        refused: Refused,
    ) -> AttachedDevice:
        """Return the record of the attached device, with its device files.

        Args:
            session: session of the pod.
            options: RDMA options of the operator.
            sleep: waits that many seconds.
            refused: its optional operations that the kernel refused.

        Raises:
            KernelError: the kernel did not return the files, or an RDMA device is gone.
            RefusedError: containers cannot use its RDMA device.
        """
        link = session.pod_link(self.network.name) if self.network else None
        rdma = self.observed.rdma
        if link and not self.child and rdma.mode is RdmaMode.SHARED:
            identity = rdma_identity(self.record, Observed(pod=LinkState(link)))
            rdma = shared_after_move(session, identity, rdma.host, sleep)
        record = replace(
            self.record, warnings=(*self.record.warnings, *self._warnings(refused, options))
        )
        record = with_files(session, record, self.allocated.config, rdma, options)
        require_verbs(record, self.allocated.config, options)
        record = with_route_warning(record)
        if self.network is None or link is None:
            return record
        return replace(
            record,
            pod_index=0 if self.child else link.index,
            mac=link.mac,
            mtu=link.mtu,
            addresses=self._addresses(refused),
        )

    def _addresses(self, refused: Refused) -> tuple[str, ...]:
        missing = {op.address for op, _ in refused if isinstance(op, AddAddress)}
        addresses = self.network.addresses if self.network else ()
        static = (address.cidr for address in addresses if address not in missing)
        return (*static, *self.dynamic_addresses)

    def _warnings(self, refused: Refused, options: RdmaOptions) -> Iterator[str]:
        """Yield warnings about the network configuration in the pod."""
        if self.network is None:
            return
        for text in warning_lines(self.network.warnings, refused):
            yield f"{NETWORK}{text}"
        for programs in self._disabled_programs():
            yield f"{NETWORK}not restored on the host: {programs}; attach them again"
        is_roce = self.allocated.device.attribute("dra.net/rdmaProtocol") == "roce"
        has_rdma = not self.child or IP_ONLY_WARNING not in self.record.warnings
        needs_gid = is_roce and has_rdma and char_kinds(self.allocated.config, options.kinds)
        addresses = map(ip_interface, self._addresses(refused))
        if needs_gid and all(address.is_link_local for address in addresses):
            yield f"{NETWORK}{NO_GID_WARNING}"

    def _disabled_programs(self) -> Iterator[str]:
        """Yield the programs that disableEbpfPrograms detaches and a restore cannot attach."""
        if self.network is None or not self.network.disable_ebpf:
            return
        if filters := self.allocated.device.attribute("dra.net/tcFilterNames"):
            yield f"tc filters {filters}"
        snapshot = self.record.snapshot
        linked = [program.id for program in snapshot.tcx or () if program.link] if snapshot else []
        if linked:
            yield f"TCX programs {', '.join(map(str, linked))}, which BPF links attach"


def devices_to_attach(allocation: Allocation) -> tuple[AllocatedDevice, ...]:
    """Return the devices that the pod gets: all except those with adminAccess."""
    return tuple(device for device in allocation.devices if not device.admin_access)


def carried_over(allocated: AllocatedDevice, before: Attachment | None) -> AttachedDevice:
    """Return a record of the device or share, with the recorded facts of an unrestored one."""
    new = AttachedDevice(allocated.request, allocated.device, share_id=allocated.share_id)
    for device in before.devices if before else ():
        if device.identity == allocated.identity and not device.restored:
            recorded = replace(device, shared_rdma=(), warnings=(), lease=None)
            return replace(recorded, request=allocated.request, device=allocated.device)
    return new


def with_route_warning(record: AttachedDevice) -> AttachedDevice:
    """Return the record with a warning of host routes that cannot be restored."""
    routes = record.snapshot.unrestorable if record.snapshot else ()
    if not routes:
        return record
    more = ", and others" if len(routes) > MAX_NAMED else ""
    warning = (
        f"not restored on the host: route {'; '.join(routes[:MAX_NAMED])}{more}; add it again when"
        " the pod has ended"
    )
    return replace(record, warnings=(warning, *record.warnings))


def resolve(
    session: Session,
    records: tuple[Attachment, ...],
    allocations: tuple[Allocation, ...],
    others: tuple[Attachment, ...],
    now_s: int,
    options: RdmaOptions,
    host_scan: HostScan,
) -> tuple[DesiredDevice, ...]:
    """Return the desired state of the claims' devices, in attach order.

    Args:
        session: session of the pod.
        records: one per claim, with the recorded snapshots.
        allocations: allocations of the same claims, in the same order.
        others: records of other claims with devices in the pod.
        now_s: seconds of CLOCK_BOOTTIME, for new snapshots.
        options: RDMA options of the operator.
        host_scan: scan of the host.

    Raises:
        RefusedError: a device is missing, must not be published, cannot be configured as claimed,
            or has the same name as another.
        KernelError: the kernel could not be read.
    """
    targets = tuple(
        _target(
            session,
            DesiredDevice(record.claim.uid, allocated, device, Observed()),
            now_s,
            options,
            host_scan,
        )
        for record, allocation in zip(records, allocations, strict=True)
        for device, allocated in zip(record.devices, devices_to_attach(allocation), strict=True)
    )
    _require_distinct("interface", [target.network.name for target in targets if target.network])
    rdma = {
        (link.index, target.record.rdma_name)
        for target in targets
        if target.record.rdma_name
        for link in target.record.rdma
    }
    _require_distinct("rdma", [name for _, name in rdma])
    return _without_route_conflicts(session, targets, others)


def _require_distinct(kind: str, names: list[str]) -> None:
    """Refuse a name that is claimed for several net or RDMA devices of the pod."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RefusedError(
            f"{kind} name {twice[0]!r} is requested for two devices of the pod;"
            f" give each a request of its own, with its own {kind}.name"
        )


def _without_route_conflicts(
    session: Session, targets: tuple[DesiredDevice, ...], others: tuple[Attachment, ...]
) -> tuple[DesiredDevice, ...]:
    """Return the targets with routes that conflict neither with each other nor with the pod's."""
    observations = [target.observed for target in targets]
    observations += (
        observe(session, device)
        for record in others
        for device in record.devices
        if device.is_unrestored
    )
    networks = [target.network or PodNetwork("") for target in targets]
    if not any(network.routes for network in networks):
        return targets
    states = [observed.pod for observed in observations]
    taken = session.pod_route_keys({state.link.index for state in states if state})
    distinct = separate_routes(networks, [state.routes if state else () for state in states], taken)
    return tuple(
        replace(target, network=target.network and network)
        for target, network in zip(targets, distinct, strict=True)
    )


def _target(
    session: Session, target: DesiredDevice, now_s: int, options: RdmaOptions, host_scan: HostScan
) -> DesiredDevice:
    allocated, device = target.allocated, target.record
    key = device.device.key
    _require_possible(allocated)
    device = replace(
        device,
        pod_name=(device.pod_name or allocated.config.interface.name or key.name)
        if key.name
        else "",
    )
    child = allocated.config.interface.child
    if child is not None:
        expected = expect_child(session, target.claim_uid, allocated, child, device, options)
        host_scan.require_publishable(allocated.device, expected.child.parent.index, as_parent=True)
        return replace(
            target,
            record=expected.record,
            observed=expected.observed,
            network=expected.network,
            child=expected.child,
        )
    named = replace(device, rdma_name=allocated.config.rdma.name or "")
    observed = observe(session, named, allocated.config.ethtool.groups)
    if observed.ambiguous:
        raise RefusedError(why_ambiguous(device.device, observed.ambiguous))
    if observed.pod is None and not has_temporary_name(observed.host, device.snapshot):
        index = observed.host.link.index if observed.host else None
        host_scan.require_publishable(allocated.device, index)
    # A device on the host gets a new ifindex in the pod.
    device = replace(device, pod_index=observed.pod.link.index if observed.pod else 0)
    network = None
    if not key.name or allocated.share_id:
        device = replace(device, pod_name="")
    else:
        snapshot = device.snapshot
        if snapshot is None:
            _require_features(allocated, observed.host)
            snapshot = snapshot_of(session, allocated, observed)
            device = replace(device, snapshot=snapshot, snapshot_s=now_s, restored=False)
        require_no_software_rdma(allocated.device, observed)
        network = pod_network(allocated.config, snapshot)
        device = replace(device, pod_name=network.name, pod_altnames=network.altnames)
    device = with_rdma(allocated, device, observed.rdma, options)
    require_no_lost_links(session, allocated.device, device.rdma, observed.lost_with_rdma)
    return replace(target, record=device, observed=observed, network=network)


def _require_possible(allocated: AllocatedDevice) -> None:
    """Refuse what Prepare refuses: an older version of the shim may have written the record."""
    name = allocated.device.name
    if reason := why_without_interface(allocated.device):
        raise RefusedError(
            f"device {name}: when the pod's claim was prepared, it {reason}; delete"
            " the pod, so that it is prepared again"
        )
    if allocated.share_id and (problems := violations_for_share(allocated.config)):
        raise RefusedError(f"device {name}: {'; '.join(problems)}")


def _require_features(allocated: AllocatedDevice, host: LinkState | None) -> None:
    """Refuse ethtool settings if the kernel has no netlink messages for them."""
    if allocated.config.ethtool and host is not None and host.ethtool is None:
        raise RefusedError(
            f"device {allocated.device.name}: ethtool needs Linux 5.7 or newer on the node;"
            " remove it"
        )
