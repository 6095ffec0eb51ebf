"""IP-over-InfiniBand children: links made for claims with `interface.type: IPoIB`.

Rules:
1. The device and its RDMA devices stay on the host, so that several pods can have children.
2. In shared mode the pod gets the RDMA device's files as well. In exclusive mode the pod could not
   open them: it has IP over InfiniBand only, and a warning says so.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from dranet_nri.attach.rdma import IP_ONLY_WARNING, RdmaOptions, require_mode, with_rdma
from dranet_nri.component.threads import now_doing
from dranet_nri.config import choose_pkey
from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    ARPHRD_INFINIBAND,
    AllocatedDevice,
    AttachedDevice,
    Device,
    IpoibConfig,
    IpoibMode,
    Link,
    LinkState,
    Ns,
    Observed,
    RdmaMode,
)
from dranet_nri.plan.identity import KnownRdma, known_as, why_unclear
from dranet_nri.plan.ipoib import Child, alias_of
from dranet_nri.plan.kernel import Kernel, Session
from dranet_nri.plan.ops import DelLink
from dranet_nri.plan.pod_network import PodNetwork, pod_network


@dataclass(frozen=True, slots=True)
class Expected:
    """A device whose child the pod shall get.

    Attributes:
        record: of the device, with the child's alias and name.
        observed: where the child is, and where the RDMA devices are.
        network: what the child shall have in the pod.
        child: how it is made.
    """

    record: AttachedDevice
    observed: Observed
    network: PodNetwork
    child: Child


def expect_child(
    session: Session,
    claim_uid: str,
    wanted: AllocatedDevice,
    ipoib: IpoibConfig,
    device: AttachedDevice,
    options: RdmaOptions,
) -> Expected:
    """Say which link to make for the pod.

    Args:
        session: of the pod.
        claim_uid: whose it is.
        wanted: what was allocated.
        ipoib: the claim's parameters for the child.
        device: its record; the link that it knows of already goes by that alias.
        options: the operator's, for RDMA devices.

    Raises:
        RefusedError: the device has no parent to offer, the partition key is not to be had, or the
            node's RDMA mode is not the one that the operator demands.
        KernelError: the kernel could not be read.
    """
    parent = _parent(session, wanted, device)
    alias = device.child or alias_of(claim_uid, wanted.device.name, wanted.share_id)
    pkey = _pkey(session, wanted, ipoib)
    network = pod_network(wanted.config, LinkState(Link(parent.index, parent.name)))
    observed = session.child(alias)
    record = replace(device, child=alias, pod_name=network.name, home=False)
    if wanted.device.rdma_devices:
        rdma = session.rdma(KnownRdma(wanted.device.key, wanted.device.rdma_devices))
        if rdma.mode is RdmaMode.SHARED:
            record = with_rdma(wanted, record, rdma, options)
            observed = replace(observed, rdma=rdma)
        else:
            require_mode(wanted.device.name, rdma.mode, options.mode)
            record = replace(record, warnings=(IP_ONLY_WARNING,))
    child = Child(alias, parent.index, pkey, connected=ipoib.mode is IpoibMode.CONNECTED)
    return Expected(record, observed, network, child)


def _pkey(session: Session, wanted: AllocatedDevice, ipoib: IpoibConfig) -> int | None:
    """Return the partition key that the claim means, None for the device's own."""
    if ipoib.pkey is None:
        return None
    rdma_device = _rdma_name(session, wanted.device)
    port = (wanted.device.key.port or 0) + 1  # ib_ipoib's dev_port counts from 0
    return choose_pkey(ipoib, session.pkeys(rdma_device, port), f"{rdma_device} port {port}")


def _rdma_name(session: Session, device: Device) -> str:
    """Return the current name of its RDMA device; one that was made again may have another name."""
    published = device.rdma_devices
    here = [link.name for link in session.rdma(KnownRdma(device.key, published)).host]
    return next((name for name in (*published, *here) if name in here), next(iter(published), ""))


def _parent(session: Session, wanted: AllocatedDevice, device: AttachedDevice) -> Link:
    key, name = wanted.device.key, wanted.device.name
    observed = session.observe(key, "", known_as(device)) if key.name else Observed()
    if observed.unclear:
        raise RefusedError(why_unclear(wanted.device, observed.unclear))
    state = observed.host
    if state is None:
        raise RefusedError(
            f"device {name}: its IPoIB interface, the parent of the pod's, is not on the host;"
            " load ib_ipoib, or see dranet-nri status for the pod that holds it"
        )
    if state.link.arphrd != ARPHRD_INFINIBAND:
        raise RefusedError(
            f"device {name}: interface.type IPoIB needs an InfiniBand interface, and"
            f" {state.link.name} is none; remove interface.type"
        )
    return state.link


def remove_strays(kernel: Kernel, known: Callable[[], Collection[str]]) -> tuple[str, ...]:
    """Delete links on the host that the plugin made for pods which are gone.

    The kernel returns them to the host when a pod's namespace dies, at a time of its own.

    Args:
        kernel: the node's.
        known: returns the aliases of those that belong to a pod. Asked after looking: what is
            being made was recorded before.

    Returns:
        The aliases of those that were deleted.

    Raises:
        KernelError: the kernel could not be read, or refused.
    """
    now_doing("look for links of pods that are gone")
    session = kernel.session(None)
    try:
        made = session.children()
        kept = known() if made else ()
        strays = [child for child in made if child[0] not in kept]
        for _, index in strays:
            session.apply(DelLink(Ns.HOST, index))
    finally:
        session.close()
    return tuple(alias for alias, _ in strays)
