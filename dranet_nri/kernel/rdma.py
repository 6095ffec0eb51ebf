"""RDMA devices of the host's and a pod's namespace: location, moves and device files.

Rules:
1. Every request is sent by a thread inside the device's namespace: the kernel compares the sender's
   namespace with the device's.
2. The parent of an RDMA device on the host is read from sysfs. find_rdma.py finds those of a NIC.
3. A move takes no lock of the plugin: it may hang while the device has users, and the kernel
   serializes moves.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from errno import EINVAL, ENODEV
from pathlib import Path
from typing import TypeVar

from dranet_nri.errors import KernelError
from dranet_nri.kernel.find_rdma import VisibleRdma, find_rdma
from dranet_nri.kernel.netns import run_inside
from dranet_nri.linux.rdma.chardev import in_sysfs
from dranet_nri.linux.rdma.socket import RdmaSocket, open_here
from dranet_nri.linux.rdma.types import CharDevKind, RdmaDevice
from dranet_nri.model import CharDevice, Ns, ObservedRdma, RdmaLink, RdmaMode
from dranet_nri.plan.identity import RdmaIdentity

T = TypeVar("T")


def observe(host: int, pod: int | None, sys_root: str, identity: RdmaIdentity) -> ObservedRdma:
    """Return the location of a device's RDMA devices.

    Args:
        host, pod: descriptors of the namespaces; pod may be None.
        sys_root: a sysfs of the host's namespace.
        identity: their recorded identity.

    Raises:
        KernelError: a dump failed.
    """
    if not Path(sys_root, "module/ib_core").exists():
        return ObservedRdma()  # a socket would load ib_core (netlink_create in af_netlink.c)
    found = _query(host, lambda rdma: (rdma.system().mode, rdma.devices("host")))
    if found is None:
        return ObservedRdma()
    mode, on_host = found
    in_pod: tuple[RdmaDevice, ...] = ()
    if pod is not None and mode is RdmaMode.EXCLUSIVE:
        in_pod = _query(pod, lambda rdma: rdma.devices("pod")) or ()
    descriptors = {Ns.HOST: host} | ({Ns.POD: pod} if pod is not None else {})

    def netdevs(ns: Ns, devices: Sequence[RdmaDevice]) -> dict[int, frozenset[int]]:
        indexes = [device.index for device in devices]
        found = _query(
            descriptors[ns], lambda rdma: {index: _netdevs(rdma, index) for index in indexes}
        )
        return found or {}

    directory = Path(sys_root, "class/infiniband")
    places = [directory / device.name for device in on_host]
    parents = {place.name: _parent(place) for place in places if place.exists()}
    ports = frozenset(port_parents(sys_root, identity.key.name))
    return find_rdma(VisibleRdma(mode, on_host, in_pod, parents, netdevs, ports), identity)


def port_parents(sys_root: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield bus and name of the parent devices of a bond's ports, nothing for another link."""
    directory = Path(sys_root, "class/net", name)
    if name and (directory / "bonding").is_dir():
        yield from map(_parent, directory.glob("lower_*"))


def char_devices(
    nsfd: int, sys_root: str, device: RdmaLink, kinds: Sequence[str]
) -> tuple[CharDevice, ...]:
    """Return the character devices of an RDMA device in the namespace, sorted by path.

    Args:
        nsfd: descriptor of the namespace.
        sys_root: a sysfs of the host's namespace.
        device: the RDMA device.
        kinds: kinds of character devices.

    Raises:
        KernelError: ENODEV: the device is not in the namespace.
    """
    what = f"resolve character devices of {device.name}"
    found = _require(nsfd, what, lambda rdma: files_of(rdma, Path(sys_root), device.index, kinds))
    return tuple(sorted(found, key=lambda file: file.path))


def files_of(
    rdma: RdmaSocket, sysfs: Path, index: int, kinds: Sequence[str]
) -> tuple[CharDevice, ...]:
    """Return the character devices of the device of that index.

    For issm no kernel since 5.8 answers GET_CHARDEV (issm_client has no data, user_mad.c): it is
    found in sysfs by the device's name, unless two devices have that name.

    Raises:
        KernelError: ENODEV: the device is not in the namespace.
    """
    what = f"resolve character devices of RDMA device {index}"
    ports = len(rdma.ports(what, index))
    found = [
        rdma.char_device(what, kind, index, port)
        for kind in map(CharDevKind, kinds)
        for port in range(1, ports + 1 if kind.per_port else 2)
    ]
    resolved = [file for file in found if file]
    files = tuple(CharDevice(file.path, file.major, file.minor) for file in resolved)
    if CharDevKind.ISSM not in {*kinds} - {file.kind for file in resolved}:
        return files
    managed = in_sysfs(sysfs, rdma.device_at(what, index).name, (CharDevKind.ISSM,))
    return files if len(managed) > ports else (*files, *managed)


def move(source: int, target: int, what: str, index: int) -> None:
    """Move the device of that index, unless it is in the target.

    Raises:
        KernelError: the kernel or the driver refused; the text has the remedy.
    """

    def send(rdma: RdmaSocket) -> None:
        rdma.move(what, index, target)

    try:
        _require(source, what, send)
    except KernelError as error:
        if error.code != ENODEV or not _require(target, what, lambda rdma: _has(rdma, index)):
            raise


def rename(nsfd: int, what: str, index: int, name: str) -> None:
    """Rename the device of that index in its namespace.

    Raises:
        KernelError: the kernel refused; the text has the remedy.
    """
    _require(nsfd, what, lambda rdma: rdma.rename(what, index, name))


def _query(nsfd: int, request: Callable[[RdmaSocket], T]) -> T | None:
    """Run requests inside the namespace; None if the kernel has no RDMA."""

    def inside() -> T | None:
        rdma = open_here()
        if rdma is None:
            return None
        with closing(rdma):
            return request(rdma)

    return run_inside(nsfd, inside)


def _require(nsfd: int, what: str, request: Callable[[RdmaSocket], T]) -> T:
    """Run requests inside the namespace.

    Raises:
        KernelError: the kernel has no RDMA, or refused.
    """
    answers = _query(nsfd, lambda rdma: (request(rdma),))
    if answers is None:
        raise KernelError(what, EINVAL, "the kernel has no RDMA; load ib_core")
    return answers[0]


def _has(rdma: RdmaSocket, index: int) -> bool:
    return any(device.index == index for device in rdma.devices("target"))


def _netdevs(rdma: RdmaSocket, index: int) -> frozenset[int]:
    """Return the ifindexes of the ports' net devices in this namespace; none if it is gone."""
    try:
        ports = rdma.ports(f"look for the net devices of RDMA device {index}", index)
    except KernelError as error:
        if error.code != ENODEV:
            raise
        return frozenset()
    return frozenset(port.netdev_index for port in ports if port.netdev_index)


def _parent(device: Path) -> tuple[str, str]:
    """Return bus and name of the parent device, "" for a software device or virtual link."""
    above = device / "device"
    try:
        return (above / "subsystem").readlink().name, above.readlink().name
    except OSError:
        return "", ""
