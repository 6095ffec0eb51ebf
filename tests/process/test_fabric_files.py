"""Device files of RDMA devices: which of them containers get, and how they follow the kernel."""

import pytest

from dranet_nri.fabric import RdmaOptions
from dranet_nri.model import (
    CharKind,
    NetworkConfig,
    RdmaConfig,
    RdmaMode,
)
from tests.fakes.rdma import RDMA_CM
from tests.process.executor_node import (
    CLAIMS,
    DATA,
    DUAL,
    RDMA_ONLY,
    Node,
    attached,
    claim,
    given,
    pci,
)


@pytest.fixture
def node() -> Node:
    """Return a node whose RDMA devices belong to one namespace each."""
    return Node()


# --------------------------------------------------------------------------- which


def test_a_claim_chooses_its_files_and_the_operator_for_the_rest(node: Node) -> None:
    node.kernel.rdma.kinds = ("uverbs", "umad", "issm", "rdma_cm")
    node.options = RdmaOptions(kinds=(CharKind.UMAD,))
    node.restart()
    chosen = NetworkConfig(rdma=RdmaConfig(char_devices=(CharKind.UVERBS, CharKind.ISSM)))

    (record,) = node.attach((claim(DATA, given(pci(1), chosen), given(pci(2))),))

    files = [[file.path for file in each.char_devices] for each in record.devices]
    assert files == [
        ["/dev/infiniband/issm1", "/dev/infiniband/uverbs1"],
        ["/dev/infiniband/umad2"],
    ]


def test_a_claim_that_wants_no_files_gets_none_and_no_warning(node: Node) -> None:
    node.kernel.rdma.kinds = ()

    record = attached(node, given(pci(2), NetworkConfig(rdma=RdmaConfig(char_devices=()))))

    assert (record.char_devices, record.warnings) == ((), ())
    assert record.rdma, "it moves all the same"


def test_kinds_that_the_node_lacks_are_told_with_their_module(node: Node) -> None:
    node.kernel.rdma.kinds = ("uverbs",)

    record = attached(node, given(pci(2)))

    assert [file.path for file in record.char_devices] == ["/dev/infiniband/uverbs2"]
    assert record.warnings == (
        "mlx5_2: no device file of kind rdma_cm (load module rdma_ucm); the containers go without",
    )


def test_a_device_with_two_rdma_devices_has_the_files_of_both_once(node: Node) -> None:
    node.kernel.add_rdma("mlx5_20", parent="0000:02:00.0")

    record = attached(node, given(DUAL))

    assert [file.path for file in record.char_devices] == [
        "/dev/infiniband/rdma_cm",
        "/dev/infiniband/uverbs2",
        "/dev/infiniband/uverbs5",
    ]
    assert node.rdma(node.netns) == {"mlx5_2", "mlx5_20"}


# --------------------------------------------------------------------------- looking again


@pytest.mark.parametrize("mode", RdmaMode)
def test_other_numbers_are_recorded(node: Node, mode: RdmaMode) -> None:
    node.kernel.rdma.mode = mode
    data, _ = node.attach()
    for device in node.kernel.rdma.devices:
        device.slot += 10

    seen = node.executor.verify(data, CLAIMS[0])

    assert seen == node.journal.records[DATA]
    files = [[file.minor for file in each.char_devices] for each in seen.devices]
    assert files == [[122, 203], [122, 204]]
    assert seen.devices[0].warnings == data.devices[0].warnings
    written = len(node.journal.history)
    assert node.executor.verify(seen, CLAIMS[0]) == seen
    assert len(node.journal.history) == written


def test_a_module_that_was_loaded_late_ends_the_warning(node: Node) -> None:
    node.kernel.rdma.kinds = ("uverbs",)
    attached(node, given(pci(2)))
    node.kernel.rdma.kinds = ("uverbs", "rdma_cm")

    seen = node.executor.verify(node.journal.records[DATA], claim(DATA, given(pci(2))))

    assert seen is not None
    assert seen.devices[0].warnings == ()
    assert RDMA_CM in seen.devices[0].char_devices


def test_without_an_allocation_files_stay_as_they_are(node: Node) -> None:
    data, _ = node.attach()
    node.kernel.rdma.devices[1].slot += 10

    assert node.executor.verify(data, None) == data


@pytest.mark.parametrize("later", [RdmaMode.EXCLUSIVE, None])
def test_a_shared_device_is_missed_once_nobody_can_tell_its_files(
    node: Node, later: RdmaMode | None
) -> None:
    node.kernel.rdma.mode = RdmaMode.SHARED
    attached(node, given(pci(2)))
    before, allocation = node.journal.records[DATA], claim(DATA, given(pci(2)))
    node.kernel.rdma.mode = later

    assert node.executor.verify(before, allocation) is None

    node.kernel.rdma.mode = RdmaMode.SHARED
    assert node.executor.verify(before, allocation) == before
    node.kernel.rdma.remove("mlx5_2")
    assert node.executor.verify(before, allocation) is None
    assert node.executor.verify(before, None) == before, "a claim that was released stays"


def test_a_device_that_left_its_pod_is_noticed(node: Node) -> None:
    attached(node, given(RDMA_ONLY))
    before = node.journal.records[DATA]
    node.kernel.rdma.remove("mlx5_9")

    assert node.executor.verify(before, claim(DATA, given(RDMA_ONLY))) is None
    assert node.journal.records[DATA] == before
