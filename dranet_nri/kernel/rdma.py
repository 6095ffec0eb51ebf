"""RDMA devices between the host's namespace and a pod's: where they are, moves, their files.

Rules:
1. Everything is asked and sent by a thread inside the namespace that has the device: the kernel
   compares the sender's namespace with the device's.
2. On the host a device is found by the PCI function above it, as sysfs of the host tells. In a pod
   it is one that left the host and is remembered.
3. No lock of ours is held over a move: it may hang as long as the device's users do, and the
   kernel lines moves up by itself.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from errno import EINVAL, ENODEV
from pathlib import Path
from typing import TypeVar

from dranet_nri.errors import KernelError
from dranet_nri.kernel.netns import run_inside
from dranet_nri.model import (
    CharDevice,
    DeviceKey,
    ObservedRdma,
    RdmaLink,
    RdmaMode,
)
from dranet_nri.plan.rdma import same
from dranet_nri.rdma.socket import RdmaSocket, open_here
from dranet_nri.rdma.values import CharDevKind, RdmaDevice

T = TypeVar("T")


def observe(
    host: int,
    pod: int | None,
    sys_root: str,
    key: DeviceKey,
    names: Sequence[str],
    known: Sequence[RdmaLink],
) -> ObservedRdma:
    """Look for the RDMA devices of a device; arguments as for the port, namespaces as descriptors.

    Raises:
        KernelError: a dump failed.
    """
    found = _ask(host, lambda rdma: (rdma.system().mode, rdma.devices("host")))
    if found is None:
        return ObservedRdma()
    mode, on_host = found
    in_pod: tuple[RdmaDevice, ...] = ()
    if pod is not None and mode is RdmaMode.EXCLUSIVE:
        in_pod = _ask(pod, lambda rdma: rdma.devices("pod")) or ()
    own = _own_names(Path(sys_root, "class/infiniband"), key, names)
    here = tuple(_link(each) for each in on_host if each.name in own and not each.parent)
    links = tuple(_link(each) for each in in_pod if not each.parent)
    there = tuple(link for link in links if any(same(each, (link,)) for each in known))
    return ObservedRdma(
        mode=mode,
        host=here,
        pod=there,
        taken_host_names=_names(on_host, here),
        taken_pod_names=_names(in_pod, there),
    )


def char_devices(space: int, device: RdmaLink, kinds: Sequence[str]) -> tuple[CharDevice, ...]:
    """Return the character devices of a device that the namespace has, sorted by path.

    Raises:
        KernelError: ENODEV, it is not there.
    """
    what = f"resolve character devices of {device.name}"

    def look(rdma: RdmaSocket) -> tuple[CharDevice, ...]:
        ports = len(rdma.ports(what, device.index))
        found = (
            rdma.char_device(what, kind, device.index, port)
            for kind in map(CharDevKind, kinds)
            for port in range(1, ports + 1 if kind.per_port else 2)
        )
        return tuple(CharDevice(file.path, file.major, file.minor) for file in found if file)

    return tuple(sorted(_asked(space, what, look), key=lambda file: file.path))


def move(source: int, target: int, what: str, index: int) -> None:
    """Move the device of that index; one that is there already counts as done.

    Raises:
        KernelError: the kernel or the driver refused; the text tells the remedy.
    """

    def send(rdma: RdmaSocket) -> None:
        rdma.move(what, index, target)

    try:
        _asked(source, what, send)
    except KernelError as error:
        if error.code != ENODEV or not _asked(target, what, lambda rdma: _has(rdma, index)):
            raise


def rename(space: int, what: str, index: int, name: str) -> None:
    """Rename the device of that index where it is.

    Raises:
        KernelError: the kernel refused; the text tells the remedy.
    """
    _asked(space, what, lambda rdma: rdma.rename(what, index, name))


def _ask(space: int, question: Callable[[RdmaSocket], T]) -> T | None:
    """Ask the kernel inside the namespace; None if it has no RDMA."""

    def inside() -> T | None:
        rdma = open_here()
        if rdma is None:
            return None
        with closing(rdma):
            return question(rdma)

    return run_inside(space, inside)


def _asked(space: int, what: str, question: Callable[[RdmaSocket], T]) -> T:
    """Ask a kernel that must have RDMA.

    Raises:
        KernelError: it has none, or refused.
    """
    answers = _ask(space, lambda rdma: (question(rdma),))
    if answers is None:
        raise KernelError(what, EINVAL, "the kernel has no RDMA; load ib_core")
    return answers[0]


def _has(rdma: RdmaSocket, index: int) -> bool:
    return any(each.index == index for each in rdma.devices("target"))


def _own_names(folder: Path, key: DeviceKey, names: Sequence[str]) -> frozenset[str]:
    """Return the names of those below the device's PCI function, or of those published for it.

    A software device has nothing above it. It counts by its name.
    """
    parents = {path.name: _parent(path) for path in _entries(folder)}
    wanted = {key.parent, key.pci} - {""}
    below = {name for name, parent in parents.items() if parent in wanted}
    return frozenset(below or {name for name in names if parents.get(name) == ""})


def _entries(folder: Path) -> tuple[Path, ...]:
    try:
        return tuple(folder.iterdir())
    except OSError:
        return ()


def _parent(device: Path) -> str:
    try:
        return (device / "device").readlink().name
    except OSError:
        return ""


def _link(device: RdmaDevice) -> RdmaLink:
    return RdmaLink(device.index, device.name, device.node_guid)


def _names(devices: Sequence[RdmaDevice], own: Sequence[RdmaLink]) -> frozenset[str]:
    indexes = {link.index for link in own}
    return frozenset(each.name for each in devices if each.index not in indexes)
