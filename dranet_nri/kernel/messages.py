"""Message classes for requests, on pyroute2's codec.

pyroute2 has classes for all of rtnetlink. Two of them don't take what we have to send: link-layer
addresses of 20 bytes (InfiniBand), and GSO and GRO sizes for IPv4.
"""

from pyroute2.netlink import nlmsg
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

__all__ = ["LinkMessage", "NeighbourMessage", "fibmsg", "ifaddrmsg", "rtmsg"]


class LinkMessage(nlmsg):  # type: ignore[misc]  # pyroute2 is untyped
    """struct ifinfomsg and the attributes that we set; numbers from linux/if_link.h."""

    fields = ifinfmsg.fields
    nla_map = (
        (1, "IFLA_ADDRESS", "cdata"),
        (3, "IFLA_IFNAME", "asciiz"),
        (4, "IFLA_MTU", "uint32"),
        (10, "IFLA_MASTER", "uint32"),
        (13, "IFLA_TXQLEN", "uint32"),
        (20, "IFLA_IFALIAS", "asciiz"),
        (28, "IFLA_NET_NS_FD", "uint32"),
        (41, "IFLA_GSO_MAX_SIZE", "uint32"),
        (52, "IFLA_PROP_LIST", "proplist"),
        (58, "IFLA_GRO_MAX_SIZE", "uint32"),
        (63, "IFLA_GSO_IPV4_MAX_SIZE", "uint32"),
        (64, "IFLA_GRO_IPV4_MAX_SIZE", "uint32"),
    )
    proplist = ifinfmsg.proplist


class NeighbourMessage(nlmsg):  # type: ignore[misc]  # pyroute2 is untyped
    """struct ndmsg and the attributes that we set; numbers from linux/neighbour.h."""

    fields = ndmsg.fields
    nla_map = ((1, "NDA_DST", "ipaddr"), (2, "NDA_LLADDR", "cdata"))
