"""RDMA devices of a pod: moved with the NIC or shared, and their device files.

Rules:
1. The kernel's mode decides; the operator may require one. The mode is read for every pod, because
   an administrator may change it.
2. RDMA devices that move (exclusive mode) are recorded before the first operation, like the
   snapshot.
3. Shared RDMA devices stay on the host, and containers get device files. That does not isolate
   pods, which a warning reports.
"""

from collections.abc import Callable
from dataclasses import dataclass
from errno import ENODEV
from itertools import chain
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.config import (
    SHARED_MODE_WARNING,
    char_kinds,
    missing_warning,
    violations_for_mode,
)
from dranet_nri.errors import KernelError, RefusedError
from dranet_nri.model import (
    ARPHRD_INFINIBAND,
    AllocatedDevice,
    AttachedDevice,
    CharDevice,
    CharKind,
    Device,
    NetworkConfig,
    Ns,
    Observed,
    ObservedRdma,
    RdmaLink,
    RdmaMode,
)
from dranet_nri.plan.adoption import adopted_rdma
from dranet_nri.plan.identity import RdmaIdentity
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.rdma import find_same, present_rdma

IP_ONLY_WARNING: Final = (
    "RDMA devices are in exclusive mode, and this one stays on the host with the parent of the"
    " pod's interface: the pod has the network, not the RDMA device nor its files"
    " (rdma.charDevices); for both, start the node with 'options ib_core netns_mode=1' in"
    " modprobe.d"
)
NO_ADDRESS_WARNING: Final = (
    "a share of the device leaves its network interface on the host: rdma_cm finds no RDMA device"
    " by an address of the pod (ENODEV in rping); use programs that connect without it, as"
    " ib_write_bw does, claim the whole device, or remove rdma_cm from rdma.charDevices"
)
NO_LIMIT_WARNING: Final = (
    "the bandwidth that the claim has of the device limits what the pod's interface sends: RDMA"
    " traffic bypasses the kernel and its limits; limit that in the fabric, or claim a VF with a"
    " rate"
)
NO_GID_WARNING: Final = (
    "its RDMA device is RoCE, and the interface has no IP address in the pod but link-local ones:"
    " it has no GID that is routed, connections beyond the link fail, and NCCL falls back to TCP;"
    " give it an address (interface.addresses of the claim, or on the host), unless a router"
    " advertises one"
)
RECREATE_TIMEOUT_S: Final = 1.0  # of a driver that recreates its RDMA device
_POLL_S: Final = 0.05
NETWORK: Final = "network: "  # prefix of warnings about the network, not RDMA
# They apply while the device is in the pod; others are derived again by each verification.
_PERMANENT_WARNINGS: Final = frozenset(
    {SHARED_MODE_WARNING, IP_ONLY_WARNING, NO_ADDRESS_WARNING, NO_LIMIT_WARNING}
)


@dataclass(frozen=True, slots=True)
class RdmaOptions:
    """The operator's RDMA settings.

    Attributes:
        mode: required mode of the machine, None: any.
        kinds: kinds of character devices for claims without rdma.charDevices.
    """

    mode: RdmaMode | None = None
    kinds: tuple[CharKind, ...] = (CharKind.UVERBS, CharKind.RDMA_CM)


def with_rdma(
    allocated: AllocatedDevice, device: AttachedDevice, observed: ObservedRdma, options: RdmaOptions
) -> AttachedDevice:
    """Return the device's record with the RDMA devices that move with it.

    Raises:
        RefusedError: they cannot be attached as claimed; the text has the remedy.
    """
    if not allocated.device.rdma_devices:
        return device
    name = allocated.device.name
    require_mode(name, observed.mode, options.mode)
    problems = violations_for_mode(allocated.config, observed.mode)
    if problems:
        raise RefusedError(f"device {name}: {'; '.join(problems)}")
    rdma = _recorded_devices(device.rdma, observed) or adopted_rdma(observed.pod, allocated.device)
    if not rdma or len(rdma) < len(device.rdma):
        recorded = [link.name for link in device.rdma if not find_same(link, rdma)]
        raise RefusedError(
            f"device {name}: its RDMA device"
            f" {', '.join(recorded or allocated.device.rdma_devices)} is not on"
            " the host: its driver is being reloaded, or another pod has it, through another port"
            " or without a record; run dranet-nri status"
        )
    if observed.mode is RdmaMode.SHARED:
        return replace(device, rdma=(), warnings=_shared_warnings(allocated, options))
    if allocated.share_id:
        raise RefusedError(
            f"device {name} is shared by several pods, and RDMA devices of this node belong to one"
            " pod each; boot it with 'options ib_core netns_mode=1', or claim a whole device"
        )
    if observed.sub_devices:
        # A sub-device references its parent until it is deleted (ib_add_sub_device in device.c),
        # and a move waits for all references without a timeout (disable_device).
        raise RefusedError(
            f"device {name}: a move of its RDMA device would hang in the kernel for its sub-device"
            f" {observed.sub_devices[0]}; delete that (rdma dev del {observed.sub_devices[0]}),"
            " or boot the node with 'options ib_core netns_mode=1' in modprobe.d"
        )
    return replace(device, rdma=rdma, rdma_name=allocated.config.rdma.name or "", restored=False)


def _shared_warnings(allocated: AllocatedDevice, options: RdmaOptions) -> tuple[str, ...]:
    """Return the warnings about RDMA devices that stay on the host.

    rdma_cm resolves addresses in its user's namespace (cma_validate_port,
    drivers/infiniband/core/cma.c), which has a child link, but not the link of a shared device.
    """
    link_stays = (
        bool(allocated.share_id and allocated.device.key.name)
        and not allocated.config.interface.child
    )
    no_address = link_stays and CharKind.RDMA_CM in char_kinds(allocated.config, options.kinds)
    warnings = {NO_ADDRESS_WARNING: no_address, NO_LIMIT_WARNING: bool(allocated.bandwidth)}
    return SHARED_MODE_WARNING, *(text for text, applies in warnings.items() if applies)


def require_mode(name: str, mode: RdmaMode | None, required: RdmaMode | None) -> None:
    """Refuse a device if the kernel has no RDMA, or is not in the mode that the operator requires.

    Args:
        name: name of the device.
        mode: mode of the kernel, None without RDMA.
        required: required mode, None for any.

    Raises:
        RefusedError: the text has the remedy.
    """
    if mode is None:
        raise RefusedError(f"device {name}: the kernel no longer has RDMA; load ib_core")
    if required not in {None, mode}:
        number = 1 if required is RdmaMode.SHARED else 0
        raise RefusedError(
            f"device {name}: --rdma-mode is {required}, but the kernel is in {mode} mode; boot the"
            f" node with 'options ib_core netns_mode={number}' in modprobe.d, or use"
            " --rdma-mode=auto"
        )


def require_no_lost_links(
    session: Session, device: Device, rdma: tuple[RdmaLink, ...], lost: tuple[str, ...]
) -> None:
    """Refuse a move that removes unclaimed links from the host, which would not be restored.

    Args:
        session: session of the pod.
        device: the published device.
        rdma: its RDMA devices that move into the pod.
        lost: names of other links of the host that leave with them.

    Raises:
        RefusedError: there are such links.
        KernelError: the kernel could not be read.
    """
    moving = ", ".join(link.name for link in rdma)
    if rdma and lost:
        raise RefusedError(
            f"device {device.name}: the host loses {', '.join(lost)} when RDMA device"
            f" {moving} moves into a pod; delete IPoIB"
            " children (ip link delete); for two ports, and for links that must stay, let pods"
            " share RDMA devices: boot the node with 'options ib_core netns_mode=1' in modprobe.d"
        )
    unclaimed = () if device.key.name or not rdma else _interfaces(session, device)
    if unclaimed:
        raise RefusedError(
            f"device {device.name}: a move of RDMA device {moving} would destroy interface"
            f" {', '.join(unclaimed)}, which is not part of the claimed device; if it must stay"
            " (dra-shim run --move-ib-interfaces=false), boot the node with 'options ib_core"
            " netns_mode=1' in modprobe.d; if it appeared after the claim was prepared (ib_ipoib"
            " was loaded), delete the pod, so that it is prepared again"
        )


def require_no_software_rdma(device: Device, observed: Observed) -> None:
    """Refuse to move a NIC whose RDMA devices are software and stay on the host.

    Their drivers delete them when the net device leaves the namespace (rxe_notify,
    siw_netdev_event). RDMA devices of hardware belong to the NIC's parent device.

    Raises:
        RefusedError: there are such devices.
    """
    software = ", ".join(observed.rdma.software)
    if software and observed.rdma.mode is RdmaMode.SHARED and observed.host is not None:
        raise RefusedError(
            f"device {device.name}: RDMA device {software} is software (soft-RoCE, siw), and is"
            f" deleted when interface {observed.host.link.name} moves to the pod; let pods"
            " share the device (dra-shim run --shared), or delete it (rdma link delete)"
        )


def shared_after_move(
    session: Session,
    identity: RdmaIdentity,
    before: tuple[RdmaLink, ...],
    sleep: Callable[[float], None],
) -> ObservedRdma:
    """Return the location of shared RDMA devices after their NIC changed namespace.

    Some drivers then remove the RDMA device, and some recreate it a moment later.

    Args:
        session: session of the pod.
        identity: their identity, with the NIC in the pod.
        before: those on the host before the move.
        sleep: waits that many seconds.

    Raises:
        KernelError: one is missing, or the kernel could not be read.
    """
    now = session.rdma(identity)
    for _ in range(round(RECREATE_TIMEOUT_S / _POLL_S)):
        if len(now.host) >= len(before):
            return now
        sleep(_POLL_S)
        now = session.rdma(identity)
    missing = ", ".join(link.name for link in before if find_same(link, now.host) is None)
    raise KernelError(
        f"find RDMA device {missing}",
        ENODEV,
        "its driver removed it when the interface changed namespace; let pods share the device"
        " (dra-shim run --shared); if it does not return, load its driver again, or"
        " recreate it (rdma link add)",
    )


def _interfaces(session: Session, device: Device) -> tuple[str, ...]:
    """Return the IPoIB interfaces on the host of a device published without an interface."""
    observation = session.observe(device.key, "", link_only=True)
    own = observation.host.link if observation.host is not None else None
    name = (own.name,) if own is not None and own.arphrd == ARPHRD_INFINIBAND else ()
    return (*name, *observation.lost_with_rdma, *observation.ambiguous)


def _recorded_devices(before: tuple[RdmaLink, ...], observed: ObservedRdma) -> tuple[RdmaLink, ...]:
    """Return the recorded RDMA devices that still exist, and new ones on the host.

    One of two may be in the pod already while a driver recreates the other.
    """
    recorded = present_rdma(before, observed)
    return (*recorded, *(link for link in observed.host if not find_same(link, recorded)))


def with_files(
    session: Session,
    device: AttachedDevice,
    config: NetworkConfig,
    observed: ObservedRdma,
    options: RdmaOptions,
) -> AttachedDevice:
    """Return the record of an attached device, with its device files.

    Args:
        session: session of the pod.
        device: its record.
        config: the claim's parameters.
        observed: location of its RDMA devices; for those that moved, before the move.
        options: RDMA options of the operator.

    Raises:
        KernelError: the kernel could not be read.
    """
    kinds = char_kinds(config, options.kinds)
    ns, links = Ns.POD, device.rdma
    shared = observed.host if observed.mode is RdmaMode.SHARED else ()
    if shared:
        ns, links = Ns.HOST, shared
    if not kinds:
        links = ()
    found = {link.name: session.char_devices(ns, link, kinds) for link in links}
    warnings = tuple(
        missing_warning(name, missing)
        for name, chars in found.items()
        if (missing := _missing(chars, kinds))
    )
    return replace(
        device,
        shared_rdma=tuple(link.name for link in shared),
        char_devices=_unique_by_path(chain.from_iterable(found.values())),
        warnings=(*filter(_is_permanent, device.warnings), *warnings),
    )


def require_verbs(device: AttachedDevice, config: NetworkConfig, options: RdmaOptions) -> None:
    """Refuse RDMA devices without a uverbs file if such files are requested.

    One file is enough: an SMI sub-device has none.

    Args:
        device: its record, with device files.
        config: the claim's parameters.
        options: RDMA options of the operator.

    Raises:
        RefusedError: there is no uverbs file.
    """
    names = [link.name for link in device.rdma] or list(device.shared_rdma)
    kinds = char_kinds(config, options.kinds)
    if not names or CharKind.UVERBS not in _missing(device.char_devices, kinds):
        return
    raise RefusedError(
        f"device {device.device.name}: RDMA device {', '.join(names)} has no uverbs file, without"
        " which containers cannot use it: load module ib_uverbs on the node, or leave uverbs out of"
        " rdma.charDevices"
    )


def _is_permanent(warning: str) -> bool:
    """Whether a warning applies as long as the device is in the pod."""
    return warning in _PERMANENT_WARNINGS or warning.startswith(NETWORK)


def _unique_by_path(chars: "chain[CharDevice]") -> tuple[CharDevice, ...]:
    by_path = {char.path: char for char in chars}
    return tuple(by_path[path] for path in sorted(by_path))


def _missing(chars: tuple[CharDevice, ...], kinds: tuple[CharKind, ...]) -> tuple[CharKind, ...]:
    names = {char.path.rpartition("/")[2].rstrip("0123456789") for char in chars}
    return tuple(kind for kind in kinds if kind not in names)
