"""Repeated scans: facts with an event are read again, the rest is the same object."""

from pathlib import Path

import pytest

from dranet_nri.errors import InvalidValueError
from dranet_nri.facts.invalidation import NOTHING, Event, Invalidated, invalidated_by
from dranet_nri.facts.netlink_events import NetEvent, NetEventKind
from dranet_nri.facts.scan import MANY_LINKS, Scanner
from dranet_nri.facts.uevents import OVERFLOW, DeviceEvent
from dranet_nri.linux.rdma.types import RdmaEvent
from tests.fakes.sysfs import FakeSysfs

pytestmark = pytest.mark.process


PF, OTHER = "0000:8a:00.0", "0000:8b:00.0"
PCI = DeviceEvent("add", "pci", OTHER)
LOST = NetEvent(NetEventKind.LOST)
LOOPBACK = 1  # the ifindex of lo in every namespace


@pytest.mark.parametrize(
    ("events", "touched"),
    [
        ([], NOTHING),
        ([DeviceEvent("add", "net", "eth0")], NOTHING),
        ([NetEvent(NetEventKind.LINK, 4)], Invalidated(frozenset({4}))),
        ([NetEvent(NetEventKind.ADDRESS, 4)], Invalidated(frozenset({4}))),
        ([NetEvent(NetEventKind.FILTER, 4)], Invalidated(frozenset({4}))),
        ([NetEvent(NetEventKind.ROUTE)], Invalidated(routes=True)),
        ([PCI], Invalidated(functions=True)),
        ([DeviceEvent("add", "infiniband", "mlx5_0")], Invalidated(rdma=True)),
        ([DeviceEvent("add", "infiniband_verbs", "uverbs0")], Invalidated(rdma=True)),
        ([RdmaEvent.REGISTER], Invalidated(rdma=True)),
        ([RdmaEvent.LOST], Invalidated(rdma=True)),
        ([DeviceEvent(OVERFLOW)], Invalidated(everything=True)),
        ([LOST], Invalidated(everything=True)),
        (
            [NetEvent(NetEventKind.LINK, 4), PCI, NetEvent(NetEventKind.LINK, 5)],
            Invalidated(frozenset({4, 5}), functions=True),
        ),
    ],
)
def test_event_invalidates_the_facts_that_it_concerns(
    events: list[Event], touched: Invalidated
) -> None:
    assert invalidated_by(events) == touched


@pytest.fixture
def host(tmp_path: Path) -> FakeSysfs:
    """Return a sysfs with a NIC that has RDMA."""
    made = FakeSysfs(tmp_path)
    made.pci(PF)
    made.rdma("mlx5_0", ("pci", PF))
    return made


def test_irrelevant_event_invalidates_nothing(host: FakeSysfs) -> None:
    scanner = Scanner(host.root)

    assert not scanner.invalidate([DeviceEvent("add", "net", "eth0")])
    assert scanner.invalidate([PCI])


def test_facts_without_an_event_are_not_read_again(host: FakeSysfs) -> None:
    scanner = Scanner(host.root)
    first = scanner.scan(whole=False)
    host.pci(OTHER)
    host.rdma("mlx5_1", ("pci", OTHER))

    again = scanner.scan(whole=False)

    assert again == first
    assert [function.address for function in first.functions] == [PF]
    for one, other in zip(first.netdevs, again.netdevs, strict=True):
        assert one is other
    assert again.rdma is first.rdma


def test_pci_event_rereads_the_functions(host: FakeSysfs) -> None:
    scanner = Scanner(host.root)
    first = scanner.scan(whole=False)
    host.pci(OTHER)
    scanner.invalidate([PCI])

    again = scanner.scan(whole=False)

    assert [function.address for function in again.functions] == [PF, OTHER]
    assert again.functions[0] is first.functions[0]


def test_rdma_event_rereads_rdma_devices_and_their_functions(
    host: FakeSysfs,
) -> None:
    scanner = Scanner(host.root)
    first = scanner.scan(whole=False)
    host.pci(OTHER, base_class="00")
    host.rdma("erdma_0", ("pci", OTHER))
    scanner.invalidate([DeviceEvent("add", "infiniband", "erdma_0")])

    again = scanner.scan(whole=False)

    assert [rdma.name for rdma in again.rdma] == ["erdma_0", "mlx5_0"]
    assert again.rdma[1] is first.rdma[0]
    assert [function.address for function in again.functions] == [PF, OTHER]


def test_function_of_another_class_is_listed_with_and_without_its_rdma_device(
    host: FakeSysfs,
) -> None:
    host.pci(OTHER, base_class="12")
    host.pci("0000:8c:00.0", base_class="03")
    scanner = Scanner(host.root)
    first = scanner.scan(whole=False)
    host.rdma("erdma_0", ("pci", OTHER))
    scanner.invalidate([DeviceEvent("add", "infiniband", "erdma_0")])
    with_rdma = scanner.scan(whole=False)

    assert first.other_functions == {OTHER, "0000:8c:00.0"}
    assert with_rdma.other_functions == {"0000:8c:00.0"}
    assert Scanner(host.root).scan(whole=True).other_functions == {"0000:8c:00.0"}


def test_link_event_rereads_only_the_rdma_device_of_that_link(host: FakeSysfs) -> None:
    for name, link in (("rxe0", "lo"), ("rxe1", "nothing")):
        host.rdma(name, layers=("Ethernet",), gids=(link,))
    scanner = Scanner(host.root)
    first = {rdma.name: rdma for rdma in scanner.scan(whole=False).rdma}
    for name in ("mlx5_0", "rxe0", "rxe1"):
        host.write(f"class/infiniband/{name}/ports/1/state", "1: DOWN")
    scanner.invalidate([NetEvent(NetEventKind.LINK, LOOPBACK)])

    again = {rdma.name: rdma for rdma in scanner.scan(whole=False).rdma}

    assert [again["rxe0"].ports[0].state, first["rxe0"].ports[0].state] == ["DOWN", "ACTIVE"]
    assert again["rxe1"] is first["rxe1"]
    assert again["mlx5_0"] is first["mlx5_0"]


def test_rdma_device_removed_with_its_link_is_omitted(host: FakeSysfs) -> None:
    host.rdma("rxe0", layers=("Ethernet",), gids=("lo",))
    scanner = Scanner(host.root)
    scanner.scan(whole=False)
    (host.root / "class/infiniband/rxe0").unlink()
    scanner.invalidate([NetEvent(NetEventKind.LINK, LOOPBACK)])

    assert [rdma.name for rdma in scanner.scan(whole=False).rdma] == ["mlx5_0"]


@pytest.mark.parametrize(
    "events",
    [[LOST], [DeviceEvent(OVERFLOW)], [NetEvent(NetEventKind.LINK, n) for n in range(1, 99)]],
    ids=["rtnetlink", "udev", "many"],
)
def test_lost_events_or_many_link_events_reread_everything(
    host: FakeSysfs, events: list[Event]
) -> None:
    assert len(events) == 1 or len(events) > MANY_LINKS
    scanner = Scanner(host.root)
    scanner.scan(whole=False)
    host.pci(OTHER)
    scanner.invalidate(events)

    assert [function.address for function in scanner.scan(whole=False).functions] == [PF, OTHER]


def test_visibility_of_rdma_devices_is_read_in_every_scan(host: FakeSysfs) -> None:
    scanner = Scanner(host.root)
    assert scanner.scan(whole=True).all_rdma

    host.write("module/ib_core/parameters/netns_mode", "N")
    assert not scanner.scan(whole=False).all_rdma
    host.write("module/ib_core/parameters/netns_mode", "Y")
    assert scanner.scan(whole=False).all_rdma
    host.write("module/ib_core/parameters/netns_mode", "N")
    assert not scanner.scan(whole=True).all_rdma


def test_whole_scan_reads_everything(host: FakeSysfs) -> None:
    scanner = Scanner(host.root)
    scanner.scan(whole=False)
    host.pci(OTHER)

    assert [function.address for function in scanner.scan(whole=True).functions] == [PF, OTHER]


def test_event_of_an_unknown_link_changes_nothing(host: FakeSysfs) -> None:
    scanner = Scanner(host.root)
    first = scanner.scan(whole=False)
    scanner.invalidate([NetEvent(NetEventKind.LINK, 999_999)])

    assert scanner.scan(whole=False) == first


def test_unknown_azure_size_is_refused_before_any_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="--azure-size"):
        Scanner(tmp_path, "Standard_D2")
