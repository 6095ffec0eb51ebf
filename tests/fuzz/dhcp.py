"""Target of the dhcp room: what any machine on a pod's link may send to its DHCP client."""

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_interface

from dranet_nri.dhcp import (
    Action,
    DhcpClient,
    DhcpMessage,
    DhcpMessageType,
    Granted,
    Send,
    packet_with,
    payload_of,
)
from dranet_nri.model import FOREVER, Lease, Link
from dranet_nri.plan.lease_network import network_with_lease
from dranet_nri.plan.lease_ops import add_lease
from dranet_nri.plan.pod_network import PodNetwork
from tests.fakes.dhcp import SERVER_MAC, decoded, option, reply_bytes
from tests.fuzz.target import Target

_MAC, _XID, _BEGAN = "02:00:00:00:00:01", 7, 1000.0
_LEASE = Lease("10.77.0.50/24", "10.77.0.1", SERVER_MAC, 900, 120, 60, 105)


def exchange(data: bytes) -> None:
    """Any packets give one usable lease at most, and what is sent is a message of a client."""
    if not data:
        return
    client = DhcpClient(_MAC, _XID, _LEASE if data[0] & 1 else None)
    now = _BEGAN
    actions = list(client.start(now))
    for packet in _packets(data[1:]):
        now += 0.25
        actions += client.tick(now)
        payload = payload_of(packet)
        if payload is not None:
            actions += client.receive(payload, SERVER_MAC, now)
    results = [action for action in actions if not isinstance(action, Send)]
    assert len(results) <= 1
    for action in actions:
        _check(action)


def _packets(data: bytes) -> Iterator[bytes]:
    """Cut at the lengths that are in front of each packet."""
    while data:
        size = int.from_bytes(data[:2])
        yield data[2 : 2 + size]
        data = data[2 + size :]


def _check(action: Action) -> None:
    match action:
        case Send(payload):
            message = decoded(payload)
            assert (message.mac, message.xid) == (_MAC, _XID)
        case Granted(lease):
            address = ip_interface(lease.address)
            assert address.version == 4
            assert not address.ip.is_unspecified
            assert not address.ip.is_multicast
            assert lease.lease_s == FOREVER or (
                0 <= lease.renew_s <= lease.rebind_s <= lease.lease_s
            )
            assert add_lease("net1", lease, _BEGAN).address.valid_s > 0
            network_with_lease(PodNetwork("net1"), action, Link(2, "net1", max_mtu=9000))
        case _:
            assert action.why


def packet_bytes(message: DhcpMessage, *more: bytes) -> bytes:
    """Return a server's packet with its length in front."""
    packet = bytearray(packet_with(reply_bytes(message, *more), "10.77.0.1", "255.255.255.255"))
    packet[22:24] = (68).to_bytes(2)
    return len(packet).to_bytes(2) + packet


OFFER = DhcpMessage(
    DhcpMessageType.OFFER,
    _XID,
    _MAC,
    offered="10.77.0.50",
    server="10.77.0.1",
    mask=24,
    lease_s=120,
)
ACK = replace(
    OFFER,
    kind=DhcpMessageType.ACK,
    renew_s=60,
    rebind_s=105,
    mtu=1400,
    routers=("10.77.0.254",),
    routes=(("10.88.0.0/16", "10.77.0.9"), ("0.0.0.0/0", "10.99.0.1")),
)
NAK = DhcpMessage(DhcpMessageType.NAK, _XID, _MAC, server="10.77.0.1")

TARGETS = {
    "dhcp": Target(
        exchange,
        (
            *(packet_bytes(message) for message in (OFFER, ACK, NAK)),
            *(option(code, bytes(4)) for code in (1, 3, 51, 54, 58, 59, 121)),
            *(b"\xff", b"\x34\x01\x03", b"\x35\x01\x05", b"\x79\x05\x00\x0a\x4d\x00\xfe"),
            *(b"\x63\x82\x53\x63", b"\xff\xff\xff\xff"),
        ),
    )
}
