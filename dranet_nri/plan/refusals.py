"""Remedies for errnos of the kernel: one table of sentences.

Rules:
1. Every operation has a sentence for every errno: a specific one, else the general one.
2. A sentence names a parameter of the claim only in a pod, and for the operation that applies it.
3. The meanings are those of the kernel's code for the request. RDMA errors have theirs in the
   error's text (linux/rdma/errors.py).
"""

from collections.abc import Mapping
from errno import (
    E2BIG,
    EACCES,
    EADDRINUSE,
    EADDRNOTAVAIL,
    EAFNOSUPPORT,
    EAGAIN,
    EBADF,
    EBADMSG,
    EBUSY,
    EEXIST,
    EHOSTUNREACH,
    EINTR,
    EINVAL,
    EIO,
    EMFILE,
    EMSGSIZE,
    ENETDOWN,
    ENETUNREACH,
    ENFILE,
    ENOBUFS,
    ENODEV,
    ENOENT,
    ENOMEM,
    ENOSPC,
    ENOSYS,
    ENOTUNIQ,
    ENXIO,
    EOPNOTSUPP,
    EPERM,
    ERANGE,
    EROFS,
    ESTALE,
    ETIMEDOUT,
)
from typing import Final

from dranet_nri.errors import AttachError, DranetError, KernelError, RefusedError
from dranet_nri.model import Ns
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    AddChild,
    AddNeighbour,
    AddRoute,
    AddRule,
    MoveLink,
    MoveRdma,
    Op,
    RenameLink,
    RenameRdma,
    SetFeatures,
    SetLink,
    SetMaster,
    SetPrivateFlags,
    SetSysctl,
    SetUp,
)
from dranet_nri.plan.routes.vrf import AddVrf
from dranet_nri.plan.settings.driver_ops import SetDriver, SetRss
from dranet_nri.plan.settings.programs import AttachTcx, DetachTcx, DisableTcx
from dranet_nri.plan.settings.rate import LimitRate

_MEMORY: Final = "the node is short of memory"
_CHANGES: Final = "the object changes repeatedly; find what changes it (ip monitor)"
_FILES: Final = (
    "the plugin or the node has too many open files; restart the plugin, or raise its limit"
)
_GONE: Final = "the device was unplugged or deleted, or its driver was unbound, in the meantime"
_OFF: Final = "IPv6 is disabled on this link (net.ipv6.conf.*.disable_ipv6)"

ANY: Final[Mapping[int, str]] = {
    EPERM: "the plugin lacks a capability; run it as in manifests/ (CAP_NET_ADMIN, "
    "CAP_NET_BROADCAST, CAP_NET_RAW, CAP_SYS_ADMIN)",
    EACCES: "the kernel or a security module forbids it; see the node's audit log",
    EROFS: "the file system is read-only; run the plugin as in manifests/",
    ENOENT: "an object that it needs no longer exists, or the node's kernel does not support it",
    ENODEV: _GONE,
    ENXIO: _GONE,
    ESTALE: "the network namespace no longer exists, or was replaced",
    EBADF: "the network namespace no longer exists",
    EINTR: _CHANGES,
    EAGAIN: _CHANGES,
    EBUSY: "something else uses the device; see dranet-nri status",
    ETIMEDOUT: "the device or its driver does not answer; see the kernel's log (dmesg)",
    EIO: "the device or its driver failed; see the kernel's log (dmesg)",
    ENOMEM: _MEMORY,
    ENOBUFS: _MEMORY,
    ENOSPC: "a table of the kernel or the device is full; see the kernel's log (dmesg)",
    EMFILE: _FILES,
    ENFILE: _FILES,
    E2BIG: "the pod has more links or routes than the plugin reads; restart the pod",
    EMSGSIZE: "an answer of the kernel is longer than the plugin reads; find the link with hundreds"
    " of altnames (ip link)",
    EBADMSG: "the kernel's answer cannot be read; report it with the kernel's version",
    EEXIST: "such an object exists already; find it (ip -details address, route, rule, link)",
    EADDRINUSE: "another link has that address",
    EADDRNOTAVAIL: "the address cannot be used on this link",
    EAFNOSUPPORT: "the node's kernel has no such address family (ipv6.disable=1?)",
    EOPNOTSUPP: "the device, its driver or the node's kernel does not support it",
    ENOSYS: "the node's kernel does not support it",
    ENETDOWN: "the link is down",
    ENETUNREACH: "no route leads to that gateway",
    EHOSTUNREACH: "no route leads to that gateway",
    ENOTUNIQ: "an equal object exists already",
    ERANGE: "the value is out of the range of the device",
    EINVAL: "the kernel rejects the value; see the kernel's log (dmesg)",
}
UNKNOWN: Final = "see the kernel's log (dmesg)"

_UNREACHABLE: Final = (
    "its gateway is not reachable: an address or a route to it was deleted; add that again"
)
_NO_BPF: Final = "the plugin lacks CAP_BPF or CAP_SYS_ADMIN; run it as in manifests/"
_UNLOADED: Final = "the program is no longer loaded; load and attach it again"
_DRIVER_LOST: Final = "the driver rejects its earlier value; set it by hand (ethtool)"
_RSS_LOST: Final = "the driver rejects its earlier table; set it by hand (ethtool -X)"
_ADD_AGAIN: Final = "solve that and add it by hand"
OF_HOST: Final[Mapping[type[Op], Mapping[int, str]]] = {
    AddAddress: {
        EEXIST: "the link has that address with another prefix length or peer; delete that one",
        EACCES: f"{_OFF}; enable it",
    },
    AddRoute: {
        EEXIST: "the link has such a route with other settings; delete that one",
        EACCES: f"{_OFF}; enable it",
        ENETDOWN: "a link that it uses is down; set it up",
        ENETUNREACH: _UNREACHABLE,
        EHOSTUNREACH: _UNREACHABLE,
        EINVAL: "its source is no longer an address of the host, or its gateway now is one",
        ENODEV: "a link that it uses is not on the host",
    },
    SetMaster: {
        EBUSY: f"the link has another master; {_ADD_AGAIN} (ip link set LINK master MASTER)",
        EINVAL: f"the master rejects such a link; {_ADD_AGAIN} (ip link set LINK master MASTER)",
    },
    AddAltname: {EEXIST: "another link now has that name; delete it there"},
    MoveLink: {
        EEXIST: "a link of the host has that name; rename it; the plugin tries again",
        EBUSY: "the device or its driver is busy; the plugin tries again",
    },
    RenameLink: {
        EEXIST: "a link of the host has that name; rename it; the plugin tries again",
        EBUSY: "the link was set up in the meantime; the plugin tries again",
    },
    SetSysctl: {
        ENOENT: "the node's kernel has no such sysctl, or IPv6 is disabled; no action is needed",
        EINVAL: "the kernel no longer accepts that value; set it by hand",
    },
    SetLink: {
        EINVAL: "the device rejects its earlier setting; set it by hand",
        EOPNOTSUPP: "the device rejects the setting in this state; set it by hand",
    },
    SetFeatures: {EOPNOTSUPP: "the driver can no longer change that feature; see ethtool -k"},
    SetDriver: {EINVAL: _DRIVER_LOST, EOPNOTSUPP: _DRIVER_LOST},
    SetRss: {EINVAL: _RSS_LOST, EOPNOTSUPP: _RSS_LOST},
    DetachTcx: {EPERM: _NO_BPF},
    DisableTcx: {EPERM: _NO_BPF},
    AttachTcx: {EPERM: _NO_BPF, ENOENT: _UNLOADED},
}
OF_POD: Final[Mapping[type[Op], Mapping[int, str]]] = {
    AddChild: {
        EOPNOTSUPP: "the node's kernel has no such links; load the module ipvlan, macvlan or 8021q",
        EBUSY: "the parent is part of a bridge or bond, or has children of another type; claim"
        " another device, or use the type of the others in interface.type",
        EEXIST: "the host or another pod uses that VLAN of the parent; use another"
        " interface.vlan.id",
        EINVAL: "the parent accepts no such child: it is not an Ethernet link, or has a macvlan"
        " in passthru mode; claim another device",
    },
    LimitRate: {
        ENOENT: "the node's kernel has no token buckets; load the module sch_tbf",
        EOPNOTSUPP: "the node's kernel has no traffic control (CONFIG_NET_SCHED)",
        EINVAL: "the link supports no queueing discipline; claim a device without bandwidth",
    },
    AddVrf: {
        EOPNOTSUPP: "the node's kernel has no VRFs; load the module vrf",
        EEXIST: "the pod has a link of that name that is not a VRF of that table; use"
        " another name in interface.vrf, or the table of that VRF",
    },
    SetMaster: {
        EBUSY: "the link has another master; remove interface.vrf",
        EINVAL: "the link cannot be part of a VRF; remove interface.vrf",
    },
    AddAltname: {EEXIST: "a link of the pod has that name; use another one in interface.altnames"},
    AddAddress: {
        EEXIST: "the link has that address with another prefix length; set one of them"
        " in interface.addresses",
        EACCES: f"{_OFF} in the pod; set interface.addresses, with an IPv6 address to enable "
        f"it, or without",
        EADDRNOTAVAIL: "the kernel rejects such an address (multicast, unspecified); change "
        "interface.addresses",
        EADDRINUSE: "another child of the device has that address; change interface.addresses",
        EINVAL: "the kernel rejects such an address, or the link's MTU is below 1280 for IPv6; "
        "change interface.addresses",
    },
    AddRoute: {
        EEXIST: "the pod has another route to that destination with that metric; set "
        "routes[].metric, or a table of its own and rules",
        EACCES: f"{_OFF} in the pod; leave IPv6 out of routes, or claim an IPv6 address to "
        f"enable it",
        ENETDOWN: "the link is down in the pod; see why (dmesg); the plugin tries again",
        ENETUNREACH: "its gateway is not reachable from the addresses; add a route to it with "
        "scope 253 as well, or another gateway",
        EHOSTUNREACH: "its gateway is not reachable from the addresses; add a route to it with "
        "scope 253 as well, or another gateway",
        EINVAL: "its source is not an address of the pod, or its gateway is the link's own address;"
        " change routes[].source or gateway",
    },
    AddRule: {
        EEXIST: "the pod has a rule of that priority and selector; set rules[].priority",
        EAFNOSUPPORT: "the node's kernel has no IPv6 rules; use an IPv4 prefix in rules[]",
    },
    AddNeighbour: {
        EINVAL: "the kernel rejects such an entry on this link; check that neighbors[].hardwareAddr"
        " is as long as the link's",
        EACCES: f"{_OFF} in the pod; leave IPv6 out of neighbors",
    },
    MoveLink: {
        EEXIST: "a link of the pod has that name; set interface.name to another one",
        EINVAL: "the device cannot leave its namespace, or rejects interface.mtu, "
        "hardwareAddr or the sizes together with the move",
        EBUSY: "the device or its driver is busy, or changes its address only while down; the"
        " plugin tries again",
        EADDRNOTAVAIL: "the device rejects such an address; change interface.hardwareAddr",
        EOPNOTSUPP: "the device accepts no other address; remove interface.hardwareAddr",
    },
    RenameLink: {EEXIST: "a link of the pod has that name; set interface.name to another one"},
    SetLink: {
        EINVAL: "the device rejects the value; change interface.mtu, hardwareAddr or the sizes",
        EADDRINUSE: "the device, or another child of it, has that address; change"
        " interface.hardwareAddr",
        EOPNOTSUPP: "the device does not support the setting; remove it from interface",
    },
    SetUp: {
        EBUSY: "the device or its driver is busy; the plugin tries again",
        EADDRNOTAVAIL: "the device has no usable address; set interface.hardwareAddr",
    },
    SetSysctl: {
        ENOENT: "the node's kernel has no such sysctl, or no IPv6 (ipv6.disable=1); leave IPv6 "
        "out of the claim",
        EROFS: "the plugin's /proc/sys is read-only; run it as in manifests/",
    },
    SetFeatures: {
        EOPNOTSUPP: "the device cannot change that feature; remove it from ethtool.features",
    },
    SetPrivateFlags: {
        EOPNOTSUPP: "the driver has no such flag; remove it from ethtool.privateFlags",
    },
    SetDriver: {
        EINVAL: "the driver rejects the value; change it in ethtool, or remove it",
        EOPNOTSUPP: "the driver rejects one of the settings; remove it from ethtool",
        ERANGE: "the value is out of the range of the device; change it in ethtool",
    },
    SetRss: {
        EINVAL: "the driver rejects the distribution; change ethtool.rss, or remove it",
        EOPNOTSUPP: "the driver cannot change the distribution; remove ethtool.rss",
    },
    DetachTcx: {EPERM: _NO_BPF},
    DisableTcx: {EPERM: _NO_BPF},
}


def remedy(code: int, op: Op | None = None) -> str:
    """Return the remedy for an errno of an operation, or of a kernel query."""
    return _remedies_of(op).get(code) or ANY.get(code, UNKNOWN)


def _remedies_of(op: Op | None) -> Mapping[int, str]:
    """Return the sentences of the operation in its namespace."""
    match op:
        case None | MoveRdma() | RenameRdma():
            return {}
        case MoveLink():
            where = op.target
        case SetFeatures(strict=claimed) | SetDriver(claimed=claimed) | SetRss(claimed=claimed):
            where = Ns.POD if claimed else Ns.HOST  # set on the host, for the pod or for itself
        case _:
            where = op.ns
    return (OF_POD if where is Ns.POD else OF_HOST).get(type(op), {})


def explained(error: KernelError, op: Op | None = None) -> str:
    """Return the error with its remedy."""
    # The errors of these contain the remedy. Of children, only IPoIB ones are created on the host.
    explains_itself = isinstance(op, MoveRdma | RenameRdma) or (
        isinstance(op, AddChild) and op.ns is Ns.HOST
    )
    if explains_itself and error.detail:
        return str(error)
    return f"{error}; {remedy(error.code, op)}"


def described(error: Exception, op: Op | None = None) -> str:
    """Return the text of an error for an Event or a record, with the type of an unexpected one."""
    if isinstance(error, KernelError):
        return explained(error, op)
    return str(error) if isinstance(error, DranetError) else f"{type(error).__name__}: {error}"


def stopped_at(step: Op | str, error: DranetError, undo: tuple[str, ...] = ()) -> AttachError:
    """Return the error of an attach that stopped at a step, without repeating the step.

    A refusal is not a failure of the step, so its text is kept as it is.
    """
    if isinstance(error, RefusedError):
        return AttachError("", str(error), undo)
    cause = described(error, None if isinstance(step, str) else step)
    return AttachError(str(step), cause.removeprefix(f"{step}: "), undo)
