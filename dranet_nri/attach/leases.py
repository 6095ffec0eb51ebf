"""DHCP leases (RFC 2131) of a pod's devices, acquired before the gate opens, released at detach.

Rules:
1. All devices of a pod acquire their leases at the same time.
2. The attach fails if one device has no lease in time. The leases of the others are released.
3. A release is one frame to the server, without an answer. If it is lost, the lease expires.
"""

import secrets
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from dranet_nri.attach.desired import DesiredDevice
from dranet_nri.attach.execution.addressing import AddressWait
from dranet_nri.component.replace import replace
from dranet_nri.component.threads import set_step
from dranet_nri.dhcp import Action, DhcpClient, Granted, Lost, Send, release_of
from dranet_nri.errors import KernelError, NoAddressError, OutdatedError, RefusedError
from dranet_nri.model import ARPHRD_ETHER, Addressing, Lease, Link
from dranet_nri.plan.kernel import DhcpPort, Session
from dranet_nri.plan.lease_network import network_with_lease
from dranet_nri.plan.lease_ops import add_lease
from dranet_nri.plan.pod_network import PodNetwork

LEASE_POLL_S: Final = 0.01  # delays each of the two answers of an exchange by up to this


@dataclass(slots=True)
class LeaseExchange:
    """An exchange of one link with DHCP servers, and its result.

    Attributes:
        name: name of the link in the pod.
        result: None until the exchange ends.
    """

    name: str
    port: DhcpPort
    client: DhcpClient
    result: Granted | Lost | None = None

    def perform(self, actions: Iterable[Action]) -> None:
        """Send messages, and store the result."""
        for action in actions:
            match action:
                case Send(payload, source, target, mac):
                    self.port.send(payload, source, target, mac)
                case Granted() | Lost():
                    self.result = action

    def step(self, now: float) -> None:
        """Process received messages, and repeat a message that is due."""
        for payload, mac in self.port.pending():
            self.perform(self.client.receive(payload, mac, now))
        self.perform(self.client.tick(now))


def exchange_on(session: Session, link: Link, lease: Lease | None = None) -> LeaseExchange:
    """Return an exchange on a pod's link, to acquire a lease or to extend the given one.

    Raises:
        KernelError: the kernel refused the socket.
    """
    client = DhcpClient(link.mac, secrets.randbits(32), lease)
    return LeaseExchange(link.name, session.dhcp(link.name), client)


def run_exchanges(exchanges: Collection[LeaseExchange], wait: AddressWait, now_s: int) -> None:
    """Run exchanges concurrently until each has a result, or until the timeout.

    Args:
        exchanges: exchanges of one pod.
        wait: timeout, sleep, and liveness of the sandbox.
        now_s: seconds of CLOCK_BOOTTIME.

    Raises:
        OutdatedError: the sandbox ended meanwhile.
        KernelError: a link is gone.
    """
    now = float(now_s)
    for exchange in exchanges:
        exchange.perform(exchange.client.start(now))
    for _ in range(round(wait.limit_s / LEASE_POLL_S)):
        for exchange in exchanges:
            if exchange.result is None:
                exchange.step(now)
        if all(exchange.result is not None for exchange in exchanges):
            return
        if not wait.is_live():
            raise OutdatedError("the sandbox was stopped during the wait for a DHCP server")
        wait.sleep(LEASE_POLL_S)
        now += LEASE_POLL_S


def with_leases(
    session: Session, targets: tuple[DesiredDevice, ...], wait: AddressWait, now_s: int
) -> tuple[DesiredDevice, ...]:
    """Acquire leases, add their addresses, and return the targets with addresses, routes and MTU.

    The links are up.

    Raises:
        NoAddressError: no server granted a lease in time.
        RefusedError: the link is not Ethernet.
        OutdatedError: the sandbox ended meanwhile.
        KernelError: the kernel refused.
    """
    awaited = [
        (target, target.network)
        for target in targets
        if target.network and target.network.addressing is Addressing.DHCP
    ]
    if not awaited:
        return targets
    set_step(f"wait for a DHCP server on {', '.join(network.name for _, network in awaited)}")
    exchanges: dict[str, LeaseExchange] = {}
    try:
        for target, network in awaited:
            link = session.pod_link(network.name)
            _require_ethernet(target, link)
            exchanges[network.name] = exchange_on(session, link)
        run_exchanges(exchanges.values(), wait, now_s)
        done = {
            target.record.identity: _leased(
                session, target, network, exchanges[network.name], wait.limit_s, now_s
            )
            for target, network in awaited
        }
    except BaseException:
        for exchange in exchanges.values():
            if isinstance(exchange.result, Granted):
                _release(exchange.port, exchange.client.mac, exchange.result.lease)
        raise
    finally:
        for exchange in exchanges.values():
            exchange.port.close()
    return tuple(done.get(target.record.identity, target) for target in targets)


def _require_ethernet(target: DesiredDevice, link: Link) -> None:
    if link.arphrd != ARPHRD_ETHER:
        raise RefusedError(
            f"device {target.record.device.name}: addressing DHCP requires an Ethernet link, and"
            f" {link.name} is not one; set interface.addresses in the claim"
        )


def _leased(
    session: Session,
    target: DesiredDevice,
    network: PodNetwork,
    exchange: LeaseExchange,
    limit_s: float,
    now_s: int,
) -> DesiredDevice:
    """Add the address of the lease to the link, and return the target with the lease.

    Raises:
        NoAddressError: there is no lease.
        KernelError: the kernel refused the address.
    """
    granted = exchange.result
    if not isinstance(granted, Granted):
        raise NoAddressError(
            f"device {target.record.device.name}: no DHCP server granted {network.name} an"
            f" address within {limit_s:g} s; check that the link has a carrier and that a server"
            " on it has a free address, or raise --dhcp-ready-timeout; the attach is retried"
        )
    session.apply(add_lease(network.name, granted.lease, now_s))
    link = session.pod_link(network.name)
    if target.child:
        link = replace(link, max_mtu=link.mtu)  # the parent's MTU bounds it
    return replace(
        target,
        network=network_with_lease(network, granted, link),
        record=replace(target.record, lease=granted.lease),
        has_addresses=True,
    )


def release_lease(session: Session, link: Link, lease: Lease) -> None:
    """Release the lease of a link in the pod. Best effort."""
    with suppress(KernelError):
        port = session.dhcp(link.name)
        try:
            _release(port, link.mac, lease)
        finally:
            port.close()


def _release(port: DhcpPort, mac: str, lease: Lease) -> None:
    message = release_of(lease, mac, secrets.randbits(32))
    with suppress(KernelError):
        port.send(message.payload, message.source, message.target, message.server_mac)
