"""Message classes for requests, based on pyroute2's codec.

pyroute2 has classes for all of rtnetlink. That of neighbours cannot encode link-layer addresses of
20 bytes (InfiniBand). All of them search each field among the attributes first, which takes a third
of the time.

The package's __init__ imports all of pyroute2, including a database: 180 modules, 9 MiB and 0.1 s,
of which nothing is needed to encode a message. So it is imported on first use of a name in it.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec


def _defer_init() -> None:
    """Register pyroute2 as a module whose submodules can be imported without its __init__."""
    spec = find_spec("pyroute2")
    if "pyroute2" in sys.modules or spec is None or spec.loader is None:
        return
    package, loader = module_from_spec(spec), spec.loader

    def load(name: str) -> object:
        """Return a submodule, or run the package's __init__ for any other name (PEP 562)."""
        if find_spec(f"pyroute2.{name}") is not None:
            return import_module(f"pyroute2.{name}")
        del package.__getattr__
        loader.exec_module(package)
        return getattr(package, name)

    package.__getattr__ = load  # type: ignore[method-assign]
    sys.modules["pyroute2"] = package


_defer_init()

from pyroute2.netlink import nla, nlmsg  # noqa: E402 - submodules, after _defer_init
from pyroute2.netlink.rtnl.fibmsg import fibmsg  # noqa: E402
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg  # noqa: E402
from pyroute2.netlink.rtnl.ndmsg import ndmsg  # noqa: E402


class _FieldsOnly:
    """A message whose `get` reads fields only, not attributes."""

    def get(self, name: str) -> object:
        """Return the field, None if absent."""
        return dict.get(self, name)  # type: ignore[call-overload]  # below, it is a dict


class RuleMessage(_FieldsOnly, fibmsg):  # type: ignore[misc]  # pyroute2 is untyped
    """struct fib_rule_hdr and its attributes."""


class LinkInfo(nla):  # type: ignore[misc]  # pyroute2 is untyped
    """IFLA_LINKINFO; the attributes of a kind are given as bytes."""

    nla_map = ((1, "IFLA_INFO_KIND", "asciiz"), (2, "IFLA_INFO_DATA", "cdata"))


class LinkMessage(_FieldsOnly, nlmsg):  # type: ignore[misc]  # pyroute2 is untyped
    """struct ifinfomsg and the attributes that requests set; numbers from linux/if_link.h."""

    fields = ifinfmsg.fields
    nla_map = (
        (3, "IFLA_IFNAME", "asciiz"),
        (5, "IFLA_LINK", "uint32"),
        (18, "IFLA_LINKINFO", "link_info"),
        (28, "IFLA_NET_NS_FD", "uint32"),
        (52, "IFLA_PROP_LIST", "proplist"),
    )
    proplist = ifinfmsg.proplist
    link_info = LinkInfo


class NeighbourMessage(_FieldsOnly, nlmsg):  # type: ignore[misc]  # pyroute2 is untyped
    """struct ndmsg and the attributes that requests set; numbers from linux/neighbour.h."""

    fields = ndmsg.fields
    nla_map = ((1, "NDA_DST", "ipaddr"), (2, "NDA_LLADDR", "cdata"), (12, "NDA_PROTOCOL", "uint8"))
