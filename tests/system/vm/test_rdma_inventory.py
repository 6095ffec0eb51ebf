"""RDMA devices of a real kernel in the inventory, compared with iproute2."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dranet_nri.facts.scan import read_host
from tests.box import rdma
from tests.box.nics import IGB, ip
from tests.box.plugin import Plugin
from tests.box.rdma import Driver, soft_rdma
from tests.box.rdma_facts import shown_by_both
from tests.box.target import NODE, Node, checked
from tests.box.waiting import wait_until

_HOLD = """
import sys
from pyverbs.device import Context
with Context(name=sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def netdev() -> Iterator[str]:
    """Return the netdev of a NIC, up, with an address."""
    name = next((sorted(IGB.glob("0000:*"))[0] / "net").iterdir()).name
    ip("link", "set", name, "up")
    yield name
    ip("link", "set", name, "down")


@pytest.fixture
def space() -> Iterator[str]:
    """Return the name of a network namespace that is gone when the test is over."""
    ip("netns", "add", "space")
    yield "space"
    ip("netns", "del", "space")


@pytest.fixture
def dummy() -> Iterator[str]:
    """Return the name of a dummy netdev, up."""
    ip("link", "add", "dummy7", "type", "dummy")
    ip("link", "set", "dummy7", "up")
    yield "dummy7"
    ip("link", "del", "dummy7")


@contextmanager
def opened(device: str) -> Iterator[None]:
    """Have a program that holds an RDMA device open."""
    command = ("python3", "-c", _HOLD, device)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"open\n"
        yield
        program.communicate()


def inventory(*arguments: str) -> dict[str, list[dict[str, object]]]:
    reported = json.loads(checked(NODE, "dranet-nri", "inventory", "--output", "json", *arguments))
    assert isinstance(reported, dict)
    return reported


def doctor() -> dict[str, list[dict[str, object]]]:
    reported = json.loads(NODE.run("dranet-nri", "doctor", "--output", "json").stdout)
    assert isinstance(reported, dict)
    return reported


@pytest.mark.timeout(600)
def test_inventory_agrees_with_the_rdma_tool_in_every_common_field(
    stock_rdma: None, netdev: str, dummy: str
) -> None:
    assert inventory()["rdma"] == []
    rdma.add_link("rxe0", netdev)
    rdma.add_link("rxe1", dummy)

    up, listed_up = shown_by_both()
    ip("link", "set", dummy, "down")
    wait_until("the port to be down", lambda: shown_by_both()[0]["rxe1/1 state"] == "DOWN")
    down, listed_down = shown_by_both()

    assert (up["rxe0 protocol"], up["rxe1/1 state"]) == ("roce", "ACTIVE")
    assert listed_up == up
    assert listed_down == down
    owners = {
        device["name"]: device["rdmaDevices"]
        for device in inventory()["devices"]
        if device["rdmaDevices"]
    }
    assert owners == {"pci-0000-41-00-0": ["rxe0"], dummy: ["rxe1"]}


@pytest.mark.timeout(600)
def test_rdma_device_is_listed_in_its_current_namespace(
    movable_rdma: None, netdev: str, space: str
) -> None:
    rdma.add_link("rxe0", netdev)
    before, listed_before = shown_by_both()

    rdma.move("rxe0", space)
    moved, listed_moved = shown_by_both()
    inside, listed_inside = shown_by_both(Node(space))
    rdma.move("rxe0", "1", origin=space)
    after, listed_after = shown_by_both()

    assert listed_before == before
    assert listed_moved == moved == {}
    assert listed_inside == inside
    assert "rxe0/1 netdev" not in inside
    assert listed_after == after == before


@pytest.mark.timeout(600)
def test_devices_added_and_removed_during_a_read_cause_no_error(
    stock_rdma: None, dummy: str
) -> None:
    busy = threading.Event()

    def come_and_go() -> None:
        busy.set()
        for _ in range(15):
            rdma.add_link("rxe1", dummy)
            rdma.delete_link("rxe1")
        busy.clear()

    worker = threading.Thread(target=come_and_go)
    worker.start()
    observed: set[tuple[str, ...]] = set()
    while worker.is_alive():
        observed.add(tuple(device.name for device in read_host().rdma))
    worker.join()

    assert not busy.is_set()
    assert observed == {(), ("rxe1",)}


@pytest.mark.timeout(600)
def test_doctor_opens_each_device_and_holds_none(stock_rdma: None, netdev: str) -> None:
    rdma.add_link("rxe0", netdev)

    reported = doctor()

    (device,) = reported["verbs"]
    assert device["name"] == "rxe0"
    assert device["atomic"] == "device"
    assert device["onDemandPaging"] in (True, False)
    ports = device["ports"]
    assert isinstance(ports, list)
    assert [(port["activeMtu"], port["lanes"]) for port in ports] == [(1024, 1)]
    assert {"subject": "rxe0", "grade": "bad"} not in [
        {"subject": finding["subject"], "grade": finding["grade"]}
        for finding in reported["findings"]
    ]
    assert rdma.contexts() == []
    with opened("rxe0"):
        assert rdma.contexts() == ["python3"], "who holds one is seen"


@pytest.mark.timeout(600)
def test_doctor_names_the_module_of_a_missing_file(stock_rdma: None, netdev: str) -> None:
    rdma.add_link("rxe0", netdev)

    before = [finding["text"] for finding in doctor()["findings"]]
    checked(NODE, "modprobe", "ib_umad")
    after = [finding["text"] for finding in doctor()["findings"]]

    missing = "has no umad file, only ibstat and similar tools need it: modprobe ib_umad"
    assert missing in before
    assert missing not in after
    assert any(str(text).startswith("shared: ") for text in before)


@pytest.mark.timeout(600)
@pytest.mark.emulated
def test_rdma_modules_can_be_reloaded_beside_the_plugin(plugin: Plugin, netdev: str) -> None:
    for _ in range(2):  # as who updates a vendor's drivers does
        with soft_rdma(Driver.STOCK, "shared"):
            rdma.add_link("rxe0", netdev)
            wait_until("the plugin to listen for RDMA events", listeners)
            rdma.delete_link("rxe0")
            wait_until("no listener", lambda: not listeners())
        assert not rdma.modules() & set(rdma.LOADED)


def listeners() -> list[str]:
    """Return the port ids of who has a socket of NETLINK_RDMA (linux/netlink.h), but the kernel."""
    rows = [line.split() for line in Path("/proc/net/netlink").read_text().splitlines()[1:]]
    return [row[2] for row in rows if row[1] == "20" and row[2] != "0"]
