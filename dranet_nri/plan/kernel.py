"""The kernel port of plans: protocols that netlink implements, and a fake in tests."""

from collections.abc import Collection, Iterable, Mapping, Sequence
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
from dranet_nri.plan.routes import Slot


class DhcpPort(Protocol):
    """DHCP messages on one link of a pod."""

    def send(self, payload: bytes, source: str, target: str, mac: str = "") -> None:
        """Send a message to a server, or with mac "" to everyone on the link.

        Args:
            payload: the message.
            source: the IPv4 address that the link has, "0.0.0.0" for none.
            target: the server's, or "255.255.255.255".
            mac: the server's link-layer address.

        Raises:
            KernelError: the kernel refused.
        """

    def pending(self) -> Iterable[tuple[bytes, str]]:
        """Return the messages that have come, each with the link-layer address of its sender.

        Raises:
            KernelError: the link is gone.
        """

    def close(self) -> None:
        """Stop to receive. Idempotent."""


class Session(Protocol):
    """One pod's namespace and the host's, side by side. Used by one thread, then closed."""

    def apply(self, op: Op) -> None:
        """Do op.

        Must be idempotent: hooks are retried and restarts repeat the tail of a plan.

        Raises:
            KernelError: the kernel refused; the op may have happened in part.
        """

    def observe(
        self,
        key: DeviceKey,
        pod_name: str,
        known: DeviceIdentity | None = None,
        *,
        bare: bool = False,
    ) -> Observed:
        """Return where the device is and its full state there.

        Args:
            key: of the device to find. A device with a parent is matched by it in both
                namespaces; a virtual one by its host name on the host, and by pod_name
                inside the pod.
            pod_name: the interface name a plan gives or gave it in the pod; "" if unknown.
            known: what else it is known by, so that neither a namesake or another port is
                taken for it, nor another name hides it.
            bare: of what is in the pod, tell the link alone; what else there is, rules included,
                is the pod's affair, and it may have put any number of routes there.

        Raises:
            KernelError: a dump failed.
        """

    def pod_link(self, name: str) -> Link:
        """Return the pod's link of that name as it is now.

        Raises:
            KernelError: there is none.
        """

    def pod_addresses(self, name: str) -> tuple[DetectedAddress, ...]:
        """Return the IPv6 addresses that the pod's link of that name has now.

        Raises:
            KernelError: there is no such link, or the dump failed.
        """

    def dhcp(self, name: str) -> DhcpPort:
        """Return a port for DHCP messages on the pod's link of that name.

        Raises:
            KernelError: there is no such link.
        """

    def default_sysctls(self) -> tuple[Sysctl, ...]:
        """Return what a link gets that enters the host's namespace: what a move resets.

        Raises:
            KernelError: there is such a sysctl, and it could not be read.
        """

    def host_facts(self) -> HostFacts:
        """Return what the host shows now, as far as its links are judged by that.

        Of links, only what they are and what they hang on; no PCI functions, no RDMA devices.

        Raises:
            KernelError: a dump failed.
        """

    def pod_slots(self, but: Collection[int]) -> Mapping[Slot, str]:
        """Return the places that routes of the pod have, and the name of each one's link, or "".

        Args:
            but: ifindexes of links whose routes don't count.

        Raises:
            KernelError: a dump failed; E2BIG, there are more routes than the limit.
        """

    def ethtool(self, ns: Ns, index: int) -> EthtoolState | None:
        """Return offload features and private flags of a link, None before Linux 5.7.

        Raises:
            KernelError: ENODEV, there is no link of that index.
        """

    def tcx(self, ns: Ns, index: int) -> tuple[TcxProgram, ...] | None:
        """Return what runs on a link by TCX; None before Linux 6.6, or without the privilege.

        Raises:
            KernelError: ENODEV, there is no link of that index.
        """

    def rdma(self, known: RdmaIdentity) -> ObservedRdma:
        """Return where the RDMA devices of a device are.

        On the host they are those that the inventory publishes for it, by the same rule.

        Raises:
            KernelError: a dump failed.
        """

    def char_devices(
        self, ns: Ns, device: RdmaLink, kinds: Sequence[str]
    ) -> tuple[CharDevice, ...]:
        """Return the character devices of an RDMA device there, sorted by path.

        Numbers change with every move. Kinds that the kernel doesn't have are left out.

        Raises:
            KernelError: the kernel could not be asked.
        """

    def child(self, alias: str) -> Observed:
        """Return where the link is that was made under that alias, and its state there.

        Raises:
            KernelError: a dump failed.
        """

    def children(self) -> tuple[tuple[str, int], ...]:
        """Return alias and ifindex of every link on the host that the plugin made.

        Raises:
            KernelError: a dump failed.
        """

    def pkeys(self, rdma_device: str, port: int) -> tuple[int, ...]:
        """Return the P_Key table of a port of an RDMA device on the host, empty slots as 0.

        Args:
            rdma_device: its name.
            port: from 1 on.
        """

    def close(self) -> None:
        """Release sockets and threads. Idempotent."""


class Kernel(Protocol):
    """The kernel port of the daemon."""

    def identify(self, path: str) -> NetnsId | None:
        """Return the identity of the namespace at path, None if nothing (or no nsfs) is there."""

    def is_host(self, netns: NetnsId) -> bool:
        """Whether the namespace is the host's own, however it is reached."""

    def hold(self, netns: NetnsId) -> bool:
        """Keep the namespace alive with one descriptor; False if it is gone or another one."""

    def release(self, netns: NetnsId) -> None:
        """Close the descriptor that hold took. Idempotent."""

    def session(self, netns: NetnsId | None) -> Session:
        """Open a session with the held namespace, or with the host alone.

        Raises:
            KernelError: the namespace is not held or cannot be entered.
        """
