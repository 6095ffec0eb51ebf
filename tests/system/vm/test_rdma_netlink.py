"""RDMA netlink against a live kernel, compared with `rdma`, sysfs and /dev."""

import json
import os
import platform
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from errno import EBUSY, EEXIST, ENODEV, EOPNOTSUPP
from pathlib import Path
from typing import TypeVar

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.kernel.netns import run_inside
from dranet_nri.linux.rdma.multicast import RdmaMonitor, open_monitor
from dranet_nri.linux.rdma.socket import RdmaSocket, open_here
from dranet_nri.linux.rdma.types import CharDev, CharDevKind, RdmaDevice, RdmaEvent
from dranet_nri.model import RdmaMode
from tests.box import rdma as bed
from tests.box.nics import ip
from tests.box.target import NODE, checked
from tests.box.waiting import wait_until

RENAMES_ARE_TOLD = (6, 13)  # Linux, since which renames are events
SYSFS = Path("/sys/class/infiniband")

T = TypeVar("T")


@pytest.fixture
def stock(stock_rdma: None) -> Iterator[RdmaSocket]:
    """Return a socket on a node with soft0 on wire0 and soft1 on wire1, shared."""
    yield from _session()


@pytest.fixture
def movable(movable_rdma: None) -> Iterator[RdmaSocket]:
    """Return a socket on the same node with movable devices, exclusive."""
    yield from _session()


def _session() -> Iterator[RdmaSocket]:
    for number in range(2):
        ip("link", "add", f"wire{number}", "type", "dummy")
        ip("link", "set", f"wire{number}", "up")
        bed.add_link(f"soft{number}", f"wire{number}")
    with closing(opened()) as session:
        yield session
    for number in range(2):
        ip("link", "del", f"wire{number}")
    wait_until("the soft-RoCE devices to go", lambda: not bed.links())


@pytest.fixture
def beside() -> Iterator[int]:
    """Return a descriptor of a namespace called "beside"."""
    ip("netns", "add", "beside")
    fd = os.open("/run/netns/beside", os.O_RDONLY | os.O_CLOEXEC)
    yield fd
    os.close(fd)
    ip("netns", "del", "beside")


@pytest.fixture
def here() -> Iterator[int]:
    """Return a descriptor of the node's own namespace."""
    fd = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    yield fd
    os.close(fd)


def opened() -> RdmaSocket:
    """Return a socket of the calling thread's namespace."""
    session = open_here()
    assert session is not None
    return session


def within(nsfd: int, query: Callable[[RdmaSocket], T]) -> T:
    """Return the answer of a socket that is opened and used inside a namespace."""

    def work() -> T:
        with closing(opened()) as session:
            return query(session)

    return run_inside(nsfd, work)


def device(session: RdmaSocket, name: str) -> RdmaDevice:
    """Return the device of that name."""
    return next(device for device in session.devices(f"find {name}") if device.name == name)


def attribute_words(device: str, file: str) -> str:
    """Return a value of a device in sysfs, "" where it has no such file."""
    path = SYSFS / device / file
    return path.read_text().strip().partition(": ")[2] or path.read_text().strip()


# --------------------------------------------------------------------------- looking


@pytest.mark.emulated
@pytest.mark.every_runtime
def test_devices_agree_with_the_rdma_tool_and_sysfs(stock: RdmaSocket) -> None:
    reported = json.loads(checked(NODE, "rdma", "-j", "-d", "dev"))

    found = stock.devices("node")

    assert [(rdma.index, rdma.name, rdma.node_guid, rdma.protocol) for rdma in found] == [
        (row["ifindex"], row["ifname"], row["node_guid"], row["protocol"]) for row in reported
    ]
    for rdma_device in found:
        assert rdma_device.node_guid == attribute_words(rdma_device.name, "node_guid")
        assert stock.device_at("look", rdma_device.index) == rdma_device


def test_ports_agree_with_the_rdma_tool(stock: RdmaSocket) -> None:
    reported = json.loads(checked(NODE, "rdma", "-j", "-d", "link"))

    ports = [port for rdma in stock.devices("node") for port in stock.ports("ports", rdma.index)]

    assert [(port.device, port.port, port.netdev, port.netdev_index) for port in ports] == [
        (row["ifname"], row["port"], row["netdev"], row["netdev_index"]) for row in reported
    ]


def test_character_devices_agree_with_dev(stock: RdmaSocket) -> None:
    soft1 = device(stock, "soft1").index

    found = {kind: stock.char_device(f"find {kind}", kind, soft1) for kind in CharDevKind}

    assert found.pop(CharDevKind.ISSM) is None  # soft-RoCE has no subnet manager
    checked(NODE, "udevadm", "settle", "--timeout=60")
    for kind, file in found.items():
        assert file is not None
        assert file.name.startswith(kind)
        shown = Path(file.path).stat()
        assert stat.S_ISCHR(shown.st_mode)
        assert (os.major(shown.st_rdev), os.minor(shown.st_rdev)) == (file.major, file.minor)
    umad = found[CharDevKind.UMAD]
    assert umad is not None
    assert Path("/sys/class/infiniband_mad", umad.name, "ibdev").read_text().strip() == "soft1"
    assert bed.device_files("soft1") == tuple(
        file.path for file in (found[CharDevKind.UVERBS], found[CharDevKind.RDMA_CM]) if file
    )


def test_port_has_no_net_device_of_another_namespace(stock: RdmaSocket, beside: int) -> None:
    def ports(session: RdmaSocket) -> list[tuple[str, str]]:
        indexes = [rdma.index for rdma in session.devices("beside")]
        return [(port.device, port.netdev) for at in indexes for port in session.ports("look", at)]

    assert within(beside, ports) == [("soft0", ""), ("soft1", "")]


def test_removed_device_is_absent(stock: RdmaSocket) -> None:
    index = device(stock, "soft1").index
    bed.delete_link("soft1")

    with pytest.raises(KernelError, match=f"no RDMA device has index {index}") as caught:
        stock.ports("look at ports", index)

    assert caught.value.already_gone


# --------------------------------------------------------------------------- changing


def test_renamed_device_has_its_new_name_everywhere(stock: RdmaSocket) -> None:
    index = device(stock, "soft1").index

    stock.rename("rename soft1", index, "x" * 63)

    assert stock.device_at("look", index).name == "x" * 63
    assert (SYSFS / ("x" * 63)).exists()
    assert stock.char_device("find", CharDevKind.UVERBS, index) is not None


def test_taken_name_is_refused(stock: RdmaSocket) -> None:
    with pytest.raises(KernelError, match="another RDMA device has that name") as caught:
        stock.rename("rename soft1", device(stock, "soft1").index, "soft0")

    assert caught.value.code == EEXIST


def test_mode_can_be_changed_with_one_namespace(stock: RdmaSocket) -> None:
    stock.set_mode(RdmaMode.EXCLUSIVE)
    exclusive = stock.system(), bed.netns_mode()
    stock.set_mode(RdmaMode.SHARED)

    assert (exclusive[0].mode, exclusive[1]) == (RdmaMode.EXCLUSIVE, "exclusive")
    assert (stock.system().mode, bed.netns_mode()) == (RdmaMode.SHARED, "shared")


def test_mode_cannot_be_changed_with_a_second_namespace(stock: RdmaSocket, beside: int) -> None:
    with pytest.raises(KernelError, match="other network namespaces exist") as caught:
        stock.set_mode(RdmaMode.EXCLUSIVE)

    assert caught.value.code == EBUSY
    assert stock.system().mode is RdmaMode.SHARED


def test_shared_device_cannot_be_moved(stock: RdmaSocket, beside: int) -> None:
    with pytest.raises(KernelError, match="options ib_core netns_mode=0") as caught:
        stock.move("move soft1", device(stock, "soft1").index, beside)

    assert caught.value.code == EOPNOTSUPP


def test_immovable_driver_is_reported_as_the_reason(stock: RdmaSocket, here: int) -> None:
    stock.set_mode(RdmaMode.EXCLUSIVE)

    with pytest.raises(
        KernelError, match="its driver cannot move devices between namespaces"
    ) as caught:
        stock.move("move soft1", device(stock, "soft1").index, here)

    assert caught.value.code == EOPNOTSUPP


# --------------------------------------------------------------------------- moving


def test_device_is_moved_to_a_namespace_and_back(
    movable: RdmaSocket, beside: int, here: int
) -> None:
    soft1 = device(movable, "soft1")

    movable.move("move soft1 to beside", soft1.index, beside)
    left = [rdma.name for rdma in movable.devices("node")]
    came = within(beside, lambda there: there.devices("beside"))
    within(beside, lambda there: there.move("move soft1 back", soft1.index, here))

    assert left == ["soft0"]
    assert came == (soft1,)
    assert movable.devices("node") == (device(movable, "soft0"), soft1)
    assert within(beside, lambda there: there.devices("beside")) == ()


def test_device_cannot_be_moved_back_from_outside_its_namespace(
    movable: RdmaSocket, beside: int, here: int
) -> None:
    index = device(movable, "soft1").index
    movable.move("move soft1 to beside", index, beside)

    with closing(run_inside(beside, opened)) as there:
        with pytest.raises(KernelError, match="send from a thread inside the namespace") as caught:
            there.move("move soft1 back", index, here)
        assert [rdma.name for rdma in there.devices("beside")] == ["soft1"]
        run_inside(beside, lambda: there.move("move soft1 back", index, here))

    assert caught.value.code == ENODEV


def test_device_moved_away_is_absent(movable: RdmaSocket, beside: int, here: int) -> None:
    index = device(movable, "soft1").index
    movable.move("move soft1 to beside", index, beside)

    with pytest.raises(KernelError, match=f"no RDMA device has index {index}") as caught:
        movable.move("move soft1 to beside", index, beside)

    assert caught.value.already_gone
    within(beside, lambda there: there.move("move soft1 back", index, here))


def test_character_devices_are_found_inside_after_a_move(
    movable: RdmaSocket, beside: int, here: int
) -> None:
    index = device(movable, "soft0").index

    def uverbs(there: RdmaSocket) -> CharDev | None:
        return there.char_device("find uverbs", CharDevKind.UVERBS, index)

    movable.move("move soft0 to beside", index, beside)
    found = within(beside, uverbs)

    assert found is not None
    number = Path("/sys/class/infiniband_verbs", found.name, "dev").read_text().strip()
    assert number == f"{found.major}:{found.minor}"
    within(beside, lambda there: there.move("move soft0 back", index, here))


# --------------------------------------------------------------------------- events


@pytest.fixture
def monitor(stock_rdma: None) -> Iterator[RdmaMonitor]:
    """Return a monitor of a node without RDMA devices."""
    listening = open_monitor()
    assert listening is not None
    with closing(listening):
        yield listening


def test_added_changed_and_removed_devices_are_reported_by_events(monitor: RdmaMonitor) -> None:
    ip("link", "add", "wire0", "type", "dummy")
    bed.add_link("soft0", "wire0")
    with closing(opened()) as session:
        session.rename("rename soft0", device(session, "soft0").index, "soft9")
    bed.delete_link("soft9")
    ip("link", "del", "wire0")
    found: list[RdmaEvent] = []

    def gone() -> bool:
        found.extend(monitor.pending())
        return found[-1:] == [RdmaEvent.UNREGISTER]

    wait_until("the last event", gone)

    version = tuple(int(part) for part in platform.release().split(".")[:2])
    assert found[:-1] == [
        RdmaEvent.REGISTER,
        RdmaEvent.NETDEV_ATTACH,
        *([RdmaEvent.RENAME] if version >= RENAMES_ARE_TOLD else []),
    ]
