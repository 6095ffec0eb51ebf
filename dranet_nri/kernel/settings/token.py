"""IPv6 token of a link: the interface identifier of its SLAAC addresses (`ip token`).

Plans handle it as a sysctl (`plan.ops.IPV6_TOKEN`), because a move resets it, too.
"""

from socket import AF_INET6, inet_ntop, inet_pton
from typing import Final

from dranet_nri.kernel.links import RTM_NEWLINK
from dranet_nri.linux.netlink.codec import attribute, attributes
from dranet_nri.linux.netlink.links import IFLA_AF_SPEC, INFO
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import Sysctl
from dranet_nri.plan.ops import IPV6_TOKEN

IFLA_INET6_TOKEN: Final = 7  # linux/if_link.h


def token_of(af_spec: bytes) -> tuple[Sysctl, ...]:
    """Return the token in the link's IFLA_AF_SPEC, () if none is set."""
    token = attributes(attributes(af_spec).get(AF_INET6, b"")).get(IFLA_INET6_TOKEN, b"")
    return (Sysctl(*IPV6_TOKEN, inet_ntop(AF_INET6, token)),) if any(token) else ()


def set_token(netlink: RtnetlinkSocket, what: str, index: int, value: str) -> None:
    """Set the token.

    Raises:
        KernelError: EINVAL: the link accepts no router advertisements, or sends no solicitations.
    """
    token = attribute(IFLA_INET6_TOKEN, inet_pton(AF_INET6, value))
    spec = attribute(IFLA_AF_SPEC, attribute(AF_INET6, token))
    netlink.do(what, RTM_NEWLINK, 0, INFO.pack(0, 0, index, 0, 0) + spec)
