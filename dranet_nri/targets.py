"""What each device of a pod shall become: its allocation over what is observed.

Rules:
1. A device's snapshot is taken here, once, before anything is done to it.
2. Nothing is changed here.
"""

from dataclasses import dataclass, replace

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    CharDevice,
    LinkState,
    Observed,
)
from dranet_nri.plan.network import PodNetwork, beside_each_other, pod_network
from dranet_nri.plan.ops import Plan
from dranet_nri.plan.planner import InPod, plan
from dranet_nri.plan.port import Session


@dataclass(frozen=True, slots=True)
class Target:
    """One device on its way into the pod.

    Attributes:
        claim_uid: whose it is.
        record: with its snapshot and its name in the pod.
        observed: where it is now.
        network: what it shall have in the pod; None for an RDMA device without a netdev.
    """

    claim_uid: str
    record: AttachedDevice
    observed: Observed
    network: PodNetwork | None = None

    def plan(self) -> Plan:
        """Return the way into the pod.

        Raises:
            RefusedError: the wanted state cannot be had.
        """
        if self.network is None or self.record.snapshot is None:
            return ()
        return plan(InPod(self.network, self.record.snapshot), self.observed)

    def attached(self, chars: tuple[CharDevice, ...]) -> AttachedDevice:
        """Return its record once it is in the pod."""
        if self.network is None or self.record.snapshot is None:
            return replace(self.record, char_devices=chars)
        link, settings = self.record.snapshot.link, self.network.settings
        return replace(
            self.record,
            mac=settings.mac or link.mac,
            mtu=settings.mtu or link.mtu,
            addresses=tuple(each.cidr for each in self.network.addresses),
            char_devices=chars,
        )


def moved(allocation: Allocation) -> tuple[AllocatedDevice, ...]:
    """Return the devices that are handed over; adminAccess results only look on."""
    return tuple(each for each in allocation.devices if not each.admin_access)


def resolve(
    session: Session,
    records: tuple[Attachment, ...],
    allocations: tuple[Allocation, ...],
    now_s: int,
) -> tuple[Target, ...]:
    """Return every device of the pod, in the order in which they are attached.

    Args:
        session: of the pod.
        records: one a claim, whose devices have the snapshots that are known.
        allocations: the same claims.
        now_s: seconds of CLOCK_BOOTTIME, for new snapshots.

    Raises:
        RefusedError: a device is not there, or two want the same name.
        KernelError: the kernel could not be read.
    """
    targets = tuple(
        _target(session, wanted, Target(record.claim.uid, device, Observed()), now_s)
        for record, allocation in zip(records, allocations, strict=True)
        for device, wanted in zip(record.devices, moved(allocation), strict=True)
    )
    names = [target.network.name for target in targets if target.network]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RefusedError(
            f"interface name {twice[0]!r} is wanted by two devices of the pod;"
            " give each its own interface.name"
        )
    return _beside_each_other(targets)


def _beside_each_other(targets: tuple[Target, ...]) -> tuple[Target, ...]:
    networks = iter(beside_each_other([each.network for each in targets if each.network]))
    return tuple(
        replace(target, network=next(networks)) if target.network else target for target in targets
    )


def _target(session: Session, wanted: AllocatedDevice, target: Target, now_s: int) -> Target:
    device = target.record
    key = device.device.key
    if not key.name:
        return target
    observed = session.observe(key, device.pod_name or wanted.config.interface.name or key.name)
    snapshot = device.snapshot
    if snapshot is None:
        snapshot = _snapshot(session, observed)
        if snapshot is None:
            raise RefusedError(
                f"device {device.device.name} ({key.name}) is not on the host:"
                " its driver was unbound, it was unplugged, or a pod we don't know holds it;"
                " run dranet-nri status"
            )
        device = replace(device, snapshot=snapshot, snapshot_s=now_s, home=False)
    network = pod_network(wanted.config, snapshot)
    device = replace(device, pod_name=network.name)
    return replace(target, record=device, observed=observed, network=network)


def _snapshot(session: Session, observed: Observed) -> LinkState | None:
    if observed.host is None:
        return observed.pod
    return replace(observed.host, sysctls=session.sysctls(observed.host.link.name))
