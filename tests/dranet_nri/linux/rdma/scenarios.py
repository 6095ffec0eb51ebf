"""Requests to a kernel with two soft-RoCE devices, rxe0 on ens1 and rxe1 on a dummy.

Each name is a recording: tests/golden/rdma/NAME.txt.
"""

from collections.abc import Callable

from dranet_nri.linux.rdma.socket import RdmaSocket
from dranet_nri.linux.rdma.types import CharDevKind
from dranet_nri.model import RdmaMode
from tests.dranet_nri.linux.rdma.conversation import CLOSED_FD, NO_NAMESPACE_FD, TARGET_FD

NOBODY = 99  # an index that no device has

SHARED: dict[str, Callable[[RdmaSocket], object]] = {
    "devices": lambda rdma: rdma.devices("host"),
    "device": lambda rdma: rdma.device_at("look at rxe1", 1),
    "no-device": lambda rdma: rdma.device_at("look at rxe9", NOBODY),
    "ports": lambda rdma: rdma.ports("dump ports of rxe0", 0),
    "no-ports": lambda rdma: rdma.ports("dump ports of rxe9", NOBODY),
    "system-shared": lambda rdma: rdma.system(),
    "uverbs": lambda rdma: rdma.char_device("find uverbs", CharDevKind.UVERBS, 1),
    "umad": lambda rdma: rdma.char_device("find umad", CharDevKind.UMAD, 1),
    "rdma-cm": lambda rdma: rdma.char_device("find rdma_cm", CharDevKind.RDMA_CM, 1),
    "no-issm": lambda rdma: rdma.char_device("find issm", CharDevKind.ISSM, 1),
    "uverbs-of-nobody": lambda rdma: rdma.char_device("find", CharDevKind.UVERBS, NOBODY),
    "umad-of-no-port": lambda rdma: rdma.char_device("find umad", CharDevKind.UMAD, 1, 7),
    "rename": lambda rdma: rdma.rename("rename rxe1", 1, "renamed"),
    "rename-taken": lambda rdma: rdma.rename("rename renamed", 1, "rxe0"),
    "rename-nobody": lambda rdma: rdma.rename("rename rxe9", NOBODY, "rxe8"),
    "move-shared": lambda rdma: rdma.move("move rxe0", 0, TARGET_FD),
}
EXCLUSIVE: dict[str, Callable[[RdmaSocket], object]] = {
    "set-exclusive": lambda rdma: rdma.set_mode(RdmaMode.EXCLUSIVE),
    "system-exclusive": lambda rdma: rdma.system(),
    "move-unsupported": lambda rdma: rdma.move("move rxe0", 0, TARGET_FD),
    "move-to-no-namespace": lambda rdma: rdma.move("move rxe0", 0, NO_NAMESPACE_FD),
    "move-to-nothing": lambda rdma: rdma.move("move rxe0", 0, CLOSED_FD),
    "move-nobody": lambda rdma: rdma.move("move rxe9", NOBODY, TARGET_FD),
}
BESIDE_A_NAMESPACE: dict[str, Callable[[RdmaSocket], object]] = {
    "set-shared-busy": lambda rdma: rdma.set_mode(RdmaMode.SHARED),
}
WITHOUT_POWER: dict[str, Callable[[RdmaSocket], object]] = {
    "rename-forbidden": lambda rdma: rdma.rename("rename rxe0", 0, "rxe8"),
}
ALL = SHARED | EXCLUSIVE | BESIDE_A_NAMESPACE | WITHOUT_POWER
