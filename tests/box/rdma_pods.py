"""Pods on virtual functions with soft-RoCE: all that their containers have comes from the claim.

Containers run as an ordinary user without any capability, and ask for no device file themselves.

Typical use, in tests/system/vm. The driver comes before whatever makes network namespaces:

    def test_…(hcas: tuple[Hca, ...], cri: Cri, plugin: Plugin) -> None:
        near = start_rdma_pod(cri, "near", hcas[:1], 1)
        far = start_rdma_pod(cri, "far", hcas[1:2], 2)
        rdma.ib_write_bw(server=near.end(), client=far.end())
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.box import rdma
from tests.box.claims import Allocated, allocate, release, release_all
from tests.box.cri import ContainerSpec, Cri, CriError, Pod
from tests.box.nics import Nic
from tests.box.plugin import Plugin
from tests.box.rdma import Endpoint
from tests.box.target import NODE, PROGRAMS, Container, ExecTarget, Node, checked
from tests.box.waiting import wait_until

USER: Final = 1000
MOVED: Final = 100_000  # bytes on the wire, after which traffic counts as flowing
# All rails of a pod are on one wire: without this each NIC answers for the addresses of the others.
ONE_WIRE: Final[Mapping[str, object]] = {"arpIgnore": 1, "arpAnnounce": 2}
_REGISTER: Final = """
import sys
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
name, size = sys.argv[1], int(sys.argv[2])
with Context(name=name) as context, PD(context) as domain, MR(domain, size, 1) as region:
    print(region.length)
"""


@dataclass(frozen=True, slots=True)
class Hca:
    """A NIC on the host, and the name of its RDMA device."""

    nic: Nic
    device: str


@dataclass(frozen=True, slots=True)
class RdmaPod:
    """A pod with a container that lists its claim.

    Attributes:
        netns: the pod's network namespace.
        container: where its programs run.
        devices: its RDMA devices, each with the address of its NIC.
    """

    pod: Pod
    claim: Allocated
    netns: Node
    container: Container
    devices: tuple[tuple[str, str], ...]

    def end(self, rail: int = 0) -> Endpoint:
        """Return an end for traffic, once the address of that NIC is a GID of its RDMA device."""
        name, address = self.devices[rail]
        end = Endpoint(self.container, name, address)
        wait_until(f"a GID of {address}", lambda: _has_gid(end))
        return end


def make_hcas(nics: Sequence[Nic]) -> tuple[Hca, ...]:
    """Make an RDMA device on each NIC; its name tells of which."""
    hcas = tuple(Hca(nic, f"rxe_{nic.name}") for nic in nics)
    for hca in hcas:
        rdma.add_link(hca.device, hca.nic.name)
    return hcas


def links_on_host(hcas: Sequence[Hca]) -> dict[str, str]:
    """Return what `rdma.links` shows of the RDMA devices when all are on the host."""
    return {hca.device: hca.nic.name for hca in hcas}


def rails(count: int, host: int) -> list[dict[str, object]]:
    """Return parameters for each NIC: the host's address in a network of its rail."""
    return [
        {"interface": {"addresses": [f"192.168.{50 + rail}.{host}/24"], **ONE_WIRE}}
        for rail in range(count)
    ]


def start_rdma_pod(
    cri: Cri,
    name: str,
    hcas: Sequence[Hca],
    host: int,
    *,
    rdma_name: str = "",
    containers: Sequence[str] = ("main",),
) -> RdmaPod:
    """Run a pod with a claim for the NICs and one container, called main.

    Args:
        cri: of the node.
        name: of pod and claim.
        hcas: one request each.
        host: its number in the networks of its rails.
        rdma_name: of its one RDMA device in the pod, "" to keep the host's.
        containers: that list the claim.
    """
    claim = claim_rails(name, hcas, host, rdma_name=rdma_name, containers=containers)
    pod = cri.run_pod(name)
    devices = tuple(
        (rdma_name or hca.device, f"192.168.{50 + rail}.{host}") for rail, hca in enumerate(hcas)
    )
    return RdmaPod(pod, claim, netns_of(cri, pod), run_container(cri, pod, claim), devices)


def claim_rails(
    name: str,
    hcas: Sequence[Hca],
    host: int,
    *,
    rdma_name: str = "",
    containers: Sequence[str] = ("main",),
) -> Allocated:
    """Allocate the claim of start_rdma_pod, which says what the arguments are."""
    config = rails(len(hcas), host)
    if rdma_name:
        config = [entry | {"rdma": {"name": rdma_name}} for entry in config]
    nics = [hca.nic for hca in hcas]
    return allocate(name, nics, f"{name}-uid", pod=name, config=config, containers=containers)


def run_container(cri: Cri, pod: Pod, claim: Allocated | None, name: str = "main") -> Container:
    """Run an ordinary user's container, which lists the claim if there is one."""
    ids = claim.cdi_ids if claim else ()
    spec = ContainerSpec(cdi_devices=ids, mounts=PROGRAMS, user=USER)
    return Container(cri, cri.run_container(pod, name, spec))


def netns_of(cri: Cri, pod: Pod) -> Node:
    """Return the pod's network namespace, where programs of the node run."""
    path = cri.netns(pod)
    assert path is not None
    return Node(path.name)


def registered(target: ExecTarget, device: str, size: int) -> int:
    """Register memory with an RDMA device; return how much was.

    Raises:
        RuntimeError: it could not be; the message has why.
    """
    return int(checked(target, "python3", "-c", _REGISTER, device, str(size)))


def status_of_process(target: ExecTarget) -> dict[str, str]:
    """Return the fields of /proc/self/status of a program that runs there."""
    lines = checked(target, "cat", "/proc/self/status").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@contextmanager
def serving(cri: Cri, *flags: str) -> Iterator[Plugin]:
    """Have a plugin with flags. Whatever the test does, no plugin, pod and claim is left."""
    plugin = Plugin(*flags)
    plugin.start_alone()
    try:
        yield plugin
    finally:
        cri.remove_all()
        plugin.stop()
        release_all()


@contextmanager
def endless_traffic(server: RdmaPod, client: RdmaPod, seconds: int = 50) -> Iterator[None]:
    """Have RDMA writes flow from client to server. They may end as they like."""
    near, far = server.end(), client.end()
    options = ("--duration", str(seconds), "--tx-depth", "4", "--size", "4096", "--CPU-freq")

    def run(end: Endpoint, *target: str) -> None:
        index = str(rdma.gid_index(end))
        command = ("ib_write_bw", "--ib-dev", end.device, "--gid-index", index, *options, *target)
        with suppress(CriError):  # of a container that was killed meanwhile
            end.target.run(*command)

    with ThreadPoolExecutor(2) as pool:
        pool.submit(run, near)
        wait_until("the server to listen", lambda: rdma.listens(server.netns))
        sent = _sent(client.netns)
        pool.submit(run, far, near.address)
        wait_until("traffic to flow", lambda: _sent(client.netns) - sent > MOVED)
        yield


def kill_all(netns: Node) -> None:
    """Kill every process in a network namespace at once, the sandbox's own as well."""
    inode = Path("/run/netns", netns.netns).stat().st_ino
    for space in Path("/proc").glob("[0-9]*/ns/net"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if space.stat().st_ino == inode:
                os.kill(int(space.parts[2]), signal.SIGKILL)


def cycle_rdma(cri: Cri, hcas: Sequence[Hca], rounds: int) -> None:
    """Start and end a pod with the NICs, again and again, and look where its RDMA devices are.

    Raises:
        AssertionError: a device is lost, or has another name.
    """
    before = rdma.links()
    left_on_host = {
        name: netdev for name, netdev in before.items() if name not in links_on_host(hcas)
    }
    allocate("cycled", [hca.nic for hca in hcas], "cycled-uid", pod="cycled")
    for number in range(rounds):
        pod = cri.run_pod("cycled")
        assert rdma.links(netns_of(cri, pod)) == links_on_host(hcas), number
        assert rdma.links() == left_on_host, number
        cri.stop_pod(pod.sandbox_id)
        cri.remove_pod(pod.sandbox_id)
        assert rdma.links() == before, number
    release("cycled-uid")


def guids() -> dict[str, str]:
    """Return the node GUIDs of the host's RDMA devices, by name."""
    rows = json.loads(checked(NODE, "rdma", "-j", "dev"))
    return {row["ifname"]: row["node_guid"] for row in rows}


def _has_gid(end: Endpoint) -> bool:
    try:
        rdma.gid_index(end)
    except LookupError:
        return False
    return True


def _sent(netns: Node) -> int:
    files = checked(netns, "sh", "-c", "cat /sys/class/net/*/statistics/tx_bytes")
    return sum(map(int, files.split()))
