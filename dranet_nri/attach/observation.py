"""Observed state of a device: location and configuration."""

from collections.abc import Collection
from dataclasses import replace

from dranet_nri.model import (
    AttachedDevice,
    LinkState,
    Ns,
    Observed,
)
from dranet_nri.plan.identity import device_identity, rdma_identity
from dranet_nri.plan.kernel import Session


def observe(
    session: Session,
    device: AttachedDevice,
    groups: Collection[str] = (),
    *,
    bare: bool = False,
) -> Observed:
    """Return location and configuration of the device, including its RDMA devices.

    Args:
        session: of the pod.
        device: its record.
        groups: driver settings to read (SettingGroup), besides those of its snapshot.
        bare: without the configuration in the pod, which a restore and a resync do not need, and
            on the host without sysctls that the snapshot lacks, because each takes a file.

    Raises:
        KernelError: the kernel could not be read.
    """
    key, names = device.device.key, device.device.rdma_devices
    if device.child:
        observed = session.child(device.child)
    else:
        identity = device_identity(device)
        observed = Observed()
        if key.name:
            sysctls = device.snapshot.sysctls if bare and device.snapshot else None
            observed = session.observe(key, device.pod_name, identity, bare=bare, sysctls=sysctls)
        before = device.snapshot and device.snapshot.ethtool
        groups = frozenset(groups) | (before.groups if before else frozenset())
        observed = replace(
            observed,
            host=_with_programs(session, _with_ethtool(session, Ns.HOST, observed.host, groups)),
            pod=_with_ethtool(session, Ns.POD, observed.pod, groups),
        )
    if not names and not device.rdma:
        return observed
    whose = rdma_identity(device, observed)
    if device.child:  # its RDMA devices are those of its parent
        named = device_identity(device)
        parent = session.observe(key, "", named, bare=True, sysctls=()).host
        whose = replace(whose, host_netdev=parent.link.index if parent else 0)
    return replace(observed, rdma=session.rdma(whose))


def _with_ethtool(
    session: Session, ns: Ns, state: LinkState | None, groups: Collection[str]
) -> LinkState | None:
    return state and replace(state, ethtool=session.ethtool(ns, state.link.index, groups))


def _with_programs(session: Session, host: LinkState | None) -> LinkState | None:
    return host and replace(host, tcx=session.tcx(Ns.HOST, host.link.index))
