"""Storage over the network: connections through which the kernel reads and writes disks and files.

Rules:
1. The kernel lists the iSCSI and NVMe connections of all network namespaces. The source of one of
   another namespace is no address of this one, so no route with it is found.
2. Mounts are those of a mount namespace, and a container has its own. The kernel lists NFS servers
   per network namespace, so those of the host are read from there.
3. The file of NFS is read only if its module is loaded: see rule 4 of netlink/underlays.py.

The layout is that of drivers/scsi/scsi_transport_iscsi.c, drivers/nvme/host/fabrics.c and
fs/nfs/client.c.
"""

from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from dranet_nri.linux.dirfd import DirFd

SYSFS: Final = Path("/sys")
NFS_SERVERS: Final = Path("/proc/thread-self/net/nfsfs/servers")


class StorageConnection(NamedTuple):
    """A connection to storage.

    Attributes:
        remote, source: its addresses, b"" if unknown.
        link: the name of the link to which it is bound, "" if unknown.
    """

    kind: str
    remote: bytes
    source: bytes = b""
    link: str = ""


def storage_connections() -> Iterator[StorageConnection]:
    """Yield the connections of iSCSI, NVMe over TCP or RDMA, and NFS.

    Raises:
        KernelError: the process can open no file now.
    """
    yield from _iscsi()
    yield from _nvme()
    yield from _nfs()


def _iscsi() -> Iterator[StorageConnection]:
    with DirFd(SYSFS / "class/iscsi_connection") as connections:
        for name in connections.names():
            hosts = f"{name}/device/../../iscsi_host"  # above the session
            host = "".join(connections.names(hosts))
            connected = connections.text(f"{name}/address")
            yield StorageConnection(
                "iSCSI",
                _packed(connected or connections.text(f"{name}/persistent_address")),
                _packed(connections.text(f"{hosts}/{host}/ipaddress")),
                connections.text(f"{hosts}/{host}/netdev"),
            )


def _nvme() -> Iterator[StorageConnection]:
    with DirFd(SYSFS / "class/nvme-fabrics/ctl") as controllers:
        for name in controllers.names():
            if name.startswith("nvme"):
                pairs = controllers.text(f"{name}/address").split(",")
                fields = dict(pair.partition("=")[::2] for pair in pairs)
                remote, _, scope = fields.get("traddr", "").partition("%")
                source = fields.get("src_addr") or fields.get("host_traddr", "")
                link = fields.get("host_iface") or scope
                yield StorageConnection("NVMe", _packed(remote), _packed(source), link)


def _nfs() -> Iterator[StorageConnection]:
    if not (SYSFS / "module/nfs").exists():
        return
    with suppress(OSError):
        for line in NFS_SERVERS.read_text(errors="surrogateescape").splitlines()[1:]:
            server = line[3:].partition(" ")[0]  # after the version, as "v4"
            with suppress(ValueError):  # a local transport has no address
                yield StorageConnection("NFS", ip_address(bytes.fromhex(server)).packed)


def _packed(text: str) -> bytes:
    """Return an address in network order; b"" for a name, or for one of Fibre Channel."""
    try:
        return ip_address(text).packed
    except ValueError:
        return b""
