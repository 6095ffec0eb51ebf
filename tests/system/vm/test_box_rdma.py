"""Soft-RoCE devices of the test bed: moves as with hardware, traffic, and clean removal."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box import rdma
from tests.box.cri import ContainerSpec, Cri
from tests.box.nics import IGB, ip
from tests.box.rdma import Driver, Endpoint, soft_rdma
from tests.box.target import NODE, PROGRAMS, Container, Node, checked
from tests.box.waiting import wait_until

HOST = "10.9.0.1"
POD = "10.9.0.2"


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[str, str]]:
    """Return the netdevs of a NIC and of its virtual function, which share a switch."""
    nic = sorted(IGB.glob("0000:*"))[0]
    netdev = next((nic / "net").iterdir()).name
    ip("link", "set", netdev, "up")
    (nic / "sriov_numvfs").write_text("1")
    wait_until("the VF to have a netdev", lambda: list(nic.glob("virtfn0/net/*")))
    subprocess.run(("udevadm", "settle", "--timeout=60"), check=True)  # it renames it
    ip("addr", "add", f"{HOST}/24", "dev", netdev)
    yield netdev, next(nic.glob("virtfn0/net/*")).name
    ip("addr", "flush", "dev", netdev)
    (nic / "sriov_numvfs").write_text("0")


@pytest.fixture
def space() -> Iterator[str]:
    """Return the name of a network namespace that is gone when the test is over."""
    ip("netns", "add", "space")
    yield "space"
    if "space" in ip("netns"):
        ip("netns", "del", "space")


def bring(netdev: str, device: str, netns: str) -> None:
    """Bring a netdev and its RDMA device into a namespace, and the netdev up with an address."""
    ip("link", "set", netdev, "netns", netns)
    rdma.move(device, netns)
    ip("-n", netns, "addr", "add", f"{POD}/24", "dev", netdev)
    ip("-n", netns, "link", "set", netdev, "up")
    wait_until(
        "the device to be up", lambda: "state ACTIVE" in checked(Node(netns), "rdma", "link")
    )


@pytest.mark.emulated
def test_rdma_device_is_below_its_pci_function(movable_rdma: None, pair: tuple[str, str]) -> None:
    rdma.add_link("rxe0", pair[1])

    function = Path("/sys/class/net", pair[1], "device")
    assert [path.name for path in (function / "infiniband").iterdir()] == ["rxe0"]
    assert rdma.device_files("rxe0") == ("/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm")


def test_rdma_device_is_moved_by_name_and_back(
    movable_rdma: None, pair: tuple[str, str], space: str
) -> None:
    rdma.add_link("rxe0", pair[1])

    rdma.move("rxe0", space)
    moved = rdma.links(), rdma.links(Node(space))
    rdma.move("rxe0", "1", origin=space)

    assert moved == ({}, {"rxe0": ""})
    assert rdma.links() == {"rxe0": pair[1]}


def test_rdma_device_and_netdev_return_when_their_namespace_is_deleted(
    movable_rdma: None, pair: tuple[str, str], space: str
) -> None:
    rdma.add_link("rxe0", pair[1])
    bring(pair[1], "rxe0", space)
    moved = rdma.links(), rdma.links(Node(space))

    ip("netns", "del", space)

    assert moved == ({}, {"rxe0": pair[1]})
    wait_until("both to come back", lambda: rdma.links() == {"rxe0": pair[1]})


def test_rdma_traffic_crosses_namespaces(
    movable_rdma: None, pair: tuple[str, str], space: str
) -> None:
    rdma.add_link("rxe0", pair[0])
    rdma.add_link("rxe1", pair[1])
    bring(pair[1], "rxe1", space)
    host, pod = Endpoint(NODE, "rxe0", HOST), Endpoint(Node(space), "rxe1", POD)

    assert rdma.ib_write_bw(server=pod, client=host) > 0
    assert rdma.ib_write_bw(server=host, client=pod) > 0
    rdma.rping(server=pod, client=host)


@pytest.mark.timeout(600)
def test_container_uses_the_rdma_device_of_its_pod(
    movable_rdma: None, cri: Cri, pair: tuple[str, str]
) -> None:
    rdma.add_link("rxe0", pair[0])
    rdma.add_link("rxe1", pair[1])
    files = rdma.device_files("rxe1")
    pod = cri.run_pod("pod")
    netns = cri.netns(pod)
    assert netns is not None
    bring(pair[1], "rxe1", netns.name)
    spec = ContainerSpec(mounts=PROGRAMS, devices=files, capabilities=("IPC_LOCK",))
    container = Container(cri, cri.run_container(pod, spec=spec))

    assert "rxe1" in checked(container, "ibv_devinfo")
    inside, outside = Endpoint(container, "rxe1", POD), Endpoint(NODE, "rxe0", HOST)
    assert rdma.ib_write_bw(server=inside, client=outside) > 0
    rdma.rping(server=inside, client=outside)


@pytest.mark.emulated
def test_rdma_device_of_the_stock_driver_cannot_be_moved(
    stock_rdma: None, pair: tuple[str, str], space: str
) -> None:
    rdma.add_link("rxe0", pair[1])

    with pytest.raises(RuntimeError, match="Operation not supported"):
        rdma.move("rxe0", space)

    assert rdma.links() == {"rxe0": pair[1]}


def test_soft_rdma_leaves_no_modules_and_no_devices(pair: tuple[str, str]) -> None:
    before = rdma.modules()

    with soft_rdma(Driver.STOCK, "exclusive"):
        rdma.add_link("rxe0", pair[1])
        assert rdma.netns_mode() == "exclusive"

    assert rdma.modules() & set(rdma.LOADED) == before & set(rdma.LOADED) == set()
    assert not Path("/sys/class/infiniband").exists()
