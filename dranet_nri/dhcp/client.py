"""State machine of a DHCP client (RFC 2131, section 4.4), from events to actions.

Rules:
1. One client is one exchange, which acquires, renews or rebinds a lease. The times of the lease
   decide which of these is due, so a restart of the plugin makes no difference.
2. Times are seconds of CLOCK_BOOTTIME. A lease begins when its request was sent.
3. Messages of other exchanges, and addresses and routers that a host cannot use, are ignored.
4. A renewed lease has the same address. If a server offers another one, the lease is lost.
5. Without a subnet mask, an acquired address has that of its class, as in other clients, and a
   renewed one keeps its own.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address
from math import inf
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.dhcp.message import (
    UNSPECIFIED,
    DhcpMessage,
    DhcpMessageType,
    decode_message,
    encode_message,
)
from dranet_nri.errors import ProtocolError
from dranet_nri.model import FOREVER, Lease, Route

BROADCAST: Final = "255.255.255.255"
FIRST_RESEND_S: Final = 0.5  # a link that has just been set up often loses the first message
MAX_RESEND_S: Final = 8.0
MAX_REQUESTS: Final = 3  # of one offer, before the client returns to SELECTING
MIN_RETRY_S: Final = 60.0  # between exchanges of one lease (RFC 2131, section 4.4.5)
RTPROT_DHCP: Final = 16  # linux/rtnetlink.h
_LINK_SCOPE: Final = 253  # RT_SCOPE_LINK
_DEFAULT: Final = "0.0.0.0/0"
_CLASS_B, _CLASS_C = 128, 192  # first bytes of the first addresses of these classes


class ClientState(StrEnum):
    """State of an exchange, by its name in RFC 2131; DONE is BOUND, or INIT after a loss."""

    SELECTING = "selecting"
    REQUESTING = "requesting"
    RENEWING = "renewing"
    REBINDING = "rebinding"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message; server_mac "" is the broadcast address."""

    payload: bytes
    source: str = UNSPECIFIED
    target: str = BROADCAST
    server_mac: str = ""


@dataclass(frozen=True, slots=True)
class Granted:
    """The server granted the lease.

    Attributes:
        routes: of the answer, with the default route.
        mtu: of the link, 0 if the answer has none.
    """

    lease: Lease
    routes: tuple[Route, ...] = ()
    mtu: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease expired or was withdrawn."""

    why: str


Action = Send | Granted | Lost


def next_exchange(lease: Lease, now: float) -> float:
    """Return the time of the next exchange of a lease. From T1 on, the last one had no answer."""
    if now < lease.renew_at:
        return lease.renew_at
    limit = lease.rebind_at if now < lease.rebind_at else lease.ends_at
    return max(min(now + max((limit - now) / 2, MIN_RETRY_S), limit), now + 1)


def release_of(lease: Lease, mac: str, xid: int) -> Send:
    """Return the message that releases a lease."""
    address = lease.address.partition("/")[0]
    message = DhcpMessage(DhcpMessageType.RELEASE, xid, mac, client=address, server=lease.server)
    return Send(encode_message(message), address, lease.server, lease.server_mac)


@dataclass(slots=True)
class DhcpClient:
    """One exchange of a client with servers.

    Attributes:
        mac: of the client's link.
        xid: number of the exchange, 32 bits.
        lease: the lease to extend, None to acquire one.
        due: time of the next message that `tick` sends, in seconds; inf for none.
    """

    mac: str
    xid: int
    lease: Lease | None = None
    due: float = inf
    state: ClientState = ClientState.DONE
    _began: float = 0.0
    _sent: float = 0.0
    _pause: float = FIRST_RESEND_S
    _requests: int = 0
    _offer: DhcpMessage = field(default=DhcpMessage(DhcpMessageType.OFFER, 0, ""))

    def start(self, now: float) -> tuple[Action, ...]:
        """Begin the exchange that is due."""
        self._began = now
        lease = self.lease
        if lease is None:
            return self._enter(ClientState.SELECTING, now)
        if now >= lease.ends_at:
            return self._lose(f"the lease of {lease.address} ended: no DHCP server extended it")
        rebinds = now >= lease.rebind_at
        return self._enter(ClientState.REBINDING if rebinds else ClientState.RENEWING, now)

    def tick(self, now: float) -> tuple[Action, ...]:
        """Repeat the last message if it is due."""
        if now < self.due:
            return ()
        if self.state is ClientState.REQUESTING and self._requests >= MAX_REQUESTS:
            return self._enter(ClientState.SELECTING, now)
        return self._resend(now)

    def receive(self, payload: bytes, source_mac: str, now: float) -> tuple[Action, ...]:
        """Process a message from the link.

        Args:
            payload: the bytes of the message.
            source_mac: link-layer address of the sender.
            now: time of receipt.
        """
        try:
            message = decode_message(payload)
        except ProtocolError:
            return ()  # other hosts send on the link too; a valid answer may follow
        if (message.xid, message.mac) != (self.xid, self.mac):
            return ()
        match self.state, message.kind:
            case ClientState.SELECTING, DhcpMessageType.OFFER if _is_usable(message):
                self._offer = message
                return self._enter(ClientState.REQUESTING, now)
            case (
                ClientState.REQUESTING | ClientState.RENEWING | ClientState.REBINDING,
                DhcpMessageType.ACK,
            ) if _is_usable(message) and message.lease_s:
                return self._acknowledged(message, source_mac)
            case ClientState.REQUESTING, DhcpMessageType.NAK if (
                message.server == self._offer.server
            ):
                self.state, self._pause = ClientState.SELECTING, FIRST_RESEND_S
                self.due = now + self._pause
                return ()
            case ClientState.RENEWING | ClientState.REBINDING, DhcpMessageType.NAK:
                return self._refused(message)
            case _:
                return ()

    def _enter(self, state: ClientState, now: float) -> tuple[Action, ...]:
        self.state, self._pause, self._requests = state, FIRST_RESEND_S, 0
        return self._resend(now)

    def _resend(self, now: float) -> tuple[Action, ...]:
        self.due, self._sent = now + self._pause, now
        self._pause = min(self._pause * 2, MAX_RESEND_S)
        self._requests += 1
        message = DhcpMessage(
            DhcpMessageType.REQUEST, self.xid, self.mac, secs=int(now - self._began)
        )
        lease = self.lease
        if lease is not None:
            address = lease.address.partition("/")[0]
            payload = encode_message(replace(message, client=address))
            if self.state is ClientState.RENEWING:
                return (Send(payload, address, lease.server, lease.server_mac),)
            return (Send(payload, address),)
        if self.state is ClientState.REQUESTING:
            offer = self._offer
            message = replace(message, requested=offer.offered, server=offer.server)
        else:
            message = replace(message, kind=DhcpMessageType.DISCOVER)
        return (Send(encode_message(message)),)

    def _acknowledged(self, message: DhcpMessage, source_mac: str) -> tuple[Action, ...]:
        address = f"{message.offered}/{self._prefix_length(message)}"
        if self.lease is None:
            if (message.offered, message.server) != (self._offer.offered, self._offer.server):
                return ()
        elif address != self.lease.address:
            return self._lose(
                f"the DHCP server {message.server} offers {address}, not {self.lease.address}"
            )
        self.state, self.due = ClientState.DONE, inf
        lease_s = message.lease_s or 0
        renew_s, rebind_s = _times(lease_s, message)
        since_s = int(self._sent)
        lease = Lease(address, message.server, source_mac, since_s, lease_s, renew_s, rebind_s)
        return (Granted(lease, _routes(message), message.mtu),)

    def _prefix_length(self, message: DhcpMessage) -> int:
        if message.mask is not None:
            return message.mask
        if self.lease is not None:
            return int(self.lease.address.partition("/")[2])
        first = IPv4Address(message.offered).packed[0]
        return 8 if first < _CLASS_B else 16 if first < _CLASS_C else 24

    def _refused(self, message: DhcpMessage) -> tuple[Action, ...]:
        """Process a NAK: of the lease's server while renewing, of any server while rebinding."""
        assert self.lease is not None
        if self.state is ClientState.RENEWING and message.server != self.lease.server:
            return ()
        return self._lose(f"the DHCP server {message.server} withdrew {self.lease.address}")

    def _lose(self, why: str) -> tuple[Action, ...]:
        self.state, self.due = ClientState.DONE, inf
        return (Lost(why),)


def _is_usable(message: DhcpMessage) -> bool:
    """Whether a host can use the address, and the server has one as well."""
    return _is_host(message.offered) and _is_host(message.server) and message.mask != 0


def _is_host(text: str) -> bool:
    if not text:
        return False
    address = IPv4Address(text)
    # The reserved network 240.0.0.0/4 includes the broadcast address.
    barred = address.is_multicast or address.is_loopback or address.is_reserved
    return not (barred or address.is_unspecified)


def _times(lease_s: int, message: DhcpMessage) -> tuple[int, int]:
    """Return T1 and T2 of the server if they are in order, else the defaults of RFC 2131.

    At the end of a lease, which some servers send as T1 and T2, it is too late to extend it.
    """
    rebind_s = message.rebind_s if message.rebind_s is not None else lease_s * 7 // 8
    renew_s = message.renew_s if message.renew_s is not None else min(lease_s // 2, rebind_s)
    if lease_s == FOREVER or 0 < renew_s <= rebind_s < lease_s:
        return renew_s, rebind_s
    return lease_s // 2, lease_s * 7 // 8


def _routes(message: DhcpMessage) -> tuple[Route, ...]:
    """Return the routes of a message, or a default route if it has routers only (RFC 3442).

    A router with the client's own address means that the destination is on the link.
    """
    routers = [router for router in message.routers if _is_host(router)]
    pairs = message.routes or tuple((_DEFAULT, router) for router in routers[:1])
    on_link = {UNSPECIFIED, message.offered}
    return tuple(
        Route(
            destination,
            gateway="" if router in on_link else router,
            scope=_LINK_SCOPE if router in on_link else 0,
            protocol=RTPROT_DHCP,
        )
        for destination, router in pairs
        if router == UNSPECIFIED or _is_host(router)
    )
