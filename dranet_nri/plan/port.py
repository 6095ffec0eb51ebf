"""The port through which plans reach a kernel. Netlink implements it, and a fake for tests."""

from typing import Protocol

from dranet_nri.model import DeviceKey, NetnsId, Observed, Sysctl
from dranet_nri.plan.ops import Op


class Session(Protocol):
    """One pod's namespace and the host's, side by side. Used by one thread, then closed."""

    def apply(self, op: Op) -> None:
        """Do op.

        Must be idempotent: hooks are retried and restarts repeat the tail of a plan.

        Raises:
            KernelError: the kernel refused; the op may have happened in part.
        """

    def observe(self, key: DeviceKey, pod_name: str) -> Observed:
        """Return where the device is and its full state there.

        Args:
            key: what to look for. A device with a parent is matched by it in both
                namespaces; a virtual one by its host name on the host, and by pod_name
                inside the pod.
            pod_name: the interface name a plan gives or gave it in the pod; "" if unknown.

        Raises:
            KernelError: a dump failed.
        """

    def sysctls(self, name: str) -> tuple[Sysctl, ...]:
        """Return the host's per-interface sysctls of link name that a move would reset."""

    def close(self) -> None:
        """Release sockets and threads. Idempotent."""


class Kernel(Protocol):
    """What the daemon needs of the kernel."""

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
