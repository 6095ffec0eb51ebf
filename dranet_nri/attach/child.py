"""Child links: created for claims whose `interface.type` leaves the device on the host.

Rules:
1. The device and its RDMA devices stay on the host, so that several pods can have children.
2. In shared mode the pod also gets the RDMA device's files. In exclusive mode the pod could not
   open them, so it gets the network only, with a warning.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from dataclasses import dataclass
from math import inf
from typing import Final

from dranet_nri.attach.rdma import IP_ONLY_WARNING, RdmaOptions, require_mode, with_rdma
from dranet_nri.component.replace import replace
from dranet_nri.component.threads import set_step
from dranet_nri.config import choose_pkey
from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    ARPHRD_ETHER,
    ARPHRD_INFINIBAND,
    AllocatedDevice,
    AttachedDevice,
    Attachment,
    ChildConfig,
    Device,
    IpoibConfig,
    LinkState,
    Ns,
    Observed,
    RdmaMode,
)
from dranet_nri.plan.child import Child, alias_of
from dranet_nri.plan.identity import RdmaIdentity, device_identity, why_ambiguous
from dranet_nri.plan.kernel import Kernel, Session
from dranet_nri.plan.ops import DelLink
from dranet_nri.plan.pod_network import PodNetwork, child_network

PERIOD_S: Final = 30.0  # between scans for orphaned links on a node without children
CLOSE_WATCH_S: Final = 120.0  # of scans in each round after the last child


@dataclass(frozen=True, slots=True)
class ExpectedChild:
    """Desired state of a device whose child goes to the pod.

    Attributes:
        record: record of the device, with the child's alias and name.
        observed: location of the child and of the RDMA devices.
        network: desired configuration of the child in the pod.
        child: parameters of its creation.
    """

    record: AttachedDevice
    observed: Observed
    network: PodNetwork
    child: Child


def expect_child(
    session: Session,
    claim_uid: str,
    allocated: AllocatedDevice,
    link: ChildConfig,
    device: AttachedDevice,
    options: RdmaOptions,
) -> ExpectedChild:
    """Return the child link to create for the pod.

    Args:
        session: of the pod.
        claim_uid: UID of its claim.
        allocated: the allocated device.
        link: the child requested by the claim.
        device: its record; an existing child has the recorded alias.
        options: RDMA options of the operator.

    Raises:
        RefusedError: the parent interface is missing or unsuitable, the partition key is not in the
            port's table, or the node is not in the RDMA mode that the operator requires.
        KernelError: the kernel could not be read.
    """
    parent = _parent(session, allocated, device, link)
    alias = device.child or alias_of(claim_uid, allocated.device.name, allocated.share_id)
    if isinstance(link, IpoibConfig):
        link = replace(link, pkey=_pkey(session, allocated, link, parent))
    network = replace(child_network(allocated.config, link, parent), rate=allocated.bandwidth)
    observed = session.child(alias)
    record = replace(
        device,
        child=alias,
        child_config=allocated.config.interface,
        pod_name=network.name,
        restored=False,
    )
    if allocated.device.rdma_devices:
        rdma = session.rdma(_rdma_of(allocated.device, parent))
        if rdma.mode is RdmaMode.SHARED:
            record = with_rdma(allocated, record, rdma, options)
            observed = replace(observed, rdma=rdma)
        else:
            require_mode(allocated.device.name, rdma.mode, options.mode)
            record = replace(record, warnings=(IP_ONLY_WARNING,))
    return ExpectedChild(record, observed, network, Child(alias, parent.link, link))


def _rdma_of(device: Device, parent: LinkState) -> RdmaIdentity:
    """Return the identity of its RDMA devices, which may be on another PCI function (eRDMA)."""
    return RdmaIdentity(device.key, device.rdma_devices, host_netdev=parent.link.index)


def _pkey(
    session: Session, allocated: AllocatedDevice, ipoib: IpoibConfig, parent: LinkState
) -> int | None:
    """Return the claimed partition key, None for the parent's."""
    if ipoib.pkey is None:
        return None
    rdma_device = _rdma_name(session, allocated.device, parent)
    port = (allocated.device.key.port or 0) + 1  # ib_ipoib's dev_port starts at 0
    return choose_pkey(ipoib, session.pkeys(rdma_device, port), f"{rdma_device} port {port}")


def _rdma_name(session: Session, device: Device, parent: LinkState) -> str:
    """Return the current name of its RDMA device; it may change when the driver recreates it."""
    published = device.rdma_devices
    current = [link.name for link in session.rdma(_rdma_of(device, parent)).host]
    candidates = (name for name in (*published, *current) if name in current)
    return next(candidates, next(iter(published), ""))


def _parent(
    session: Session, allocated: AllocatedDevice, device: AttachedDevice, link: ChildConfig
) -> LinkState:
    key, name = allocated.device.key, allocated.device.name
    observed = session.observe(key, "", device_identity(device)) if key.name else Observed()
    if observed.ambiguous:
        raise RefusedError(why_ambiguous(allocated.device, observed.ambiguous))
    state = observed.host
    if state is None:
        missing = "load ib_ipoib" if isinstance(link, IpoibConfig) else "load its driver"
        raise RefusedError(
            f"device {name}: its interface, the parent of the pod's, is not on the host;"
            f" {missing}, or see dranet-nri status for the pod that has it"
        )
    needed = ARPHRD_INFINIBAND if isinstance(link, IpoibConfig) else ARPHRD_ETHER
    if state.link.arphrd != needed:
        fabric = "InfiniBand" if needed == ARPHRD_INFINIBAND else "Ethernet"
        raise RefusedError(
            f"device {name}: interface.type {link.kind} needs an {fabric} interface, and"
            f" {state.link.name} is not one; remove interface.type"
        )
    return state


@dataclass(slots=True)
class OrphanSchedule:
    """Schedule of scans for orphaned links, because a scan costs a netlink dump.

    Each reconcile scans while a pod has a child, and for CLOSE_WATCH_S after that. Otherwise one
    reconcile per PERIOD_S scans, for links of an earlier instance of the plugin. A link is orphaned
    when the kernel ends its namespace, seconds after the pod.

    Attributes:
        clock: seconds since boot.
    """

    clock: Callable[[], float]
    _due: float = -inf
    _watched_until: float = -inf

    def is_due(self, records: Iterable[Attachment]) -> bool:
        """Whether a scan is due.

        Args:
            records: all attachment records.
        """
        now = self.clock()
        if any(device.child for record in records for device in record.devices):
            self._watched_until = now + CLOSE_WATCH_S
        return now >= self._due or now < self._watched_until

    def note_scan(self) -> None:
        """Record a completed scan."""
        self._due = self.clock() + PERIOD_S


def remove_orphans(
    kernel: Kernel, aliases_in_use: Callable[[], Collection[str]]
) -> tuple[str, ...]:
    """Delete orphaned child links on the host.

    The kernel moves them to the host some time after a pod's namespace ends.

    Args:
        kernel: the node's.
        aliases_in_use: returns the aliases that belong to a pod. Called after the scan: a link is
            recorded before it is created.

    Returns:
        The aliases of the deleted links.

    Raises:
        KernelError: the kernel could not be read, or refused a deletion.
    """
    set_step("find links of pods that ended")
    with closing(kernel.session(None)) as session:
        children = session.children()
        in_use = aliases_in_use() if children else ()
        orphans = [child for child in children if child[0] not in in_use]
        for _, index in orphans:
            session.apply(DelLink(Ns.HOST, index))
    return tuple(alias for alias, _ in orphans)
