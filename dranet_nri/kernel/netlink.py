"""The kernel port on rtnetlink, namespaces and procfs.

Rules:
1. A session has one socket a namespace, opened by a thread that died in there.
2. An op is one message that changes something; look-ups before and after it don't count.
3. Between two ops a session tells links, rules and sysctls as it read them first.
"""

import os
import threading
from errno import ESTALE
from typing import assert_never

from dranet_nri.errors import KernelError
from dranet_nri.kernel import addresses, links, neighbours, routes, rules
from dranet_nri.kernel.netns import HOST_PATH, identify, open_namespace, same_namespace
from dranet_nri.kernel.observe import observe
from dranet_nri.kernel.space import Space
from dranet_nri.model import DeviceKey, NetnsId, Ns, Observed, Sysctl
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    AddNeighbour,
    AddRoute,
    AddRule,
    DelAltname,
    MoveLink,
    Op,
    RenameLink,
    SetDown,
    SetLink,
    SetMaster,
    SetSysctl,
    SetUp,
)


class NetlinkKernel:
    """The kernel we run on. Safe to use from several threads; a session is one thread's."""

    def __init__(
        self, *, host_path: str = HOST_PATH, proc_root: str = "/proc", sys_root: str = "/sys"
    ) -> None:
        """Take the host's namespace as the one the process lives in.

        Args:
            host_path: the host's network namespace.
            proc_root: a procfs whose sys/net can be written; an unprivileged container mounts
                its own.
            sys_root: a sysfs of the host's network namespace.

        Raises:
            KernelError: there is no network namespace at host_path.
        """
        host = identify(host_path)
        if host is None:
            raise KernelError(f"open namespace {host_path}", ESTALE, "no network namespace there")
        self._host = host
        self._proc_root = proc_root
        self._sys_root = sys_root
        self._held: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def identify(self, path: str) -> NetnsId | None:
        """Return the identity of the namespace at path, None if none is there."""
        return identify(path)

    def is_host(self, netns: NetnsId) -> bool:
        """Whether the namespace is the host's own, however it is reached."""
        return same_namespace(netns, self._host)

    def hold(self, netns: NetnsId) -> bool:
        """Keep the namespace alive with one descriptor; False if it is gone or another one."""
        with self._lock:
            if _slot(netns) in self._held:
                return True
            fd = _open_same(netns)
            if fd is None:
                return False
            self._held[_slot(netns)] = fd
            return True

    def release(self, netns: NetnsId) -> None:
        """Close the descriptor that hold took. Idempotent; open sessions keep their own."""
        with self._lock:
            fd = self._held.pop(_slot(netns), None)
            if fd is not None:
                os.close(fd)

    def session(self, netns: NetnsId | None) -> "NetlinkSession":
        """Open a session with the held namespace, or with the host alone.

        Raises:
            KernelError: the namespace is not held or cannot be entered.
        """
        opened: dict[Ns, Space] = {}
        try:
            opened[Ns.HOST] = self._open_host()
            if netns is not None:
                opened[Ns.POD] = self._open_held(netns)
        except BaseException:
            for space in opened.values():
                space.close()
            raise
        return NetlinkSession(opened, self._sys_root)

    def _open_host(self) -> Space:
        fd = _open_same(self._host)
        if fd is None:
            raise KernelError(f"enter {self._host.path}", ESTALE, "no longer the host's namespace")
        return Space(Ns.HOST, fd, self._proc_root)

    def _open_held(self, netns: NetnsId) -> Space:
        with self._lock:
            held = self._held.get(_slot(netns))
            if held is None:
                raise KernelError(f"enter {netns.path}", ESTALE, "the namespace is not held")
            fd = os.dup(held)
        return Space(Ns.POD, fd, self._proc_root)


def _slot(netns: NetnsId) -> tuple[int, int]:
    return netns.dev, netns.inode


def _open_same(netns: NetnsId) -> int | None:
    """Open the namespace at its path, None if something else is there by now."""
    fd = open_namespace(netns.path)
    if fd is None:
        return None
    status = os.fstat(fd)
    if (status.st_dev, status.st_ino) == _slot(netns):
        return fd
    os.close(fd)
    return None


class NetlinkSession:
    """One pod's namespace and the host's, or the host's alone."""

    def __init__(self, spaces: dict[Ns, Space], sys_root: str) -> None:
        """Take over the open namespaces."""
        self._spaces = spaces
        self._sys_root = sys_root

    def observe(self, key: DeviceKey, pod_name: str) -> Observed:
        """Return where the device is and its full state there."""
        host = self._space(Ns.HOST, f"observe {key.name}")
        return observe(host, self._spaces.get(Ns.POD), key, pod_name, self._sys_root)

    def sysctls(self, name: str) -> tuple[Sysctl, ...]:
        """Return the host's per-interface sysctls of link name that a move would reset."""
        what = f"read sysctls of {name}"
        host = self._space(Ns.HOST, what)
        host.index(what, name)
        return host.sysctls(name)

    def close(self) -> None:
        """Close sockets and descriptors. Idempotent."""
        for space in self._spaces.values():
            space.close()
        self._spaces = {}

    def apply(self, op: Op) -> None:
        """Do op; see the port for what it owes."""
        what = str(op)
        for each in self._spaces.values():
            each.forget()
        if isinstance(op, MoveLink):
            source, target = self._space(op.source, what), self._space(op.target, what)
            links.move(
                links.End(source.netlink, source.fd), links.End(target.netlink, target.fd), op
            )
            return
        space = self._space(op.ns, what)
        match op:
            case SetDown() | RenameLink() | DelAltname() | AddRule():
                _apply_by_index(space, what, op)
            case SetSysctl():
                space.set_sysctl(what, op.name, op.sysctl)
            case _:
                _apply_by_name(space, what, op)

    def _space(self, ns: Ns, what: str) -> Space:
        space = self._spaces.get(ns)
        if space is None:
            raise KernelError(what, ESTALE, f"the session has no {ns} namespace")
        return space


def _apply_by_index(
    space: Space, what: str, op: SetDown | RenameLink | DelAltname | AddRule
) -> None:
    netlink = space.netlink
    match op:
        case SetDown():
            links.set_down(netlink, what, op.index)
        case RenameLink():
            links.rename(netlink, what, op.index, op.name)
        case DelAltname():
            links.del_altname(netlink, what, op.index, op.altname)
        case AddRule():
            rules.add_rule(netlink, what, op.rule)
        case _:
            assert_never(op)


def _apply_by_name(
    space: Space,
    what: str,
    op: SetLink | SetUp | AddAltname | SetMaster | AddAddress | AddRoute | AddNeighbour,
) -> None:
    netlink = space.netlink
    index = space.index(what, op.name)
    match op:
        case SetLink():
            links.set_settings(netlink, what, index, op.settings)
        case SetUp():
            links.set_up(netlink, what, index)
        case AddAltname():
            links.add_altname(netlink, what, index, op.altname)
        case SetMaster():
            master = space.index(what, op.master) if op.master else 0
            links.set_master(netlink, what, index, master)
        case AddAddress():
            addresses.add_address(netlink, what, index, op.address)
        case AddRoute():
            routes.add_route(netlink, what, index, op.route, lambda name: space.index(what, name))
        case AddNeighbour():
            neighbours.add_neighbour(netlink, what, index, op.neighbour)
        case _:
            assert_never(op)
