"""Devices in pods, which stay published with their last facts until they are released."""

from dataclasses import replace
from pathlib import Path

import pytest

from dra_shim.checkpoint.cache import RecordCache
from dra_shim.discovery import DevicesChanged, DeviceUnhealthy, ScanFailed
from dra_shim.discovery.schedule import DEBOUNCE_S, FIRST_PAUSE_S, RECORDS_S
from dra_shim.pool import NO_RDMA, VANISHED
from dranet_nri.errors import RefusedError
from dranet_nri.model import Phase
from dranet_nri.state.store import AttachmentStore
from tests.dra_shim.discovery.node_bench import CLAIM, FAILURE, Bench
from tests.dranet_nri.attach.execution.node import DATA, Node, claim, failure_of, given, pci
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.dranet_nri.state.directories import no_descriptors

pytestmark = pytest.mark.process


PF = "0000:8a:00.0"
PCI = "pci-0000-8a-00-0"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Return a node with a virtual link a and a NIC eth1."""
    made = Bench(tmp_path)
    made.host.add_nic("a")
    made.host.add_nic("eth1", PF)
    return made


def test_device_in_a_pod_keeps_its_facts(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            here = await bench.device(PCI)
            bench.allocate(here)
            await bench.settle(RECORDS_S)
            bench.host.take_link("eth1")
            await bench.settle()

            assert await bench.device(PCI) == here
            assert await bench.health() == {"a": True, PCI: None}
            assert bench.taints() == {}

    finish(scenario())


def test_changes_of_records_are_scanned_two_seconds_after_the_first(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            here = await bench.device(PCI)
            bench.allocate(here)
            await bench.clock.until_asleep(RECORDS_S)
            bench.clock.pass_time(RECORDS_S / 2)
            bench.attach(here)
            await bench.clock.until_asleep(RECORDS_S / 2)
            assert bench.host.scans == [True]

            await bench.rest(RECORDS_S / 2)
            assert bench.host.scans == [True, False]

    finish(scenario())


@pytest.mark.parametrize(
    ("phase", "share_id", "unhealthy"),
    [
        (Phase.INTENT, "", {}),
        (Phase.DETACHING, "", {}),
        (Phase.FAILED, "", {PCI: NO_RDMA}),
        (Phase.ATTACHED, "a-share", {PCI: NO_RDMA}),
    ],
)
def test_missing_rdma_device_is_a_fault_unless_the_nic_moves(
    bench: Bench, phase: Phase, share_id: str, unhealthy: dict[str, str]
) -> None:
    async def scenario() -> None:
        async with bench.running():
            here = await bench.device(PCI)
            bench.allocate(replace(here, rdma_devices=("mlx5_0",)))
            bench.fail(here, share_id=share_id, phase=phase)
            await bench.settle(RECORDS_S)

            assert bench.taints() == unhealthy

    finish(scenario())


def test_nic_that_returns_during_a_scan_is_healthy(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            here = replace(await bench.device(PCI), rdma_devices=("mlx5_0",))
            bench.allocate(here)
            bench.attach(here)
            bench.host.take_link("a")
            await bench.begin_scan()
            bench.attach(here, restored=True)
            await bench.end_scan()

            assert bench.taints() == {}

    finish(scenario())


def test_virtual_device_in_a_pod_is_published_until_its_record_is_removed(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            bench.allocate(await bench.device("a"))
            await bench.settle(RECORDS_S)
            bench.host.take_link("a")
            await bench.settle()
            assert bench.published[-1] == ["a", PCI]

            bench.release()
            await bench.settle(RECORDS_S)
            assert bench.published[-1] == [PCI]
            assert bench.notices[-1] == DevicesChanged(1, 0, (), (("a", "missing on the node"),))

    finish(scenario())


def test_admin_access_keeps_neither_the_device_nor_its_facts(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            here = [await bench.device(entry) for entry in ("a", PCI)]
            bench.allocate(
                *(replace(entry, rdma_devices=("mlx5_0",)) for entry in here), admin_access=True
            )
            await bench.settle(RECORDS_S)
            assert [(await bench.device(entry)) for entry in ("a", PCI)] == here

            bench.host.take_link("a")
            bench.host.remove_function(PF)
            await bench.settle()
            assert bench.published[-1] == []

    finish(scenario())


def test_vanished_rdma_device_without_an_interface_is_unhealthy(
    bench: Bench,
) -> None:
    async def scenario() -> None:
        async with bench.running():
            bench.host.take_link("eth1")
            await bench.settle()
            bench.allocate(replace(await bench.device(PCI), rdma_devices=("mlx5_0",)))
            bench.host.remove_function(PF)
            await bench.settle()

            assert bench.taints() == {PCI: VANISHED}
            assert (await bench.health())[PCI] is False

    finish(scenario())


def test_device_with_a_failed_attachment_is_unhealthy_until_it_is_attached_again(
    bench: Bench,
) -> None:
    async def scenario() -> None:
        async with bench.running():
            here = await bench.device(PCI)
            bench.allocate(here)
            bench.attach(here)
            bench.host.take_link("eth1")
            await bench.settle()
            assert (await bench.health())[PCI] is None

            bench.fail(here)
            await bench.settle(RECORDS_S)
            report = await bench.devices.health(None)
            messages = {
                device.device: device.message
                for device in report.devices
                if device.healthy is False
            }
            assert messages == {PCI: FAILURE.message}

            bench.attach(here)
            await bench.settle(RECORDS_S)
            assert (await bench.health())[PCI] is None

    finish(scenario())


@pytest.mark.parametrize(
    ("phase", "share_id", "restored"),
    [
        (Phase.FAILED, "a-share", False),
        (Phase.FAILED, "", True),
        (Phase.ATTACHED, "", False),
        (Phase.DETACHING, "", False),
    ],
)
def test_failure_of_a_share_or_other_phase_does_not_make_a_device_unhealthy(
    bench: Bench, phase: Phase, share_id: str, *, restored: bool
) -> None:
    async def scenario() -> None:
        async with bench.running():
            bench.fail(await bench.device(PCI), share_id=share_id, phase=phase, restored=restored)
            await bench.settle(RECORDS_S)

            assert (await bench.health())[PCI] is True

    finish(scenario())


def test_failed_attachment_record_makes_attached_devices_unhealthy(bench: Bench) -> None:
    node = Node()
    desired = claim(DATA, given(pci(1)), given(pci(2)))
    (attached,) = node.attach((desired,))
    node.kernel.rdma.remove("mlx5_1")
    assert node.executor.verify(attached, desired) is None
    with pytest.raises(RefusedError):
        node.attach((desired,))
    again = Node()
    again.kernel.rdma.remove("mlx5_1")
    with pytest.raises(RefusedError):
        again.attach((desired,))

    with AttachmentStore(bench.state.attachments) as store, RecordCache(bench.state) as cache:
        store.put(again.journal.records[DATA])
        assert cache.devices().failures == {}, "no device was attached yet"

        store.put(node.journal.records[DATA])
        assert cache.devices().failures == {
            name: failure_of(node).message for name in ("nic-1", "nic-2")
        }


def test_device_restored_on_the_host_is_published_with_current_facts(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            here = await bench.device(PCI)
            bench.allocate(here)
            bench.host.take_link("eth1")
            await bench.settle()
            bench.release()
            bench.host.remove_function(PF)
            bench.host.add_nic("eth7", PF)
            await bench.settle()

            assert (await bench.device(PCI)).attribute("dra.net/ifName") == "eth7"
            assert (await bench.health())[PCI] is True

    finish(scenario())


def test_device_not_yet_restored_on_the_host_counts_as_in_a_pod(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            here = await bench.device("a")
            bench.allocate(here)
            bench.attach(here)
            bench.host.take_link("a")
            bench.release()
            await bench.settle()
            assert bench.published[-1] == ["a", PCI]

            bench.attach(here, restored=True)
            await bench.settle(RECORDS_S)
            assert bench.published[-1] == [PCI]

    finish(scenario())


def test_vanished_hardware_is_published_until_its_claim_is_released(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            bench.allocate(await bench.device(PCI))
            bench.host.take_link("eth1")
            await bench.settle()
            bench.host.remove_function(PF)
            await bench.settle()
            assert bench.taints() == {PCI: VANISHED}
            assert bench.notices[-1] == DeviceUnhealthy(PCI, VANISHED)
            assert (await bench.health())[PCI] is False

            bench.release()
            await bench.settle(RECORDS_S)
            assert bench.published[-1] == ["a"]

    finish(scenario())


def test_device_attached_during_a_scan_stays_published(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            here = await bench.device("a")
            bench.host.take_link("a")
            await bench.begin_scan()
            bench.allocate(here)
            await bench.end_scan()

            assert bench.published[-1] == ["a", PCI]

    finish(scenario())


def test_device_whose_attach_fails_during_a_scan_is_unhealthy_after_it(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            here = await bench.device(PCI)
            bench.attach(here)
            bench.host.take_link("a")
            await bench.begin_scan()
            bench.fail(here)
            await bench.end_scan()

            assert (await bench.health())[PCI] is False

    finish(scenario())


def test_device_restored_during_a_scan_stays_published(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            bench.allocate(await bench.device("a"))
            bench.host.take_link("a")
            await bench.begin_scan()
            bench.host.add_nic("a")
            bench.release()
            await bench.end_scan()
            assert bench.published[-1] == ["a", PCI]

            await bench.settle()
            assert (await bench.health())["a"] is True

    finish(scenario())


def test_unreadable_record_withdraws_no_device(bench: Bench) -> None:
    async def scenario() -> None:
        async with bench.running():
            bench.allocate(await bench.device("a"))
            await bench.settle(RECORDS_S)
            record = bench.state.allocations / f"{CLAIM.uid}.json"
            staged = record.with_name(".staged")
            staged.write_bytes(record.read_bytes())
            with no_descriptors():
                staged.rename(record)
                bench.host.take_link("a")
                await bench.clock.until_asleep(DEBOUNCE_S)
                bench.clock.pass_time(DEBOUNCE_S)
                await bench.clock.until_asleep(FIRST_PAUSE_S)

            (failed,) = bench.notices_of(ScanFailed)
            assert str(failed.error) == "c1.json: cannot be read: Too many open files"
            assert bench.published[-1] == ["a", PCI]

            await bench.rest(FIRST_PAUSE_S)
            assert bench.published[-1] == ["a", PCI]
            assert (await bench.health())["a"] is None

    finish(scenario())
