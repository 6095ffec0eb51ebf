"""Observed state of a device: location and configuration."""

from collections.abc import Collection

from dranet_nri.component.replace import replace
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
    link_only: bool = False,
) -> Observed:
    """Return location and configuration of the device, including its RDMA devices.

    Args:
        session: session of the pod.
        device: its record.
        groups: driver settings to read (SettingGroup), besides those of its snapshot.
        link_only: without the configuration in the pod, which a restore and a verification do not
            need, and on the host without sysctls that the snapshot lacks: some are files to read.

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
            sysctls = device.snapshot.sysctls if link_only and device.snapshot else None
            observed = session.observe(
                key, device.pod_name, identity, link_only=link_only, sysctls=sysctls
            )
        snapshot = device.snapshot and device.snapshot.ethtool
        groups = frozenset(groups) | (snapshot.groups if snapshot else frozenset())
        observed = replace(
            observed,
            host=_with_programs(session, _with_ethtool(session, Ns.HOST, observed.host, groups)),
            pod=_with_ethtool(session, Ns.POD, observed.pod, groups),
        )
    if not names and not device.rdma:
        return observed
    rdma = rdma_identity(device, observed)
    if device.child:  # its RDMA devices are those of its parent
        identity = device_identity(device)
        parent = session.observe(key, "", identity, link_only=True, sysctls=()).host
        rdma = replace(rdma, host_netdev=parent.link.index if parent else 0)
    return replace(observed, rdma=session.rdma(rdma))


def _with_ethtool(
    session: Session, ns: Ns, state: LinkState | None, groups: Collection[str]
) -> LinkState | None:
    return state and replace(state, ethtool=session.ethtool(ns, state.link.index, groups))


def _with_programs(session: Session, host: LinkState | None) -> LinkState | None:
    return host and replace(host, tcx=session.tcx(Ns.HOST, host.link.index))
