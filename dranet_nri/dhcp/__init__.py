"""DHCPv4 client without I/O (RFC 2131, RFC 2132, RFC 3442).

message.py   messages as bytes, and back
packet.py    IPv4 and UDP headers of messages
client.py    one exchange with servers: acquire, renew or rebind; times of the next one
"""

from dranet_nri.dhcp.client import (
    RTPROT_DHCP,
    Action,
    DhcpClient,
    Granted,
    Lost,
    Send,
    next_exchange,
    release_of,
)
from dranet_nri.dhcp.message import DhcpMessage, DhcpMessageType, decode_message, encode_message
from dranet_nri.dhcp.packet import CLIENT_PORT, SERVER_PORT, packet_with, payload_of

__all__ = [
    "CLIENT_PORT",
    "RTPROT_DHCP",
    "SERVER_PORT",
    "Action",
    "DhcpClient",
    "DhcpMessage",
    "DhcpMessageType",
    "Granted",
    "Lost",
    "Send",
    "decode_message",
    "encode_message",
    "next_exchange",
    "packet_with",
    "payload_of",
    "release_of",
]
