"""Wait for IPv6 addresses: from router advertisements, and for duplicate address detection.

Rules:
1. One wait covers all devices of a pod, before the gate opens.
2. The attach fails if no router advertises a prefix in time, or if an address is a duplicate. If
   the detection does not end, as on a link without carrier, the address stays, with a warning.
3. The wait ends with the sandbox.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from dranet_nri.attach.desired import DesiredDevice
from dranet_nri.attach.rdma import NETWORK
from dranet_nri.component.replace import replace
from dranet_nri.component.threads import set_step
from dranet_nri.errors import NoAddressError, OutdatedError, RefusedError
from dranet_nri.model import Addressing, DetectedAddress
from dranet_nri.plan.inherit import IFA_F_NODAD, UNIVERSE, is_v6
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.pod_network import PodNetwork
from dranet_nri.plan.routes.comparison import interface_of

POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class AddressWait:
    """Parameters of a wait for addresses.

    Attributes:
        limit_s: timeout in seconds.
        sleep: waits that many seconds.
        is_live: whether the sandbox is live.
    """

    limit_s: float
    sleep: Callable[[float], None]
    is_live: Callable[[], bool]


def with_addresses(
    session: Session, targets: tuple[DesiredDevice, ...], wait: AddressWait
) -> tuple[DesiredDevice, ...]:
    """Return the configured targets once their IPv6 addresses are usable.

    Raises:
        NoAddressError: no router advertised a prefix in time.
        RefusedError: an address is a duplicate.
        OutdatedError: the sandbox ended during the wait.
        KernelError: the kernel could not be read.
    """
    awaited = [target for target in targets if _needs_wait(target.network)]
    if not awaited:
        return targets
    names = {target.network.name for target in awaited if target.network}
    set_step(f"wait for addresses of {', '.join(sorted(names))}")
    found = _settled(session, awaited, wait)
    return tuple(
        _with_result(target, target.network, found[target.network.name], wait.limit_s)
        if target.network and target in awaited
        else target
        for target in targets
    )


def _settled(
    session: Session, awaited: Collection[DesiredDevice], wait: AddressWait
) -> dict[str, tuple[DetectedAddress, ...]]:
    """Return the addresses by interface, once all are usable or the wait timed out."""
    networks = [target.network for target in awaited if target.network]
    found = {network.name: session.pod_addresses(network.name) for network in networks}
    for _ in range(round(wait.limit_s / POLL_S)):
        if all(_is_settled(network, found[network.name]) for network in networks):
            break
        if not wait.is_live():
            raise OutdatedError("the sandbox was stopped during the wait for its addresses")
        wait.sleep(POLL_S)
        found = {network.name: session.pod_addresses(network.name) for network in networks}
    return found


def _needs_wait(network: PodNetwork | None) -> bool:
    if network is None:
        return False
    return network.addressing is Addressing.SLAAC or bool(_checked(network))


def _checked(network: PodNetwork) -> frozenset[str]:
    """Return the claimed addresses that the kernel checks for duplicates."""
    return frozenset(
        str(interface_of(address.cidr))
        for address in network.addresses
        if is_v6(address.cidr) and not address.flags & IFA_F_NODAD
    )


def _is_settled(network: PodNetwork, found: Collection[DetectedAddress]) -> bool:
    checked = _checked(network)
    if any(address.duplicate for address in found if address.cidr in checked):
        return True
    if any(address.tentative for address in found if address.cidr in checked):
        return False
    return network.addressing is not Addressing.SLAAC or bool(_advertised(network, found))


def _advertised(
    network: PodNetwork, found: Collection[DetectedAddress]
) -> tuple[DetectedAddress, ...]:
    """Return the usable addresses from router advertisements."""
    own = {str(interface_of(address.cidr)) for address in network.addresses}
    return tuple(
        address
        for address in found
        if address.scope == UNIVERSE
        and address.cidr not in own
        and not (address.tentative or address.duplicate or address.temporary)
    )


def _with_result(
    target: DesiredDevice,
    network: PodNetwork,
    found: Collection[DetectedAddress],
    limit_s: float,
) -> DesiredDevice:
    """Return the target with the addresses of its link.

    Raises:
        NoAddressError, RefusedError: see with_addresses.
    """
    name, checked = target.record.device.name, _checked(network)
    if duplicates := [address.cidr for address in found if address.duplicate]:
        raise RefusedError(
            f"device {name}: address {', '.join(duplicates)} of {network.name} is in use by another"
            " host of the link; give the pod another one"
        )
    dynamic = _advertised(network, found)
    if network.addressing is Addressing.SLAAC and not dynamic:
        raise NoAddressError(
            f"device {name}: no router advertised a prefix to {network.name} within {limit_s:g} s;"
            " check that the link has a carrier and a router that advertises (autonomous flag), or"
            " raise --slaac-ready-timeout; this is retried"
        )
    record = target.record
    if tentative := [
        address.cidr for address in found if address.tentative and address.cidr in checked
    ]:
        text = (
            f"{NETWORK}address {', '.join(tentative)} is not usable yet: duplicate address"
            f" detection did not end within {limit_s:g} s; check that the link has a carrier"
        )
        record = replace(record, warnings=(*record.warnings, text))
    return replace(
        target,
        record=record,
        dynamic_addresses=tuple(address.cidr for address in dynamic),
        has_addresses=True,
    )
