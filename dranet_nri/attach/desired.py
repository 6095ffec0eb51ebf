"""Desired state of a pod's devices: the allocation merged with the observed state.

Rules:
1. The snapshot of a device is taken here, once, before any operation on the device.
2. Nothing is changed in the kernel.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_interface
from typing import Final

from dranet_nri.attach.checks.guard import HostScan, waits_for_name
from dranet_nri.attach.child import expect_child
from dranet_nri.attach.observation import observe
from dranet_nri.attach.rdma import (
    IP_ONLY_WARNING,
    NETWORK,
    NO_GID_WARNING,
    RdmaOptions,
    require_alone,
    require_lasting,
    require_verbs,
    shared_after_move,
    with_files,
    with_rdma,
)
from dranet_nri.attach.snapshot import snapshot_of
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
from dranet_nri.plan.identity import rdma_identity, why_unclear
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.lacking import Refused, may_lack, warning_lines
from dranet_nri.plan.ops import AddAddress, Op, Plan
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
        given: addresses from the network in the pod.
        is_settled: whether these addresses are complete; routes may need them.
    """

    claim_uid: str
    allocated: AllocatedDevice
    record: AttachedDevice
    observed: Observed
    network: PodNetwork | None = None
    child: Child | None = None
    given: tuple[str, ...] = ()
    is_settled: bool = False

    @property
    def is_in_use(self) -> bool:
        """Whether part of an attached device is still in the pod; a driver recreated the rest."""
        there = self.observed.rdma.pod
        left = self.observed.pod is not None or any(
            find_same(link, there) for link in self.record.rdma
        )
        return left and self.record.was_given

    def plan(self) -> Plan:
        """Return the attach plan; without routes until dynamic addresses are complete.

        Raises:
            RefusedError: the desired state is not possible.
        """
        record, network = self.record, self.network
        if network and network.is_dynamic and not self.is_settled:
            network = replace(network, routes=(), rules=())
        allocated = AttachTarget(
            network, record.snapshot, record.rdma, record.rdma_name, child=self.child
        )
        return make_plan(allocated, self.observed)

    def observed_again(self, session: Session) -> "DesiredDevice":
        """Return the target with a new observation."""
        return replace(self, observed=observe(session, self.record))

    def may_lack(self, op: Op, error: KernelError) -> bool:
        """Whether the refused operation is optional for the pod."""
        return self.network is not None and may_lack(self.network.inherited, op, error)

    def attached(
        self,
        session: Session,
        options: RdmaOptions,
        sleep: Callable[[float], None],
        refused: Refused,
    ) -> AttachedDevice:
        """Return the record of the attached device, with its device files.

        Args:
            session: of the pod.
            options: RDMA options of the operator.
            sleep: waits that many seconds.
            refused: its refused operations, see may_lack.

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
        record = warned(record)
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
        lacking = {op.address for op, _ in refused if isinstance(op, AddAddress)}
        addresses = self.network.addresses if self.network else ()
        static = (address.cidr for address in addresses if address not in lacking)
        return (*static, *self.given)

    def _warnings(self, refused: Refused, options: RdmaOptions) -> Iterator[str]:
        """Yield warnings about the network configuration in the pod."""
        if self.network is None:
            return
        for text in warning_lines(self.network.warnings, refused):
            yield f"{NETWORK}{text}"
        for lost in self._disabled():
            yield f"{NETWORK}not given back to the host: {lost}; what attached it must do it again"
        is_roce = self.allocated.device.attribute("dra.net/rdmaProtocol") == "roce"
        has_rdma = not self.child or IP_ONLY_WARNING not in self.record.warnings
        needs_gid = is_roce and has_rdma and char_kinds(self.allocated.config, options.kinds)
        addresses = map(ip_interface, self._addresses(refused))
        if needs_gid and all(address.is_link_local for address in addresses):
            yield f"{NETWORK}{NO_GID_WARNING}"

    def _disabled(self) -> Iterator[str]:
        """Yield what disableEbpfPrograms takes off for good."""
        if self.network is None or not self.network.disable_ebpf:
            return
        if filters := self.allocated.device.attribute("dra.net/tcFilterNames"):
            yield f"tc filters {filters}"
        snapshot = self.record.snapshot
        held = [program.id for program in snapshot.tcx or () if program.link] if snapshot else []
        if held:
            yield f"TCX programs {', '.join(map(str, held))}, which BPF links hold"


def moved(allocation: Allocation) -> tuple[AllocatedDevice, ...]:
    """Return the devices that are attached: all except adminAccess results."""
    return tuple(device for device in allocation.devices if not device.admin_access)


def carried(allocated: AllocatedDevice, before: Attachment | None) -> AttachedDevice:
    """Return a record of the device or share; an unrestored one keeps its recorded facts."""
    fresh = AttachedDevice(allocated.request, allocated.device, share_id=allocated.share_id)
    for device in before.devices if before else ():
        if device.identity == allocated.identity and not device.home:
            carried_over = replace(device, shared_rdma=(), warnings=(), lease=None)
            return replace(carried_over, request=allocated.request, device=allocated.device)
    return fresh


def warned(record: AttachedDevice) -> AttachedDevice:
    """Return the record with a warning of host routes that cannot be restored."""
    routes = record.snapshot.unrestorable if record.snapshot else ()
    if not routes:
        return record
    more = ", and others" if len(routes) > MAX_NAMED else ""
    warning = (
        f"not given back to the host: route {'; '.join(routes[:MAX_NAMED])}{more}; what made it"
        " must add it again"
    )
    return replace(record, warnings=(warning, *record.warnings))


def resolve(
    session: Session,
    records: tuple[Attachment, ...],
    allocations: tuple[Allocation, ...],
    beside: tuple[Attachment, ...],
    now_s: int,
    options: RdmaOptions,
    host_scan: HostScan,
) -> tuple[DesiredDevice, ...]:
    """Return the devices of the claims in attach order.

    Args:
        session: of the pod.
        records: one per claim, with the recorded snapshots.
        allocations: allocations of the same claims, in the same order.
        beside: records of other claims with devices in the pod.
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
        for device, allocated in zip(record.devices, moved(allocation), strict=True)
    )
    _require_distinct("interface", [target.network.name for target in targets if target.network])
    rdma = {
        (link.index, target.record.rdma_name)
        for target in targets
        if target.record.rdma_name
        for link in target.record.rdma
    }
    _require_distinct("rdma", [name for _, name in rdma])
    return _compatible_on_parent(session, targets, beside)


def _require_distinct(kind: str, names: list[str]) -> None:
    """Refuse a name that is claimed for several net or RDMA devices of the pod."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RefusedError(
            f"{kind} name {twice[0]!r} is wanted by two devices of the pod;"
            f" give each a request of its own, with its own {kind}.name"
        )


def _compatible_on_parent(
    session: Session, targets: tuple[DesiredDevice, ...], beside: tuple[Attachment, ...]
) -> tuple[DesiredDevice, ...]:
    """Return the targets without routes that conflict with each other or with the pod's devices."""
    observations = [target.observed for target in targets]
    observations += (
        observe(session, device) for record in beside for device in record.devices if device.touched
    )
    networks = [target.network or PodNetwork("") for target in targets]
    if not any(network.routes for network in networks):
        return targets
    there = [observed.pod for observed in observations]
    taken = session.pod_slots({state.link.index for state in there if state})
    placed = separate_routes(networks, [state.routes if state else () for state in there], taken)
    return tuple(
        replace(target, network=target.network and network)
        for target, network in zip(targets, placed, strict=True)
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
        made = expect_child(session, target.claim_uid, allocated, child, device, options)
        host_scan.require_publishable(allocated.device, made.child.parent.index, stays=True)
        return replace(
            target,
            record=made.record,
            observed=made.observed,
            network=made.network,
            child=made.child,
        )
    named = replace(device, rdma_name=allocated.config.rdma.name or "")
    observed = observe(session, named, allocated.config.ethtool.groups)
    if observed.unclear:
        raise RefusedError(why_unclear(device.device, observed.unclear))
    if observed.pod is None and not waits_for_name(observed.host, device.snapshot):
        here = observed.host.link.index if observed.host else None
        host_scan.require_publishable(allocated.device, here)
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
            device = replace(device, snapshot=snapshot, snapshot_s=now_s, home=False)
        require_lasting(allocated.device, observed)
        network = pod_network(allocated.config, snapshot)
        device = replace(device, pod_name=network.name, pod_altnames=network.altnames)
    device = with_rdma(allocated, device, observed.rdma, options)
    require_alone(session, allocated.device, device.rdma, observed.lost_with_rdma)
    return replace(target, record=device, observed=observed, network=network)


def _require_possible(allocated: AllocatedDevice) -> None:
    """Refuse what Prepare refuses: a record of an older version was not checked for it."""
    name = allocated.device.name
    if bare := why_without_interface(allocated.device):
        raise RefusedError(
            f"device {name}: when the pod's claim was prepared, it {bare}; delete"
            " the pod, so that it is prepared anew"
        )
    if allocated.share_id and (problems := violations_for_share(allocated.config)):
        raise RefusedError(f"device {name}: {'; '.join(problems)}")


def _require_features(allocated: AllocatedDevice, host: LinkState | None) -> None:
    """Refuse ethtool settings if the kernel does not support them by netlink."""
    if allocated.config.ethtool and host is not None and host.ethtool is None:
        raise RefusedError(
            f"device {allocated.device.name}: ethtool needs Linux 5.7 or newer on the node;"
            " remove it"
        )
