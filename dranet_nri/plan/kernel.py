"""Kernel interface of plans: protocols that `kernel` implements, and a fake in tests."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from dranet_nri.inventory import HostFacts
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
from dranet_nri.plan.ops import Op
from dranet_nri.plan.routes.comparison import RouteKey


class DhcpPort(Protocol):
    """DHCP messages on one link of a pod."""

    def send(self, payload: bytes, source: str, target: str, mac: str = "") -> None:
        """Send a message to a server, or to all hosts on the link if mac is "".

        Args:
            payload: the message.
            source: the IPv4 address of the link, "0.0.0.0" without one.
            target: the server's address, or "255.255.255.255".
            mac: the server's link-layer address.

        Raises:
            KernelError: the kernel refused.
        """

    def pending(self) -> Iterable[tuple[bytes, str]]:
        """Return the received messages, each with the link-layer address of its sender.

        Raises:
            KernelError: the link is gone.
        """

    def close(self) -> None:
        """Stop receiving. Idempotent."""


class Session(Protocol):
    """Access to a pod's and the host's namespace. Used by one thread, then closed."""

    def shortened(self) -> AbstractContextManager[None]:
        """Shorten what moves in the block wait for.

        It begins with the requests before the first move, because a grace period that runs already
        is not shortened, and ends before the wait for addresses.
        """

    def apply(self, op: Op) -> None:
        """Apply an operation.

        Must be idempotent: hooks are retried, and a restart repeats the end of a plan.

        Raises:
            KernelError: the kernel refused; the operation may be partly applied.
        """

    def observe(
        self,
        key: DeviceKey,
        pod_name: str,
        identity: DeviceIdentity | None = None,
        *,
        link_only: bool = False,
        sysctls: Collection[Sysctl] | None = None,
    ) -> Observed:
        """Return the device's location and its full state there.

        Args:
            key: key of the device. A device with a parent is matched by the parent in both
                namespaces; a virtual one by its name on the host, and by pod_name in the pod.
            pod_name: its interface name in the pod, "" if unknown.
            identity: recorded identity, which excludes namesakes and other ports, and finds a
                renamed device.
            link_only: in the pod, read the link only, without addresses, routes and rules, of
                which the pod may have any number.
            sysctls: those that the caller compares on the host, others may be missing; None for
                all that a move resets.

        Raises:
            KernelError: a dump failed.
        """

    def pod_link(self, name: str) -> Link:
        """Return the current state of the pod's link of that name.

        Raises:
            KernelError: the link does not exist.
        """

    def pod_addresses(self, name: str) -> tuple[DetectedAddress, ...]:
        """Return the current IPv6 addresses of the pod's link of that name.

        Raises:
            KernelError: the link does not exist, or the dump failed.
        """

    def dhcp(self, name: str) -> DhcpPort:
        """Return a port for DHCP messages on the pod's link of that name.

        Raises:
            KernelError: there is no such link.
        """

    def default_sysctls(self) -> Mapping[tuple[str, str], str]:
        """Return the sysctls of a link that enters the host's namespace: a move resets them.

        Returns:
            Family and key → value, as of the session's first call.

        Raises:
            KernelError: a sysctl exists and could not be read.
        """

    def host_facts(self) -> HostFacts:
        """Return the current facts about the host's links that the publish rules need.

        Links with their properties and dependencies; no PCI functions, no RDMA devices.

        Raises:
            KernelError: a dump failed.
        """

    def pod_route_keys(self, except_links: Collection[int]) -> Mapping[RouteKey, str]:
        """Return the keys of the pod's routes, with the link name of each, or "".

        Args:
            except_links: ifindexes of links whose routes are left out.

        Raises:
            KernelError: a dump failed; E2BIG: more routes than the limit.
        """

    def ethtool(self, ns: Ns, index: int, groups: Collection[str] = ()) -> EthtoolState | None:
        """Return features, private flags and driver settings of a link, None before Linux 5.7.

        Args:
            ns: namespace of the link.
            index: its ifindex.
            groups: the driver settings to read (SettingGroup), which some drivers read slowly.

        Raises:
            KernelError: ENODEV, there is no link of that index.
        """

    def tcx(self, ns: Ns, index: int) -> tuple[TcxProgram, ...] | None:
        """Return a link's TCX programs; None before Linux 6.6, or without the privilege.

        Raises:
            KernelError: ENODEV, there is no link of that index.
        """

    def rdma(self, identity: RdmaIdentity) -> ObservedRdma:
        """Return the location of a device's RDMA devices.

        On the host they are those that the inventory publishes for it, by the same rule.

        Raises:
            KernelError: a dump failed.
        """

    def char_devices(
        self, ns: Ns, device: RdmaLink, kinds: Sequence[str]
    ) -> tuple[CharDevice, ...]:
        """Return the character devices of an RDMA device in a namespace, sorted by path.

        Numbers change with every move. Kinds that the kernel does not have are left out.

        Raises:
            KernelError: the kernel could not be read.
        """

    def child(self, alias: str) -> Observed:
        """Return location and state of the child with this alias.

        Raises:
            KernelError: a dump failed.
        """

    def children(self) -> tuple[tuple[str, int], ...]:
        """Return alias and ifindex of every child on the host.

        Raises:
            KernelError: a dump failed.
        """

    def pkeys(self, rdma_device: str, port: int) -> tuple[int, ...]:
        """Return the P_Key table of a port of an RDMA device on the host, empty slots as 0.

        It is empty if the device or the port does not exist.

        Args:
            rdma_device: its name.
            port: port number, 1 or more.
        """

    def close(self) -> None:
        """Release sockets and threads. Idempotent."""


class Kernel(Protocol):
    """Access of the daemon to the kernel."""

    def identify(self, path: str) -> NetnsId | None:
        """Return the identity of the namespace at path, None if there is none.

        Raises:
            KernelError: the path cannot be opened.
        """

    def is_host(self, netns: NetnsId) -> bool:
        """Whether the namespace is the host's, by any path."""

    def hold(self, netns: NetnsId) -> bool:
        """Reference the namespace by a descriptor; False if its path is gone or has another one.

        Raises:
            KernelError: the path cannot be opened.
        """

    def release(self, netns: NetnsId) -> None:
        """Close the descriptor of `hold`. Idempotent."""

    def session(self, netns: NetnsId | None) -> Session:
        """Open a session with a referenced namespace and the host, or with the host only.

        Raises:
            KernelError: the namespace is not referenced or cannot be entered.
        """
