"""Leases of a pod's devices: acquired before the gate opens, extended later, given back at the end.

Rules:
1. All devices of a pod acquire theirs at the same time.
2. The attach fails if a server gives none in time; leases that the others got are given back.
3. A lease is given back by one frame to its server. Nothing waits for it, and a server that does
   not get it has the address again at the end of the lease.
"""

import secrets
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from dranet_nri.attach.addressing import AddressWait
from dranet_nri.attach.desired import DesiredDevice
from dranet_nri.component.threads import set_step
from dranet_nri.dhcp import Action, DhcpClient, Granted, Lost, Send, release_of
from dranet_nri.errors import KernelError, OutdatedError, RefusedError
from dranet_nri.model import ARPHRD_ETHER, Addressing, AttachedDevice, Lease, Link
from dranet_nri.plan.kernel import DhcpPort, Session
from dranet_nri.plan.lease import add_lease
from dranet_nri.plan.leased import leased_network
from dranet_nri.plan.pod_network import PodNetwork

LEASE_POLL_S: Final = 0.01  # an exchange has two answers, and each may wait as long


@dataclass(slots=True)
class LeaseExchange:
    """An exchange of one link with DHCP servers, and what came of it.

    Attributes:
        name: of the link in the pod.
        result: None until there is one.
    """

    name: str
    port: DhcpPort
    client: DhcpClient
    result: Granted | Lost | None = None

    def take(self, actions: Iterable[Action]) -> None:
        """Send what is to be sent, and keep the result."""
        for action in actions:
            match action:
                case Send(payload, source, target, mac):
                    self.port.send(payload, source, target, mac)
                case Granted() | Lost():
                    self.result = action

    def step(self, now: float) -> None:
        """Take what came, and send again what is due."""
        for payload, mac in self.port.pending():
            self.take(self.client.receive(payload, mac, now))
        self.take(self.client.tick(now))


def exchange_on(session: Session, link: Link, lease: Lease | None = None) -> LeaseExchange:
    """Return an exchange on a pod's link, which acquires a lease or extends that one.

    Raises:
        KernelError: the kernel gives no socket.
    """
    client = DhcpClient(link.mac, secrets.randbits(32), lease)
    return LeaseExchange(link.name, session.dhcp(link.name), client)


def run_exchanges(exchanges: Collection[LeaseExchange], wait: AddressWait, now_s: int) -> None:
    """Run exchanges side by side until each has its result, or the time is over.

    Args:
        exchanges: of one pod.
        wait: how to wait.
        now_s: seconds of CLOCK_BOOTTIME.

    Raises:
        OutdatedError: the sandbox ended meanwhile.
        KernelError: a link is gone.
    """
    now = float(now_s)
    for exchange in exchanges:
        exchange.take(exchange.client.start(now))
    for _ in range(round(wait.limit_s / LEASE_POLL_S)):
        for exchange in exchanges:
            if exchange.result is None:
                exchange.step(now)
        if all(exchange.result is not None for exchange in exchanges):
            return
        if not wait.is_live():
            raise OutdatedError("the sandbox was stopped while a DHCP server was awaited")
        wait.sleep(LEASE_POLL_S)
        now += LEASE_POLL_S


def with_leases(
    session: Session, targets: tuple[DesiredDevice, ...], wait: AddressWait, now_s: int
) -> tuple[DesiredDevice, ...]:
    """Return the targets, whose links are up, with what DHCP servers gave; addresses are added.

    Raises:
        RefusedError: no server gave a lease in time, or the link is not Ethernet.
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
            f"device {target.record.device.name}: addressing DHCP needs an Ethernet link, and"
            f" {link.name} is none; give it interface.addresses"
        )


def _leased(
    session: Session,
    target: DesiredDevice,
    network: PodNetwork,
    exchange: LeaseExchange,
    limit_s: float,
    now_s: int,
) -> DesiredDevice:
    """Return the target with its lease, whose address the link has then.

    Raises:
        RefusedError: there is none.
        KernelError: the kernel refused the address.
    """
    granted = exchange.result
    if not isinstance(granted, Granted):
        raise RefusedError(
            f"device {target.record.device.name}: no DHCP server gave {network.name} an address"
            f" within {limit_s:g} s; see that the link has a carrier and that a server is there"
            " with a free address, or raise --dhcp-ready-timeout; this is retried"
        )
    session.apply(add_lease(network.name, granted.lease, now_s))
    link = session.pod_link(network.name)
    if target.child:
        link = replace(link, max_mtu=link.mtu)  # the parent's MTU bounds it
    return replace(
        target,
        network=leased_network(network, granted, link),
        record=replace(target.record, lease=granted.lease),
        is_settled=True,
    )


def release_lease(session: Session, device: AttachedDevice) -> None:
    """Give the device's lease back, if it has one and is still in the pod; best effort."""
    if device.lease is None:
        return
    with suppress(KernelError):
        link = session.pod_link(device.pod_name)
        port = session.dhcp(link.name)
        try:
            _release(port, link.mac, device.lease)
        finally:
            port.close()


def _release(port: DhcpPort, mac: str, lease: Lease) -> None:
    message = release_of(lease, mac, secrets.randbits(32))
    with suppress(KernelError):
        port.send(message.payload, message.source, message.target, message.server_mac)
