"""Shared mode: pods have device files, while the device stays on the host."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.box import rdma
from tests.box.claims import allocate, release_all
from tests.box.cri import ContainerSpec, Cri, Pod
from tests.box.nics import IGB, Nic, ip
from tests.box.plugin import Plugin
from tests.box.rdma import Endpoint
from tests.box.rdma_pods import run_container
from tests.box.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

FILES = "/dev/infiniband"
CIDR = "10.9.0.5/24"  # of the first NIC
SELDOM = ("--resync-period", "3600")  # so that only kernel events trigger a reconcile


@dataclass(frozen=True, slots=True)
class Sharer:
    """A pod that has a share of a NIC by the claim of its name, and a container that lists it."""

    cri: Cri
    pod: Pod
    name: str
    listing: ContainerSpec
    container: str

    def files(self, container: str = "") -> dict[str, str]:
        """Return the numbers of the device files in a container, in hexadecimal, by name."""
        command = f"cd {FILES} && stat -c '%n %t:%T' *"
        output = self.cri.exec(container or self.container, "/bin/sh", "-c", command).stdout
        return dict(line.split() for line in output.splitlines())

    def spec(self) -> list[str]:
        """Return the names of the device files that its next container gets; none, no container."""
        try:
            text = Path(f"/var/run/cdi/dra.net-{self.name}-claim-uid.json").read_text()
        except FileNotFoundError:
            return []
        (device,) = json.loads(text)["devices"]
        return [Path(node["path"]).name for node in device["containerEdits"]["deviceNodes"]]


@pytest.fixture
def netdevs(stock_rdma: None) -> Iterator[tuple[str, str]]:
    """Return two NICs that have an address and the RDMA devices soft0 and soft1."""
    first, second = (next((path / "net").iterdir()).name for path in sorted(IGB.glob("0000:*"))[:2])
    ip("addr", "add", CIDR, "dev", first)
    rdma.add_link("soft0", first)
    rdma.add_link("soft1", second)
    yield first, second
    ip("addr", "flush", "dev", first)
    ip("link", "set", first, "down")


@pytest.fixture
def plugin(netdevs: tuple[str, str], cri: Cri) -> Iterator[Plugin]:
    """Return the plugin, serving; no plugin, pod and claim is left."""
    made = Plugin(*SELDOM)
    made.start()
    yield made
    cri.remove_all()
    made.stop()
    release_all()


def start(cri: Cri, name: str, netdev: str, config: dict[str, object] | None = None) -> Sharer:
    """Run a pod with a share of the NIC, by a claim with these parameters."""
    nic = Nic(netdev, CIDR)
    claim = allocate(name, [nic], f"{name}-uid", pod=name, config=config, shared="true")
    pod = cri.run_pod(name)
    return Sharer(cri, pod, name, claim.spec(), cri.run_container(pod, spec=claim.spec()))


def numbers(*names: str) -> dict[str, str]:
    """Return the numbers of device files of the node, in hexadecimal, by name."""
    found = ((name, Path(FILES, name).stat().st_rdev) for name in names)
    return {name: f"{os.major(number):x}:{os.minor(number):x}" for name, number in found}


@pytest.mark.every_runtime
def test_pods_share_a_device_that_stays_on_the_host(
    cri: Cri, plugin: Plugin, netdevs: tuple[str, str]
) -> None:
    shown = rdma.links()

    first, second = (start(cri, name, netdevs[0]) for name in ("first", "second"))

    assert first.files() == second.files() == numbers("rdma_cm", "uverbs0")
    assert rdma.links() == shown == {"soft0": netdevs[0], "soft1": netdevs[1]}
    assert plugin.log().count("isolates nothing") >= 2
    cri.stop_pod(first.pod.sandbox_id)
    assert second.spec() == ["rdma_cm", "uverbs0"]
    assert second.files() == numbers("rdma_cm", "uverbs0")


def test_claim_selects_its_device_files_and_a_missing_one_is_reported(
    cri: Cri, plugin: Plugin, netdevs: tuple[str, str]
) -> None:
    chosen = start(cri, "chosen", netdevs[0], {"rdma": {"charDevices": ["umad", "issm"]}})

    mads = Path("/sys/class/infiniband_mad").glob("umad*")
    (umad,) = (mad.name for mad in mads if (mad / "ibdev").read_text().strip() == "soft0")
    assert chosen.files() == numbers(umad)
    assert "soft0: no device file of kind issm" in plugin.since(), "soft-RoCE manages no subnet"


def test_pods_sharing_a_device_pass_traffic_and_rdma_cm_finds_no_address(
    cri: Cri, plugin: Plugin, netdevs: tuple[str, str]
) -> None:
    ip("link", "set", netdevs[0], "up")
    ends = []
    for name in ("one", "two"):
        claim = allocate(name, [Nic(netdevs[0], CIDR)], f"{name}-uid", pod=name, shared="true")
        pod = cri.run_pod(name)
        container, address = run_container(cri, pod, claim), cri.pod_address(pod)
        ends.append(Endpoint(container, "soft0", CIDR.partition("/")[0], reached_at=address))
    server, client = ends

    rdma.ib_write_bw(server=server, client=client, iterations=20)
    with pytest.raises(RuntimeError, match="RDMA_CM_EVENT_ADDR_ERROR, error -19"):
        rdma.rping(server=server, client=client)

    assert plugin.since().count("rdma_cm finds no RDMA device by an address of the pod") == 2


def test_device_files_of_new_containers_follow_a_reloaded_driver(
    cri: Cri, plugin: Plugin, netdevs: tuple[str, str]
) -> None:
    sharer = start(cri, "reloaded", netdevs[0])
    assert sharer.spec() == ["rdma_cm", "uverbs0"]

    for name in ("soft0", "soft1"):
        rdma.delete_link(name)
    wait_until("the gate to close", lambda: sharer.spec() == [])
    for name, netdev in (("soft1", netdevs[1]), ("soft0", netdevs[0])):
        rdma.add_link(name, netdev)

    assert rdma.device_files("soft0")[0] == f"{FILES}/uverbs1"
    wait_until("the files to follow", lambda: sharer.spec() == ["rdma_cm", "uverbs1"])
    late = cri.run_container(sharer.pod, "late", sharer.listing)
    assert sharer.files(late) == numbers("rdma_cm", "uverbs1")
    assert plugin.since().count("RDMA device left its pod") == 1
