"""Kernel sessions: plan.kernel implemented with netlink, network namespaces and procfs.

Rules:
1. A session has two sockets per namespace, opened by a thread inside it.
2. An operation sends one message that changes something, besides reads.
3. A session caches links and rules until the next operation, the ifindex of a name until a link
   moves or is renamed, and default sysctls for its lifetime.
"""

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from errno import ESTALE
from typing import Final, assert_never
from weakref import finalize

from dranet_nri.component.threads import set_step
from dranet_nri.errors import KernelError
from dranet_nri.inventory import HostFacts
from dranet_nri.kernel import child, links, rdma
from dranet_nri.kernel.dhcp import DhcpSocket
from dranet_nri.kernel.host import host_facts
from dranet_nri.kernel.ip import addresses
from dranet_nri.kernel.link_ops import apply_by_index, apply_by_name
from dranet_nri.kernel.namespace import Namespace, kept_facts_here
from dranet_nri.kernel.netns import (
    HOST_PATH,
    identify,
    identity_of,
    open_namespace,
    open_same,
    run_inside,
    same_namespace,
)
from dranet_nri.kernel.observe import observe
from dranet_nri.kernel.settings.sysctl import SysctlDefaults
from dranet_nri.linux.bpf import LoadedPrograms
from dranet_nri.linux.netlink.links import link_at, link_from
from dranet_nri.linux.release import release
from dranet_nri.model import (
    CharDevice,
    DetectedAddress,
    DeviceKey,
    EthtoolState,
    Link,
    NetnsId,
    Ns,
    Observed,
    ObservedRdma,
    RdmaLink,
    Sysctl,
    TcxProgram,
)
from dranet_nri.plan.identity import DeviceIdentity, RdmaIdentity
from dranet_nri.plan.ops import (
    AddChild,
    AddRule,
    DelAltname,
    DelLink,
    MoveLink,
    MoveRdma,
    Op,
    RenameLink,
    RenameRdma,
    SetDown,
    SetFeatures,
    SetPrivateFlags,
    SetSysctl,
)
from dranet_nri.plan.routes.comparison import RouteKey
from dranet_nri.plan.routes.vrf import AddVrf
from dranet_nri.plan.settings.driver_ops import SetDriver, SetRss
from dranet_nri.plan.settings.programs import AttachTcx, DetachTcx, DetachXdp, DisableTcx

PARENTS_SINCE: Final = (5, 14)  # IFLA_PARENT_DEV_NAME
# MoveRdma recreates IPoIB links.
CHANGES_NAMES: Final = MoveLink | RenameLink | MoveRdma | AddChild | AddVrf | DelLink

Shortened = Callable[[], AbstractContextManager[None]]


class NetlinkKernel:
    """The running kernel. Thread-safe; a session belongs to one thread.

    Attributes:
        kept: facts of the host that outlive a session.
    """

    def __init__(
        self, *, host_path: str = HOST_PATH, proc_root: str = "/proc", sys_root: str = "/sys",
        reports_parents: bool | None = None, shortened: Shortened = nullcontext,
    ) -> None:  # fmt: skip
        """Identify the host's namespace.

        Args:
            host_path: path of the host's network namespace.
            proc_root: a procfs with writable sys/net, which is read-only in an unprivileged
                container. It shows the namespace of the calling thread.
            sys_root: a sysfs of the host's network namespace.
            reports_parents: netlink has the parents of links; None if since Linux 5.14.
            shortened: see GracePeriods.shortened.

        Raises:
            KernelError: there is no network namespace at host_path.
        """
        fd = open_namespace(host_path)
        if fd is None:
            raise KernelError(f"open namespace {host_path}", ESTALE, "no network namespace there")
        # It stays open. Else the kernel creates an inode for each use of the path, and frees it by
        # RCU, for which a move waits; see DeferredFileSystem.
        self._host_fd = fd
        finalize(self, os.close, fd)
        self._host = identity_of(host_path, fd)
        self._proc_root = proc_root
        self._sys_root = sys_root
        if reports_parents is None:
            reports_parents = release(os.uname().release) >= PARENTS_SINCE
        self._parents_root = "" if reports_parents else sys_root
        self._defaults = SysctlDefaults(proc_root)
        # The key includes the path: the kernel reuses the inode of an ended namespace.
        self._referenced: dict[NetnsId, int] = {}
        self._lock = threading.Lock()
        self._loaded = LoadedPrograms()
        self._shortened = shortened
        self.kept = run_inside(fd, kept_facts_here)

    def identify(self, path: str) -> NetnsId | None:
        """Return the identity of the namespace at path, None if none is there."""
        return identify(path)

    def is_host(self, netns: NetnsId) -> bool:
        """Whether the namespace is the host's, by any path."""
        return same_namespace(netns, self._host)

    def hold(self, netns: NetnsId) -> bool:
        """Reference the namespace by a descriptor; False if it is gone or another one."""
        with self._lock:
            if netns in self._referenced:
                return True
            fd = open_same(netns)
            if fd is None:
                return False
            self._referenced[netns] = fd
            return True

    def release(self, netns: NetnsId) -> None:
        """Close the descriptor of `hold`. Idempotent; open sessions have their own."""
        with self._lock:
            fd = self._referenced.pop(netns, None)
            if fd is not None:
                os.close(fd)

    def session(self, netns: NetnsId | None) -> "NetlinkSession":
        """Open a session with a referenced namespace and the host, or with the host only.

        Raises:
            KernelError: the namespace is not referenced or cannot be entered.
        """
        opened: dict[Ns, Namespace] = {}
        try:
            host_fd = os.dup(self._host_fd)
            opened[Ns.HOST] = Namespace(Ns.HOST, host_fd, self._proc_root, self.kept)
            if netns is not None:
                opened[Ns.POD] = self._open_referenced(netns)
        except BaseException:
            for namespace in opened.values():
                namespace.close()
            raise
        return NetlinkSession(
            opened,
            self._sys_root,
            self._parents_root,
            self._defaults,
            self._loaded,
            self._shortened,
        )

    def _open_referenced(self, netns: NetnsId) -> Namespace:
        with self._lock:
            referenced = self._referenced.get(netns)
            if referenced is None:
                raise KernelError(f"enter {netns.path}", ESTALE, "the namespace is not referenced")
            fd = os.dup(referenced)
        return Namespace(Ns.POD, fd, self._proc_root)


class NetlinkSession:
    """Session with the host's namespace and optionally a pod's."""

    def __init__(
        self,
        namespaces: dict[Ns, Namespace],
        sys_root: str,
        parents_root: str,
        defaults: SysctlDefaults,
        loaded: LoadedPrograms,
        shortened: Shortened,
    ) -> None:
        """Take over the open namespaces; parents_root is "" if netlink has the parents."""
        self._namespaces = namespaces
        self._sys_root = sys_root
        self._parents_root = parents_root
        self._defaults = defaults
        self._default_sysctls: Mapping[tuple[str, str], str] | None = None
        self._loaded = loaded
        self._shortened = shortened

    def shortened(self) -> AbstractContextManager[None]:
        """Shorten RCU grace periods."""
        return self._shortened()

    def observe(
        self,
        key: DeviceKey,
        pod_name: str,
        identity: DeviceIdentity | None = None,
        *,
        link_only: bool = False,
        sysctls: Collection[Sysctl] | None = None,
    ) -> Observed:
        """Return the device's location and its full state there."""
        set_step(f"observe {key.name}")
        host = self._namespace(Ns.HOST, f"observe {key.name}")
        pod, root = self._namespaces.get(Ns.POD), self._sys_root
        return observe(
            host, pod, key, pod_name, root, identity, link_only=link_only, sysctls=sysctls
        )

    def pod_link(self, name: str) -> Link:
        """Return the current state of the pod's link of that name."""
        what = f"find {name} in the pod"
        namespace = self._namespace(Ns.POD, what)
        return link_from(link_at(namespace.netlink, what, namespace.index(what, name)))

    def pod_addresses(self, name: str) -> tuple[DetectedAddress, ...]:
        """Return the current IPv6 addresses of the pod's link of that name."""
        what = f"dump addresses of {name} in the pod"
        namespace = self._namespace(Ns.POD, what)
        return addresses.dump_detected(namespace.netlink, what, namespace.index(what, name))

    def dhcp(self, name: str) -> DhcpSocket:
        """Return a port for DHCP messages on the pod's link of that name."""
        what = f"open a socket for DHCP on {name} in the pod"
        return DhcpSocket(self._namespace(Ns.POD, what).fd, what, name)

    def default_sysctls(self) -> Mapping[tuple[str, str], str]:
        """Return the sysctls of a link that enters the host's namespace; read once a session."""
        host = self._namespace(Ns.HOST, "read default sysctls")
        self._default_sysctls = self._default_sysctls or self._defaults.read(host.fd)
        return self._default_sysctls

    def host_facts(self) -> HostFacts:
        """Return the facts for the publish rules."""
        set_step("read the host's links")
        return host_facts(self._namespace(Ns.HOST, "read the host's links"), self._parents_root)

    def pod_route_keys(self, except_links: Collection[int]) -> Mapping[RouteKey, str]:
        """Return the keys of the pod's routes, with the link name of each."""
        return self._namespace(Ns.POD, "dump routes of the pod").taken_route_keys(except_links)

    def ethtool(self, ns: Ns, index: int, groups: Collection[str] = ()) -> EthtoolState | None:
        """Return features, private flags and driver settings of a link, None before Linux 5.7."""
        what = f"read ethtool features of link {index} in {ns}"
        return self._namespace(ns, what).ethtool.state(what, index, groups)

    def tcx(self, ns: Ns, index: int) -> tuple[TcxProgram, ...] | None:
        """Return a link's TCX programs; None before Linux 6.6, or without the privilege."""
        return self._namespace(ns, f"query the TCX programs of link {index}").tcx(index)

    def rdma(self, identity: RdmaIdentity) -> ObservedRdma:
        """Return the location of a device's RDMA devices."""
        key, pod = identity.key, self._namespaces.get(Ns.POD)
        host = self._namespace(Ns.HOST, f"observe RDMA devices of {key.parent or key.name}")
        return rdma.observe(host.fd, pod.fd if pod else None, self._sys_root, identity)

    def char_devices(
        self, ns: Ns, device: RdmaLink, kinds: Sequence[str]
    ) -> tuple[CharDevice, ...]:
        """Return the character devices of an RDMA device in a namespace."""
        namespace = self._namespace(ns, f"resolve character devices of {device.name}")
        return rdma.char_devices(namespace.fd, self._sys_root, device, kinds)

    def child(self, alias: str) -> Observed:
        """Return location and state of the child with this alias."""
        host = self._namespace(Ns.HOST, f"observe {alias}")
        return child.observe_child(host, self._namespaces.get(Ns.POD), alias)

    def children(self) -> tuple[tuple[str, int], ...]:
        """Return alias and ifindex of every child on the host."""
        return child.children(self._namespace(Ns.HOST, "find child links"))

    def pkeys(self, rdma_device: str, port: int) -> tuple[int, ...]:
        """Return the P_Key table of a port of an RDMA device."""
        return child.pkeys(self._sys_root, rdma_device, port)

    def close(self) -> None:
        """Close sockets and descriptors. Idempotent."""
        for namespace in self._namespaces.values():
            namespace.close()
        self._namespaces = {}

    def apply(self, op: Op) -> None:
        """Apply an operation, see plan.kernel.Session."""
        set_step(op)
        what = str(op)
        for namespace in self._namespaces.values():
            namespace.invalidate()
            if isinstance(op, CHANGES_NAMES):
                namespace.invalidate_names()
        if isinstance(op, MoveLink | MoveRdma):
            self._move(what, op)
            return
        namespace = self._namespace(op.ns, what)
        match op:
            case AddChild():
                host = self._namespace(Ns.HOST, what).netlink
                child.add(host, links.MoveEnd(namespace.netlink, namespace.fd), what, op)
            case AddVrf():
                namespace.add_vrf(what, op)
            case DelLink():
                child.delete(namespace.netlink, what, op.index)
            case SetDown() | RenameLink() | DelAltname() | DetachXdp() | AddRule():
                apply_by_index(namespace, what, op)
            case RenameRdma():
                rdma.rename(namespace.fd, what, op.index, op.name)
            case DetachTcx(_, name, kept):
                namespace.detach_tcx(what, name, kept)
            case DisableTcx(_, name):
                namespace.disable_tcx(what, name, self._loaded)
            case AttachTcx():
                namespace.attach_tcx(what, op, self._loaded)
            case SetSysctl():
                namespace.set_sysctl(what, op.name, op.sysctl)
            case SetFeatures(_, name, features, strict):
                index = namespace.index(what, name)
                namespace.ethtool.set_features(what, index, features, strict=strict)
            case SetPrivateFlags(_, name, flags):
                namespace.ethtool.set_private_flags(what, namespace.index(what, name), flags)
            case SetDriver(_, name, settings):
                namespace.ethtool.set_driver(what, namespace.index(what, name), settings)
            case SetRss(_, name, table):
                namespace.ethtool.set_rss(what, namespace.index(what, name), table)
            case _:
                apply_by_name(namespace, what, op)

    def _move(self, what: str, op: MoveLink | MoveRdma) -> None:
        source, target = self._namespace(op.source, what), self._namespace(op.target, what)
        match op:
            case MoveLink():
                links.move(
                    links.MoveEnd(source.netlink, source.fd),
                    links.MoveEnd(target.netlink, target.fd),
                    op,
                )
            case MoveRdma():
                rdma.move(source.fd, target.fd, what, op.index)
            case _:
                assert_never(op)

    def _namespace(self, ns: Ns, what: str) -> Namespace:
        namespace = self._namespaces.get(ns)
        if namespace is None:
            raise KernelError(what, ESTALE, f"the session has no {ns} namespace")
        return namespace
