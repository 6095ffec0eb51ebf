"""Device files of RDMA devices: selection for containers, and updates from the kernel."""

from dataclasses import replace

import pytest

from dranet_nri.attach.rdma import NETWORK, NO_GID_WARNING, RECREATE_TIMEOUT_S, RdmaOptions
from dranet_nri.config import SHARED_MODE_WARNING
from dranet_nri.errors import AttachError
from dranet_nri.model import (
    CharKind,
    Device,
    InterfaceConfig,
    NetworkConfig,
    Phase,
    RdmaConfig,
    RdmaMode,
)
from dranet_nri.plan.ops import AddAddress
from tests.dranet_nri.attach.execution.node import (
    CLAIMS,
    DATA,
    DUAL,
    RDMA_ONLY,
    Node,
    attached,
    claim,
    failure_of,
    given,
    pci,
    refusal,
)
from tests.fakes.rdma import RDMA_CM

pytestmark = pytest.mark.process


@pytest.fixture
def node() -> Node:
    """Return a node whose RDMA devices belong to one namespace each."""
    return Node()


# --------------------------------------------------------------------------- which


def test_device_files_are_chosen_by_the_claim_or_else_by_the_operator(node: Node) -> None:
    node.kernel.rdma.kinds = ("uverbs", "umad", "issm", "rdma_cm")
    node.options = RdmaOptions(kinds=(CharKind.UMAD,))
    node.restart()
    chosen = NetworkConfig(rdma=RdmaConfig(char_devices=(CharKind.UVERBS, CharKind.ISSM)))

    (record,) = node.attach((claim(DATA, given(pci(1), chosen), given(pci(2))),))

    files = [[file.path for file in device.char_devices] for device in record.devices]
    assert files == [
        ["/dev/infiniband/issm1", "/dev/infiniband/uverbs1"],
        ["/dev/infiniband/umad2"],
    ]


def test_claim_with_an_empty_list_of_files_gets_none_and_no_warning(node: Node) -> None:
    node.kernel.rdma.kinds = ()

    record = attached(node, given(pci(2), NetworkConfig(rdma=RdmaConfig(char_devices=()))))

    assert (record.char_devices, record.warnings) == ((), ())
    assert record.rdma, "it moves all the same"


def test_missing_file_kinds_are_reported_with_the_kernel_module(node: Node) -> None:
    node.kernel.rdma.kinds = ("uverbs",)

    record = attached(node, given(pci(2)))

    assert [file.path for file in record.char_devices] == ["/dev/infiniband/uverbs2"]
    assert record.warnings == (
        "mlx5_2: no device file of kind rdma_cm (load module rdma_ucm); the containers go without",
    )


@pytest.mark.parametrize("mode", RdmaMode)
@pytest.mark.parametrize("kinds", [(), ("rdma_cm",), ("umad", "rdma_cm")])
def test_rdma_device_without_a_uverbs_file_is_refused(
    node: Node, mode: RdmaMode, kinds: tuple[str, ...]
) -> None:
    node.kernel.rdma.mode, node.kernel.rdma.kinds = mode, kinds
    before = node.host(), node.rdma()

    with pytest.raises(AttachError) as caught:
        attached(node, given(pci(2)))
    message = str(caught.value)

    assert "RDMA device mlx5_2 has no uverbs file" in message
    assert "load module ib_uverbs on the node" in message
    assert (node.host(), node.rdma()) == before, "the attach is undone"


def test_claim_without_uverbs_gets_the_available_files(node: Node) -> None:
    node.kernel.rdma.kinds = ("umad",)
    config = NetworkConfig(rdma=RdmaConfig(char_devices=(CharKind.UMAD,)))

    record = attached(node, given(pci(2), config))

    assert [file.path for file in record.char_devices] == ["/dev/infiniband/umad2"]


def test_device_with_two_rdma_devices_gets_the_files_of_both_once(node: Node) -> None:
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
def test_changed_device_numbers_are_recorded(node: Node, mode: RdmaMode) -> None:
    node.kernel.rdma.mode = mode
    data, _ = node.attach()
    for device in node.kernel.rdma.devices:
        device.slot += 10

    verified = node.executor.verify(data, CLAIMS[0])

    assert verified == node.journal.records[DATA]
    files = [[file.minor for file in device.char_devices] for device in verified.devices]
    assert files == [[122, 203], [122, 204]]
    assert verified.devices[0].warnings == data.devices[0].warnings
    written = len(node.journal.history)
    assert node.executor.verify(verified, CLAIMS[0]) == verified
    assert len(node.journal.history) == written


def test_module_loaded_later_removes_the_warning(node: Node) -> None:
    node.kernel.rdma.kinds = ("uverbs",)
    attached(node, given(pci(2)))
    node.kernel.rdma.kinds = ("uverbs", "rdma_cm")

    verified = node.executor.verify(node.journal.records[DATA], claim(DATA, given(pci(2))))

    assert verified is not None
    assert verified.devices[0].warnings == ()
    assert RDMA_CM in verified.devices[0].char_devices


def test_device_files_are_kept_without_an_allocation(node: Node) -> None:
    data, _ = node.attach()
    node.kernel.rdma.devices[1].slot += 10

    assert node.executor.verify(data, None) == data


@pytest.mark.parametrize("later", [RdmaMode.EXCLUSIVE, None])
def test_shared_device_without_resolvable_files_fails_the_verification(
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


def test_verify_detects_an_rdma_device_that_left_the_pod(node: Node) -> None:
    attached(node, given(RDMA_ONLY))
    before = node.journal.records[DATA]
    node.kernel.rdma.remove("mlx5_9")

    assert node.executor.verify(before, claim(DATA, given(RDMA_ONLY))) is None
    assert node.journal.records[DATA] == before


# --------------------------------------------------------------------------- that end with a move


@pytest.fixture
def tied() -> Node:
    """Return a node that shares RDMA devices, whose driver ends mlx5_2 when eth2 moves."""
    node = Node()
    node.kernel.rdma.mode = RdmaMode.SHARED
    (device,) = (device for device in node.kernel.rdma.devices if device.link.name == "mlx5_2")
    device.ends = True
    return node


def test_rdma_device_recreated_by_the_nic_move_gives_its_new_files(
    tied: Node,
) -> None:
    slept: list[float] = []

    def wait(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            tied.kernel.add_rdma("bnxt_re5", parent=pci(2).key.parent)

    tied.clock.on_sleep = wait
    tied.kernel.add_rdma("other", parent="0000:77:00.0")  # it has the next number

    record = attached(tied, given(pci(2)))

    (made,) = (device for device in tied.kernel.rdma.devices if device.link.name == "bnxt_re5")
    assert (len(slept), record.shared_rdma) == (3, ("bnxt_re5",))
    assert [device.minor for device in record.char_devices] == [RDMA_CM.minor, 192 + made.slot]
    assert record.warnings == (SHARED_MODE_WARNING,)


def test_rdma_device_removed_by_the_nic_move_fails_the_attach_after_a_second(tied: Node) -> None:
    slept: list[float] = []
    tied.clock.on_sleep = slept.append
    tied.rdma_at_start -= {"mlx5_2"}

    with pytest.raises(AttachError, match="find RDMA device mlx5_2: ENODEV") as caught:
        attached(tied, given(pci(1)), given(pci(2)))

    assert "removed it when the interface changed namespace; let pods share" in str(caught.value)
    assert "rdma link add" in failure_of(tied).message
    assert sum(slept) == pytest.approx(RECREATE_TIMEOUT_S)
    assert tied.journal.phases() == {DATA: Phase.FAILED}
    tied.assert_restored()


def test_attach_does_not_wait_while_all_shared_devices_are_present(tied: Node) -> None:
    slept: list[float] = []
    tied.clock.on_sleep = slept.append
    share = replace(given(pci(2)), share_id="5e0f")

    (record,) = tied.attach((claim(DATA, share, given(pci(1))),))

    assert slept == []
    assert [device.shared_rdma for device in record.devices] == [("mlx5_2",), ("mlx5_1",)]


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside hardware's"])
def test_nic_with_a_software_rdma_device_is_refused_before_the_move(
    tied: Node, *, beside: bool
) -> None:
    if not beside:
        tied.kernel.rdma.remove("mlx5_2")
    tied.kernel.add_rdma("rxe0", nic=pci(2).key.parent)
    published = replace(pci(2), rdma_devices=("rxe0",))
    tied.rdma_at_start = tied.rdma()

    message = refusal(tied, given(published))

    assert "RDMA device rxe0 is software (soft-RoCE, siw), and is deleted when" in message
    assert "interface eth2 moves to the pod; let pods share the device (dra-shim run" in message
    (record,) = tied.attach((claim(DATA, replace(given(published), share_id="5e0f")),))
    assert "rxe0" in record.devices[0].shared_rdma


def test_software_rdma_device_created_in_the_pod_does_not_refuse_the_nic(tied: Node) -> None:
    tied.kernel.fail_on(AddAddress, KeyboardInterrupt("gone"), times=1)
    tied.kernel.rdma.remove("mlx5_2")
    with pytest.raises(KeyboardInterrupt):
        attached(tied, given(replace(pci(2), rdma_devices=())))
    tied.restart()
    tied.kernel.add_rdma("rxe0", nic=pci(2).key.parent)  # in the pod, by its owner

    record = attached(tied, given(replace(pci(2), rdma_devices=("rxe0",))))

    assert record.shared_rdma == ("rxe0",)


# --------------------------------------------------------------------------- GIDs

ROCE = replace(pci(2), attributes=(("dra.net/rdmaProtocol", "roce"),))
LINK_LOCAL = ("169.254.7.7/16", "fe80::7/64")


@pytest.mark.parametrize(
    ("device", "addresses", "warned"),
    [
        pytest.param(ROCE, (), True, id="none"),
        pytest.param(ROCE, LINK_LOCAL, True, id="link-local ones"),
        pytest.param(ROCE, (*LINK_LOCAL, "10.7.7.7/24"), False, id="a routed one"),
        pytest.param(ROCE, None, False, id="those of the host"),
        pytest.param(pci(2), (), False, id="InfiniBand"),
    ],
)
def test_roce_without_a_routable_gid_is_reported_as_a_warning(
    node: Node, device: Device, addresses: tuple[str, ...] | None, *, warned: bool
) -> None:
    config = NetworkConfig(InterfaceConfig(addresses=addresses))

    record = attached(node, given(device, config))

    warning = f"{NETWORK}{NO_GID_WARNING}"
    assert (warning in record.warnings) == warned
    verified = node.executor.verify(node.journal.records[DATA], claim(DATA, given(device, config)))
    assert verified is not None
    assert (warning in verified.devices[0].warnings) == warned


def test_roce_without_device_files_has_no_gid_warning(node: Node) -> None:
    config = NetworkConfig(InterfaceConfig(addresses=()), rdma=RdmaConfig(char_devices=()))

    assert attached(node, given(ROCE, config)).warnings == ()
