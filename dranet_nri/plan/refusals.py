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
_CHANGES: Final = "what it is about changes all the time; see what changes it (ip monitor)"
_FILES: Final = (
    "the plugin or the node has too many open files; restart the plugin (its limits say how many)"
)
_GONE: Final = "the device was unplugged or deleted, or its driver unbound, meanwhile"
_OFF: Final = "IPv6 is switched off for this link (net.ipv6.conf.*.disable_ipv6)"

ANY: Final[Mapping[int, str]] = {
    EPERM: "the plugin lacks a capability; run it as manifests/ has it (CAP_NET_ADMIN, "
    "CAP_NET_RAW, CAP_SYS_ADMIN)",
    EACCES: "the kernel or a security module forbids it; see the node's audit log",
    EROFS: "the file system is read-only; run the plugin as manifests/ has it",
    ENOENT: "what it needs is no longer there, or the node's kernel does not have it",
    ENODEV: _GONE,
    ENXIO: _GONE,
    ESTALE: "the network namespace ended, or is another one by now",
    EBADF: "the network namespace ended",
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
    E2BIG: "the pod has more links or routes than are looked through; restart the pod",
    EMSGSIZE: "an answer of the kernel is longer than is read; see which link has hundreds of"
    " altnames (ip link)",
    EBADMSG: "the kernel's answer cannot be read; report it with the kernel's version",
    EEXIST: "something of that kind is there already; see what has it (ip -details address,"
    " route, rule, link)",
    EADDRINUSE: "another one has that address",
    EADDRNOTAVAIL: "the address cannot be used there",
    EAFNOSUPPORT: "the node's kernel has no such address family (ipv6.disable=1?)",
    EOPNOTSUPP: "the device, its driver or the node's kernel does not support it",
    ENOSYS: "the node's kernel does not support it",
    ENETDOWN: "the link is down",
    ENETUNREACH: "no route leads to that gateway",
    EHOSTUNREACH: "no route leads to that gateway",
    ENOTUNIQ: "there is one like it already",
    ERANGE: "the value is out of the range of the device",
    EINVAL: "the kernel does not take it like this; see the kernel's log (dmesg)",
}
UNKNOWN: Final = "see the kernel's log (dmesg)"

_NO_WAY: Final = (
    "its gateway is not within reach: an address or a route to it is gone; give it back"
)
_NO_BPF: Final = "the plugin lacks CAP_BPF or CAP_SYS_ADMIN; run it as manifests/ has it"
_UNLOADED: Final = "the program is no longer loaded; what loaded it must attach it again"
_DRIVER_LOST: Final = "the driver does not take the value that it had; set it by hand (ethtool)"
_RSS_LOST: Final = "the driver does not take the table that it had; set it by hand (ethtool -X)"
_ADD_AGAIN: Final = "add it by hand once that is solved"
OF_HOST: Final[Mapping[type[Op], Mapping[int, str]]] = {
    AddAddress: {
        EEXIST: "the link has that address with another prefix length or peer; delete that one",
        EACCES: f"{_OFF}; switch it on",
    },
    AddRoute: {
        EEXIST: "the link has such a route with other settings; delete that one",
        EACCES: f"{_OFF}; switch it on",
        ENETDOWN: "a link that it goes over is down; set it up",
        ENETUNREACH: _NO_WAY,
        EHOSTUNREACH: _NO_WAY,
        EINVAL: "its source is no address of the host any more, or its gateway is one by now",
        ENODEV: "a link that it goes over is not on the host",
    },
    SetMaster: {
        EBUSY: f"the link is part of something else; {_ADD_AGAIN} (ip link set LINK master MASTER)",
        EINVAL: f"the master does not take such a link; {_ADD_AGAIN} (ip link set LINK master "
        f"MASTER)",
    },
    AddAltname: {EEXIST: "another link has that name by now; delete it there"},
    MoveLink: {
        EEXIST: "a link of the host has that name; rename it, this is tried again",
        EBUSY: "the device or its driver is busy; this is tried again",
    },
    RenameLink: {
        EEXIST: "a link of the host has that name; rename it, this is tried again",
        EBUSY: "somebody took the link up in between; this is tried again",
    },
    SetSysctl: {
        ENOENT: "the node's kernel has no such sysctl, or IPv6 is off; nothing is to be done",
        EINVAL: "the kernel does not take that value any more; set the sysctl by hand",
    },
    SetLink: {
        EINVAL: "the device does not take the setting that it had; set it by hand",
        EOPNOTSUPP: "the device does not take the setting in this state; set it by hand",
    },
    SetFeatures: {EOPNOTSUPP: "the driver does not switch that feature any more; see ethtool -k"},
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
        EEXIST: "that VLAN of the parent is the host's or another pod's; use another"
        " interface.vlan.id",
        EINVAL: "the parent takes no such child: it is no Ethernet link, or the host gave it to"
        " one pod alone (macvlan passthru); claim another device",
    },
    LimitRate: {
        ENOENT: "the node's kernel has no token buckets; load the module sch_tbf",
        EOPNOTSUPP: "the node's kernel has no traffic control (CONFIG_NET_SCHED)",
        EINVAL: "the link takes no queueing discipline; claim a device without bandwidth",
    },
    AddVrf: {
        EOPNOTSUPP: "the node's kernel has no VRFs; load the module vrf",
        EEXIST: "the pod has a link of that name that is no VRF of that table; use another name in"
        " interface.vrf, or the table that it has",
    },
    SetMaster: {
        EBUSY: "the link is part of something else; remove interface.vrf",
        EINVAL: "the link cannot be part of a VRF; remove interface.vrf",
    },
    AddAltname: {EEXIST: "a link of the pod has that name; use another one in interface.altnames"},
    AddAddress: {
        EEXIST: "the link has that address with another prefix length; give interface.addresses"
        " one of them",
        EACCES: f"{_OFF} in the pod; give interface.addresses, with IPv6 to switch it on, or "
        f"without",
        EADDRNOTAVAIL: "the kernel takes no such address (multicast, unspecified); change "
        "interface.addresses",
        EINVAL: "the kernel takes no such address, or the link's MTU is below 1280 for IPv6; "
        "change interface.addresses",
    },
    AddRoute: {
        EEXIST: "the pod has another route to that destination with that metric; set "
        "routes[].metric, or a table of its own and rules",
        EACCES: f"{_OFF} in the pod; leave IPv6 out of routes, or claim an IPv6 address to "
        f"switch it on",
        ENETDOWN: "the link is down in the pod; see why (dmesg), this is tried again",
        ENETUNREACH: "its gateway is not within reach of the addresses; give a route to it with "
        "scope 253 as well, or another gateway",
        EHOSTUNREACH: "its gateway is not within reach of the addresses; give a route to it with "
        "scope 253 as well, or another gateway",
        EINVAL: "its source is no address of the pod, or its gateway is the link's own address;"
        " change routes[].source or gateway",
    },
    AddRule: {
        EEXIST: "the pod has a rule of that priority and selector; set rules[].priority",
        EAFNOSUPPORT: "the node's kernel has no IPv6 rules; give rules[] a prefix of IPv4",
    },
    AddNeighbour: {
        EINVAL: "the kernel takes no such entry on this link; see that neighbors[].hardwareAddr"
        " is as long as the link's",
        EACCES: f"{_OFF} in the pod; leave IPv6 out of neighbors",
    },
    MoveLink: {
        EEXIST: "a link of the pod has that name; set interface.name to another one",
        EINVAL: "the device cannot leave its namespace, or does not take interface.mtu, "
        "hardwareAddr or the sizes with it",
        EBUSY: "the device or its driver is busy, or changes its address only while down; this"
        " is tried again",
        EADDRNOTAVAIL: "the device takes no such address; change interface.hardwareAddr",
        EOPNOTSUPP: "the device takes no address of its own; remove interface.hardwareAddr",
    },
    RenameLink: {EEXIST: "a link of the pod has that name; set interface.name to another one"},
    SetLink: {
        EINVAL: "the device does not take the value; change interface.mtu, hardwareAddr or the "
        "sizes",
        EOPNOTSUPP: "the device takes no such setting; remove it from interface",
    },
    SetUp: {
        EBUSY: "the device or its driver is busy; this is tried again",
        EADDRNOTAVAIL: "the device has no usable address; give interface.hardwareAddr",
    },
    SetSysctl: {
        ENOENT: "the node's kernel has no such sysctl, or no IPv6 (ipv6.disable=1); leave IPv6 "
        "out of the claim",
        EROFS: "the plugin's /proc/sys is read-only; run it as manifests/ has it",
    },
    SetFeatures: {
        EOPNOTSUPP: "the device does not switch that feature; remove it from ethtool.features",
    },
    SetPrivateFlags: {
        EOPNOTSUPP: "the driver has no such flag; remove it from ethtool.privateFlags",
    },
    SetDriver: {
        EINVAL: "the driver does not take the value; change it in ethtool, or remove it",
        EOPNOTSUPP: "the driver does not take one of the settings; remove it from ethtool",
        ERANGE: "the value is out of the range of the device; change it in ethtool",
    },
    SetRss: {
        EINVAL: "the driver does not take the distribution; change ethtool.rss, or remove it",
        EOPNOTSUPP: "the driver does not change the distribution; remove ethtool.rss",
    },
    DetachTcx: {EPERM: _NO_BPF},
    DisableTcx: {EPERM: _NO_BPF},
}


def remedy(code: int, op: Op | None = None) -> str:
    """Return the remedy for an errno of an operation, or of a kernel query."""
    return _own(op).get(code) or ANY.get(code, UNKNOWN)


def _own(op: Op | None) -> Mapping[int, str]:
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
    # So do errors of IPoIB children, which are created on the host.
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

    A refusal is no failure of the step.
    """
    if isinstance(error, RefusedError):
        return AttachError("", str(error), undo)
    cause = described(error, None if isinstance(step, str) else step)
    return AttachError(str(step), cause.removeprefix(f"{step}: "), undo)
