"""A DHCP server in memory, and its messages as bytes, made independently of dranet_nri.dhcp."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network

from dranet_nri.dhcp import DhcpMessage, DhcpMessageType, decode_message
from dranet_nri.errors import KernelError

SERVER_MAC = "02:00:00:00:00:fe"


def option(code: int, value: bytes) -> bytes:
    """Return an option."""
    return bytes([code, len(value)]) + value


def packed(address: str) -> bytes:
    """Return an address as bytes."""
    return ip_address(address).packed


def route_bytes(destination: str, router: str) -> bytes:
    """Return an entry of option 121 (RFC 3442)."""
    network = ip_network(destination)
    significant = network.network_address.packed[: (network.prefixlen + 7) // 8]
    return bytes([network.prefixlen]) + significant + packed(router)


def reply_bytes(message: DhcpMessage, *more: bytes) -> bytes:
    """Return a server's message; more options come behind its own."""
    options = [option(53, bytes([message.kind]))]
    if message.server:
        options.append(option(54, packed(message.server)))
    if message.mask is not None:
        options.append(option(1, packed(str(ip_network((0, message.mask)).netmask))))
    for code, seconds in ((51, message.lease_s), (58, message.renew_s), (59, message.rebind_s)):
        if seconds is not None:
            options.append(option(code, struct.pack("!I", seconds)))
    if message.mtu:
        options.append(option(26, struct.pack("!H", message.mtu)))
    if message.routers:
        options.append(option(3, b"".join(map(packed, message.routers))))
    if message.routes:
        options.append(option(121, b"".join(route_bytes(*route) for route in message.routes)))
    return with_options(message, b"".join((*options, *more)) + b"\xff")


def with_options(
    message: DhcpMessage, options: bytes, sname: bytes = b"", file: bytes = b""
) -> bytes:
    """Return a server's message with these bytes in the place of options."""
    return (
        struct.pack("!BBBBIHH", 2, 1, 6, 0, message.xid, 0, 0)
        + packed(message.client)
        + packed(message.offered)
        + bytes(8)
        + bytes.fromhex(message.mac.replace(":", "")).ljust(16, b"\0")
        + sname.ljust(64, b"\0")
        + file.ljust(128, b"\0")
        + b"\x63\x82\x53\x63"
        + options
    )


def decoded(payload: bytes) -> DhcpMessage:
    """Return a client's message; it differs from a server's by its first byte."""
    assert payload[0] == 1, "a client sends requests"
    return replace(decode_message(b"\x02" + payload[1:]), op=1)


GIVEN = DhcpMessage(
    DhcpMessageType.ACK, 0, "", offered="10.77.0.50", server="10.77.0.1", mask=24, lease_s=3600
)


@dataclass(slots=True)
class FakeDhcpServer:
    """Answers on one link.

    Attributes:
        gives: what each offer and acknowledgement has, besides what identifies the exchange.
        silent: it answers nothing.
        refuses: it answers each request with a NAK.
        got: the messages that came, each with its target and the link-layer address.
        fails: what the kernel raises when something is sent.
    """

    gives: DhcpMessage = GIVEN
    silent: bool = False
    refuses: bool = False
    got: list[tuple[DhcpMessage, str, str]] = field(default_factory=list)
    fails: KernelError | None = None
    opened: int = 0
    _answers: list[bytes] = field(default_factory=list)

    def send(self, payload: bytes, source: str, target: str, mac: str = "") -> None:
        """Take a message, and answer it."""
        if self.fails:
            raise self.fails
        message = decoded(payload)
        assert source == message.client
        self.got.append((message, target, mac))
        kinds = {
            DhcpMessageType.DISCOVER: DhcpMessageType.OFFER,
            DhcpMessageType.REQUEST: DhcpMessageType.NAK if self.refuses else DhcpMessageType.ACK,
        }
        if not self.silent and message.kind in kinds:
            answer = replace(self.gives, kind=kinds[message.kind], xid=message.xid, mac=message.mac)
            self._answers.append(reply_bytes(answer))

    def pending(self) -> Iterator[tuple[bytes, str]]:
        """Yield the answers."""
        while self._answers:
            yield self._answers.pop(0), SERVER_MAC

    def close(self) -> None:
        """Count it."""
        self.opened -= 1

    @property
    def kinds(self) -> list[DhcpMessageType]:
        """Return the kinds of messages that came."""
        return [message.kind for message, _, _ in self.got]
