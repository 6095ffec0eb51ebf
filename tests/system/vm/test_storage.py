"""NICs over which the node reads its disks and files, with the kernel as client and server."""

import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final

import pytest

from dranet_nri.facts.scan import read_host
from dranet_nri.inventory import inventory_from_facts
from dranet_nri.kernel.netns import run_inside, sockets_in
from tests.system.kernel.namespaces import add_veth, open_netns

pytestmark = pytest.mark.emulated
MACHINE = ("kvm", "tcg")  # the kernel of User Mode Linux has none of these drivers
SERVER: Final = "10.5.0.9"
HOST_ID: Final = "11111111-1111-1111-1111-111111111111"
NVMET: Final = Path("/sys/kernel/config/nvmet")


def run(*commands: str) -> None:
    """Run commands."""
    for command in commands:
        subprocess.run(command.split(), check=True)


def excluded() -> dict[str, str]:
    """Return the reasons why links of this namespace are not published."""
    return dict(inventory_from_facts(read_host()).excluded)


@pytest.fixture
def host_and_server() -> Iterator[tuple[int, int]]:
    """Return a host with nic1 and nic2, and a server to which nic1 leads."""
    with open_netns() as host, open_netns() as server:
        for name in ("nic1", "nic2"):
            add_veth(host, name, server)
        up = ("link set lo up", "link set nic1 up", "link set nic2 up")
        own = (*up, "addr add 10.5.0.7/24 dev nic1", "addr add 10.6.0.7/24 dev nic2")
        run_inside(host, lambda: run(*(f"ip {command}" for command in own)))
        run_inside(server, lambda: run("ip link set lo up", f"ip addr add {SERVER}/24 dev pnic1"))
        yield host, server


def serve_nvme() -> AbstractContextManager[None]:
    """Offer a subsystem without disks."""
    run("modprobe --all nvme-tcp nvmet-tcp")
    if not NVMET.exists():
        run("mount -t configfs none /sys/kernel/config")
    subsystem, port = NVMET / "subsystems/test", NVMET / "ports/1"
    subsystem.mkdir()
    port.mkdir()
    (subsystem / "attr_allow_any_host").write_text("1")
    fields = {"trtype": "tcp", "adrfam": "ipv4", "traddr": SERVER, "trsvcid": "4420"}
    for name, value in fields.items():
        (port / f"addr_{name}").write_text(value)
    (port / "subsystems/test").symlink_to(subsystem)
    return nullcontext()


@contextmanager
def nvme() -> Iterator[None]:
    """Connect a controller."""
    options = f"transport=tcp,traddr={SERVER},trsvcid=4420,nqn=test,hostid={HOST_ID}"
    options += f",hostnqn=nqn.2014-08.org.nvmexpress:uuid:{HOST_ID}"
    with Path("/dev/nvme-fabrics").open("r+b", buffering=0) as device:
        device.write(options.encode())
    yield
    for controller in Path("/sys/class/nvme-fabrics/ctl").glob("nvme*"):
        (controller / "delete_controller").write_text("1")


def serve_nfs() -> AbstractContextManager[None]:
    """Export a directory, and answer the questions of the kernel in place of mountd."""
    run("modprobe --all nfsv4 nfsd", "mkdir -p /exported", "mount -t nfsd none /proc/fs/nfsd")
    run("mount -t tmpfs none /exported")
    for name, text in (("versions", "-3 +4.2"), ("portlist", "tcp 2049"), ("threads", "1")):
        Path("/proc/fs/nfsd", name).write_text(f"{text}\n")
    until = int(time.time()) + 3600
    answers = {
        "auth.unix.ip": f"nfsd 10.5.0.7 {until} *",
        "auth.unix.gid": f"0 {until} 0",
        "nfsd.fh": f"* 1 \\x00000000 {until} /exported",
        "nfsd.export": f"* /exported {until} 8195 65534 65534 0",  # rw, insecure, fsid=0
    }
    for name, answer in answers.items():
        Path(f"/proc/thread-self/net/rpc/{name}/channel").write_text(f"{answer}\n")
    return nullcontext()


@contextmanager
def nfs() -> Iterator[None]:
    """Mount the directory."""
    run("mkdir -p /mounted", f"mount -i -t nfs4 -o addr={SERVER},vers=4.2 {SERVER}:/ /mounted")
    yield
    run("umount -f /mounted")


def serve_iscsi() -> socket.socket:
    """Listen; nobody logs in."""
    run("modprobe iscsi_tcp")
    return socket.create_server((SERVER, 3260))


@contextmanager
def iscsi() -> Iterator[None]:
    """Create a session and its connection as iscsid does: struct iscsi_uevent, scsi/iscsi_if.h."""
    handle = struct.pack("=Q", int(Path("/sys/class/iscsi_transport/tcp/handle").read_text()))
    machine = os.open("/proc/1/ns/net", os.O_RDONLY)  # no other namespace has NETLINK_ISCSI
    (netlink,) = sockets_in(machine, 8)
    os.close(machine)
    with netlink:

        def request(kind: int, body: bytes) -> bytes:
            event = struct.pack("=II", kind, 0) + handle + body.ljust(40, b"\0")
            netlink.send(struct.pack("=IHHII", 16 + len(event), kind, 1, 0, 0) + event)
            return netlink.recv(4096)[16 + 40 :]

        sid, _ = struct.unpack_from("=II", request(11, struct.pack("=IHH", 0, 32, 32)))
        request(13, struct.pack("=II", sid, 0))
        with socket.create_connection((SERVER, 3260)) as connection:
            request(15, struct.pack("=IIQI", sid, 0, connection.fileno(), 1))
            yield
        request(14, struct.pack("=II", sid, 0))
        request(12, struct.pack("=I", sid))


@pytest.mark.parametrize(
    ("kind", "serve", "connected"),
    [
        ("iSCSI", serve_iscsi, iscsi),
        ("NFS", serve_nfs, nfs),
        ("NVMe", serve_nvme, nvme),
    ],
)
def test_nic_towards_storage_is_excluded(
    host_and_server: tuple[int, int],
    kind: str,
    serve: Callable[[], AbstractContextManager[object]],
    connected: Callable[[], AbstractContextManager[None]],
) -> None:
    host, server = host_and_server

    def reasons() -> tuple[dict[str, str], dict[str, str]]:
        before = excluded()
        with connected():
            return before, excluded()

    with run_inside(server, serve):
        before, during = run_inside(host, reasons)

    assert before.keys() == {"lo"}
    assert during == before | {
        "nic1": f"{kind} of the node sends through it; --include nic1 offers it"
    }
