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
from dataclasses import dataclass, replace
from errno import ENODEV
from itertools import chain
from typing import Final

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
MADE_ANEW_S: Final = 1.0  # time for a driver to recreate its RDMA device
_LOOK_S: Final = 0.05
# Reported once, at attach.
NETWORK: Final = "network: "  # prefix of warnings about the network, not RDMA
_STANDING: Final = frozenset(
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
    before = _recorded_devices(device.rdma, observed) or adopted_rdma(
        observed.pod, allocated.device
    )
    if not before:
        raise RefusedError(
            f"device {name}: its RDMA device {', '.join(allocated.device.rdma_devices)} is not on"
            " the host: its driver is being reloaded, or another pod has it, through another port"
            " or without a record; run dranet-nri status"
        )
    if observed.mode is RdmaMode.SHARED:
        return replace(device, rdma=(), warnings=_of_shared(allocated, options))
    if allocated.share_id:
        raise RefusedError(
            f"device {name} is shared by several pods, and RDMA devices of this node belong to one"
            " pod each; boot it with 'options ib_core netns_mode=1', or claim a whole device"
        )
    if observed.sub_devices:
        # Each has a reference to it until it is deleted (ib_add_sub_device in device.c), and a move
        # waits for all references without a timeout (disable_device).
        raise RefusedError(
            f"device {name}: a move of its RDMA device would hang in the kernel for its sub-device"
            f" {observed.sub_devices[0]}; delete that (rdma dev del {observed.sub_devices[0]}),"
            " or boot the node with 'options ib_core netns_mode=1' in modprobe.d"
        )
    return replace(device, rdma=before, rdma_name=allocated.config.rdma.name or "", home=False)


def _of_shared(allocated: AllocatedDevice, options: RdmaOptions) -> tuple[str, ...]:
    """Return the warnings about RDMA devices that stay on the host.

    rdma_cm resolves addresses in its user's namespace (cma_validate_port,
    drivers/infiniband/core/cma.c), which has a child link, but not the link of a shared device.
    """
    left = (
        bool(allocated.share_id and allocated.device.key.name)
        and not allocated.config.interface.child
    )
    no_address = left and CharKind.RDMA_CM in char_kinds(allocated.config, options.kinds)
    warnings = {NO_ADDRESS_WARNING: no_address, NO_LIMIT_WARNING: bool(allocated.bandwidth)}
    return SHARED_MODE_WARNING, *(text for text, applies in warnings.items() if applies)


def require_mode(name: str, mode: RdmaMode | None, demanded: RdmaMode | None) -> None:
    if mode is None:
        raise RefusedError(f"device {name}: the kernel no longer has RDMA; load ib_core")
    if demanded not in {None, mode}:
        number = 1 if demanded is RdmaMode.SHARED else 0
        raise RefusedError(
            f"device {name}: --rdma-mode is {demanded}, but the kernel is in {mode} mode; boot the"
            f" node with 'options ib_core netns_mode={number}' in modprobe.d, or use"
            " --rdma-mode=auto"
        )


def require_alone(
    session: Session, device: Device, rdma: tuple[RdmaLink, ...], lost: tuple[str, ...]
) -> None:
    """Refuse a move that removes unclaimed links from the host, which would not be restored.

    Args:
        session: of the pod.
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
            f" {moving} moves into a pod; delete what is an IPoIB"
            " child (ip link delete); for two ports, in one pod or two, and for what shall stay,"
            " let pods share RDMA devices: boot the node with 'options ib_core netns_mode=1' in"
            " modprobe.d"
        )
    came = () if device.key.name or not rdma else _interfaces(session, device)
    if came:
        raise RefusedError(
            f"device {device.name}: a move of RDMA device {moving} would destroy interface"
            f" {', '.join(came)}, which is not part of what was claimed; where it shall stay"
            " (dra-shim run --move-ib-interfaces=false), boot the node with 'options ib_core"
            " netns_mode=1' in modprobe.d; where it came after the claim was prepared (ib_ipoib was"
            " loaded), delete the pod, so that it is prepared anew"
        )


def require_lasting(device: Device, observed: Observed) -> None:
    """Refuse to move a NIC whose RDMA devices are software and stay on the host.

    Their drivers delete them when the net device leaves the namespace (rxe_notify,
    siw_netdev_event). RDMA devices of hardware belong to the NIC's parent device.

    Raises:
        RefusedError: there are such devices.
    """
    ending = ", ".join(observed.rdma.software)
    if ending and observed.rdma.mode is RdmaMode.SHARED and observed.host is not None:
        raise RefusedError(
            f"device {device.name}: RDMA device {ending} is software (soft-RoCE, siw), and would be"
            f" lost for good when interface {observed.host.link.name} goes to the pod; let pods"
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
        session: of the pod.
        identity: their identity, with the NIC in the pod.
        before: those on the host before the move.
        sleep: waits that many seconds.

    Raises:
        KernelError: one is missing, or the kernel could not be read.
    """
    now = session.rdma(identity)
    for _ in range(round(MADE_ANEW_S / _LOOK_S)):
        if len(now.host) >= len(before):
            return now
        sleep(_LOOK_S)
        now = session.rdma(identity)
    gone = ", ".join(link.name for link in before if find_same(link, now.host) is None)
    raise KernelError(
        f"look for RDMA device {gone}",
        ENODEV,
        "its driver removed it when the interface changed namespace; let pods share the device"
        " (dra-shim run --shared); if it does not come back by itself, load its driver again, or"
        " recreate it (rdma link add)",
    )


def _interfaces(session: Session, device: Device) -> tuple[str, ...]:
    """Return the IPoIB interfaces on the host of a device published without an interface."""
    observation = session.observe(device.key, "", bare=True)
    own = observation.host.link if observation.host is not None else None
    here = (own.name,) if own is not None and own.arphrd == ARPHRD_INFINIBAND else ()
    return (*here, *observation.lost_with_rdma, *observation.unclear)


def _recorded_devices(before: tuple[RdmaLink, ...], observed: ObservedRdma) -> tuple[RdmaLink, ...]:
    """Return the recorded RDMA devices that still exist, and new ones on the host.

    One of two may be in the pod already while a driver recreates the other.
    """
    kept = present_rdma(before, observed)
    return (*kept, *(link for link in observed.host if not find_same(link, kept)))


def with_files(
    session: Session,
    device: AttachedDevice,
    config: NetworkConfig,
    observed: ObservedRdma,
    options: RdmaOptions,
) -> AttachedDevice:
    """Return the record of an attached device, with its device files.

    Args:
        session: of the pod.
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
        char_devices=_once(chain.from_iterable(found.values())),
        warnings=(*filter(_is_standing, device.warnings), *warnings),
    )


def require_verbs(device: AttachedDevice, config: NetworkConfig, options: RdmaOptions) -> None:
    """Refuse RDMA that no container can use: uverbs files are requested, and none exists.

    One file is enough: an SMI sub-device has none.

    Args:
        device: its record, with device files.
        config: the claim's parameters.
        options: the operator's.

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


def _is_standing(warning: str) -> bool:
    """Whether a warning applies while the device is in the pod."""
    return warning in _STANDING or warning.startswith(NETWORK)


def _once(chars: "chain[CharDevice]") -> tuple[CharDevice, ...]:
    by_path = {char.path: char for char in chars}
    return tuple(by_path[path] for path in sorted(by_path))


def _missing(chars: tuple[CharDevice, ...], kinds: tuple[CharKind, ...]) -> tuple[CharKind, ...]:
    names = {char.path.rpartition("/")[2].rstrip("0123456789") for char in chars}
    return tuple(kind for kind in kinds if kind not in names)
