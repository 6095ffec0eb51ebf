"""Meanings and remedies of errnos for RDMA requests.

Meanings: nldev.c and device.c of drivers/infiniband/core, Linux 5.3 to 7.3.
"""

from collections.abc import Mapping
from errno import EBADF, EBUSY, EEXIST, EINVAL, ENODEV, ENOTUNIQ, EOPNOTSUPP, EPERM
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.model import RdmaMode

Remedies = Mapping[int, str]

_ADMIN: Final = "needs CAP_NET_ADMIN in the host's user namespace"

RENAME: Final[Remedies] = {
    EPERM: _ADMIN,
    EEXIST: "another RDMA device has that name, maybe in another namespace (until Linux 7.2 names "
    "are unique system-wide); rename that one first, or set rdma.name to another one",
}
MOVE: Final[Remedies] = {
    EPERM: f"{_ADMIN} and in the target namespace's",
    EBADF: "the target is no open descriptor",
    EINVAL: "the target is no network namespace",
    ENODEV: "send from a thread inside the namespace that has the device",
    EEXIST: "the target namespace has an RDMA device of that name; rename one of them first",
}
SET_MODE: Final[Remedies] = {
    EPERM: _ADMIN,
    EBUSY: "other network namespaces exist, those of pods and sandboxed services; choose the "
    "mode at boot: options ib_core netns_mode=0 for exclusive, 1 for shared",
}
ADD_IPOIB: Final[Remedies] = {
    EOPNOTSUPP: "load the module ib_ipoib",
    ENOTUNIQ: "the parent has a child of that partition that was created by sysfs; delete that one",
}
ADD_CONNECTED: Final[Remedies] = {
    **ADD_IPOIB,
    EINVAL: "the driver may not support connected mode, as mlx5's enhanced IPoIB; set "
    "interface.ipoib.mode to datagram",
}
CHAR_DEVICE: Final[Remedies] = {EINVAL: "the device has no such port"}

MOVE_UNSUPPORTED: Final[Mapping[RdmaMode, str]] = {
    RdmaMode.SHARED: "every namespace shares the RDMA devices of this node; to move them, boot "
    "with: options ib_core netns_mode=0",
    RdmaMode.EXCLUSIVE: "its driver cannot move devices between namespaces (mlx5, mlx4, bnxt_re, "
    "irdma, mana_ib, hns, erdma and ionic can; efa, siw and soft-RoCE before Linux 7.3 cannot); "
    "if it is software, delete it (rdma link delete); else claim one that can, or let pods share "
    "the RDMA devices of the node: boot with: options ib_core netns_mode=1",
}


def absent(error: KernelError, index: int) -> KernelError:
    """Return the error for an index without a device in this namespace."""
    return KernelError(error.op, ENODEV, f"no RDMA device has index {index} in this namespace")


def explained(error: KernelError, remedies: Remedies) -> KernelError:
    """Return the error with the meaning of its errno, after the kernel's text."""
    words = (error.detail, remedies.get(error.code, ""))
    return KernelError(error.op, error.code, "; ".join(word for word in words if word))


def unsupported(error: KernelError, mode: RdmaMode) -> KernelError:
    """Return the EOPNOTSUPP of a move with its meaning in this mode."""
    return explained(error, {EOPNOTSUPP: MOVE_UNSUPPORTED[mode]})
