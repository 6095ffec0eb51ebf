"""Conditions of each device of a claim."""

from dataclasses import replace

import pytest

from dra_shim.status.conditions import (
    MAX_IPS,
    MAX_MESSAGE,
    Condition,
    DeviceStatus,
    NetworkData,
    device_statuses,
    failure_reason,
    in_transition,
)
from dranet_nri.config import SHARED_MODE_WARNING
from dranet_nri.model import (
    GATE_CLOSED,
    Addressing,
    AllocatedDevice,
    Allocation,
    Attachment,
    CharDevice,
    Failure,
    InterfaceConfig,
    IpoibConfig,
    NetworkConfig,
    Phase,
)
from tests.dra_shim.status.records import (
    OTHER_POD,
    attached_device,
    attachment,
    failure,
    given,
    hca,
    moved,
    nic,
    one,
)

SLAAC = NetworkConfig(InterfaceConfig(addressing=Addressing.SLAAC))
IPOIB = NetworkConfig(InterfaceConfig(ipoib=IpoibConfig()))


def status_of(allocation: Allocation, record: Attachment | None) -> DeviceStatus:
    (status,) = device_statuses(allocation, record)
    return status


def conditions_of(status: DeviceStatus) -> dict[str, tuple[bool, str]]:
    return {condition.type: (condition.true, condition.reason) for condition in status.conditions}


def test_nic_in_its_pod_is_ready() -> None:
    assert status_of(given(), attachment()) == DeviceStatus(
        "node-a",
        "nic-0",
        "",
        (
            Condition(
                "Ready", true=True, reason="NetworkDeviceReady", message="in pod ai/train as net1"
            ),
            Condition("NetworkReady", true=True, reason="NetworkReady"),
        ),
        NetworkData("net1", "02:00:00:00:00:05", ("10.1.0.5/24",)),
    )


def test_advertised_addresses_have_dranets_condition_type() -> None:
    allocation = given(*(replace(device, config=SLAAC) for device in given().devices))

    conditions = status_of(allocation, attachment()).conditions
    waiting = conditions_of(status_of(allocation, None))

    slaac = Condition("SLAACReady", true=True, reason="SLAACReady", message="10.1.0.5/24")
    assert slaac in conditions
    assert waiting["SLAACReady"] == (False, "NetworkDeviceAttachPending")


def test_nic_with_a_closed_gate_is_not_ready() -> None:
    shut = failure("its gate cannot be opened: no room", GATE_CLOSED)
    status = status_of(given(), attachment(failure=shut))

    assert conditions_of(status)["Ready"] == (False, "NetworkDeviceGateClosed")
    assert {condition.message for condition in status.conditions} == {shut.message}


def test_other_failures_do_not_make_an_attached_nic_unready() -> None:
    hung = failure("a look has not returned", "NetworkDeviceHung")

    assert conditions_of(status_of(given(), attachment(failure=hung)))["Ready"][0] is True


def test_moved_rdma_device_is_ready() -> None:
    record = attachment(moved(attached_device(nic()), "mlx5_0", "mlx5_1"))

    assert status_of(given(), record).conditions[2] == Condition(
        "RDMALinkReady", true=True, reason="RDMALinkReady", message="mlx5_0, mlx5_1"
    )


def test_renamed_rdma_device_has_its_new_name() -> None:
    record = attachment(replace(moved(attached_device(nic()), "mlx5_0"), rdma_name="hca0"))

    assert status_of(given(), record).conditions[2].message == "hca0"


def test_rdma_device_without_a_net_device_has_no_network_condition() -> None:
    status = status_of(given(one(hca())), attachment(moved(attached_device(hca(), ""), "mlx5_0")))

    assert conditions_of(status) == {
        "Ready": (True, "RDMAOnlyDeviceReady"),
        "RDMALinkReady": (True, "RDMALinkReady"),
    }
    assert status.network is None


@pytest.mark.parametrize(
    ("files", "given_to_it"),
    [
        ((CharDevice("/dev/infiniband/uverbs0", 231, 192),), "its device files"),
        ((), "nothing of it"),
    ],
)
def test_shared_device_stays_on_the_host(files: tuple[CharDevice, ...], given_to_it: str) -> None:
    record = attachment(replace(attached_device(nic(), ""), share_id="s-1", char_devices=files))

    status = status_of(given(one(nic(), "s-1")), record)

    assert status.key == ("node-a", "nic-0", "s-1")
    assert status.conditions == (
        Condition(
            "Ready",
            true=True,
            reason="RDMAOnlyDeviceReady",
            message=f"on the host, {given_to_it} in pod ai/train",
        ),
    )


def test_message_contains_warnings() -> None:
    record = attachment(replace(attached_device(nic()), warnings=("umad is missing", "x" * 3000)))

    message = status_of(given(), record).conditions[0].message

    assert message.startswith("in pod ai/train as net1; umad is missing; xxx")
    assert len(message) == MAX_MESSAGE


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.INTENT])
def test_failure_is_in_all_conditions(phase: Phase) -> None:
    with_rdma = nic("nic-0", "mlx5_0")
    record = attachment(attached_device(with_rdma), phase=phase, failure=failure())

    status = status_of(given(one(with_rdma)), record)

    assert conditions_of(status) == dict.fromkeys(
        ("Ready", "NetworkReady", "RDMALinkReady"), (False, "NetworkDeviceAttachFailed")
    )
    assert {condition.message for condition in status.conditions} == {
        "eth0: MTU 9000 is above 1500"
    }
    assert status.network is None


def test_rdma_failure_has_its_own_reason() -> None:
    record = attachment(attached_device(hca(), ""), phase=Phase.FAILED, failure=failure())

    assert conditions_of(status_of(given(one(hca())), record)) == dict.fromkeys(
        ("Ready", "RDMALinkReady"), (False, "RDMADeviceAttachFailed")
    )


@pytest.mark.parametrize(
    ("share", "config"), [("s-1", NetworkConfig()), ("s-1", IPOIB), ("", IPOIB)]
)
def test_rdma_devices_that_stay_on_the_host_are_not_pending(
    share: str, config: NetworkConfig
) -> None:
    allocation = given(replace(one(nic("nic-0", "mlx5_0"), share), config=config))

    assert "RDMALinkReady" not in conditions_of(status_of(allocation, None))


@pytest.mark.parametrize("phase", [Phase.INTENT, Phase.FAILED, Phase.DETACHING, Phase.RESTORED])
@pytest.mark.parametrize(
    ("warnings", "expected"),
    [((SHARED_MODE_WARNING,), False), (("umad is missing",), True)],
    ids=["shared", "exclusive"],
)
def test_rdma_devices_in_shared_mode_are_not_pending(
    phase: Phase,
    warnings: tuple[str, ...],
    expected: bool,  # noqa: FBT001
) -> None:
    device = nic("nic-0", "mlx5_0")
    record = attachment(
        replace(attached_device(device), warnings=warnings), phase=phase, failure=failure()
    )

    status = conditions_of(status_of(given(one(device)), record))

    assert status["NetworkReady"][0] is False
    assert (status.get("RDMALinkReady") == status["Ready"]) is expected


@pytest.mark.parametrize(
    ("reason", "copied"),
    [("NetworkDeviceHung", "NetworkDeviceHung"), ("what is this", "Unknown")],
)
def test_valid_reasons_are_copied(reason: str, copied: str) -> None:
    record = attachment(attached_device(hca(), ""), failure=failure(reason=reason))

    assert failure_reason(record) == copied


def test_no_failure_has_no_reason() -> None:
    assert failure_reason(attachment()) == ""


@pytest.mark.parametrize(
    ("share", "config", "types"),
    [
        ("", NetworkConfig(), ["Ready", "NetworkReady"]),
        ("s-1", NetworkConfig(), ["Ready"]),
        ("s-1", IPOIB, ["Ready", "NetworkReady"]),
    ],
)
def test_only_devices_of_the_pod_have_a_pending_network(
    share: str, config: NetworkConfig, types: list[str]
) -> None:
    allocation = given(replace(one(nic(), share), config=config))

    status = status_of(allocation, None)

    assert [condition.type for condition in status.conditions] == types
    assert {condition.reason for condition in status.conditions} == {"NetworkDeviceAttachPending"}
    assert "the sandbox of pod ai/train has not started" in status.conditions[0].message


def test_device_still_in_another_pod_is_pending() -> None:
    record = replace(attachment(moved(attached_device(nic()), "mlx5_0")), pod=OTHER_POD)

    status = status_of(given(), record)

    assert conditions_of(status)["Ready"] == (False, "NetworkDeviceAttachPending")
    assert "pod ai/gone has not released the devices" in status.conditions[0].message
    assert status.network is None


def test_running_attach_is_pending() -> None:
    status = status_of(given(), attachment(phase=Phase.INTENT))

    assert conditions_of(status)["Ready"] == (False, "NetworkDeviceAttachPending")
    assert "a kernel call has not returned" in status.conditions[0].message


def test_device_without_a_plugin_record_is_pending() -> None:
    first, second = device_statuses(given(one(nic("nic-0")), one(nic("nic-1"))), attachment())

    assert conditions_of(first)["Ready"] == (True, "NetworkDeviceReady")
    assert conditions_of(second)["Ready"] == (False, "NetworkDeviceAttachPending")


@pytest.mark.parametrize(
    ("cause", "reason", "message"),
    [
        (
            None,
            "NetworkDeviceDetaching",
            "pod ai/train has ended, the device is being restored on the host",
        ),
        (
            failure("eth0: EBUSY", "NetworkDeviceDetachFailed"),
            "NetworkDeviceDetachFailed",
            "eth0: EBUSY",
        ),
    ],
)
def test_detaching_device_is_not_ready(cause: Failure | None, reason: str, message: str) -> None:
    record = replace(attachment(phase=Phase.DETACHING), failure=cause)

    condition = status_of(given(), record).conditions[0]

    assert (condition.true, condition.reason, condition.message) == (False, reason, message)


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (None, "pod ai/train has ended, the device is back on the host"),
        (failure("no route"), "pod ai/train has ended, the device is back on the host; no route"),
    ],
)
def test_restored_device_is_not_ready(cause: Failure | None, message: str) -> None:
    record = replace(attachment(phase=Phase.RESTORED), failure=cause)

    condition = status_of(given(), record).conditions[0]

    assert (condition.reason, condition.message) == ("NetworkDeviceDetached", message)


def test_admin_access_device_is_always_ready() -> None:
    observed = replace(one(nic()), admin_access=True)

    status = status_of(given(observed), None)

    assert conditions_of(status) == {"Ready": (True, "AdminAccess")}


def test_device_with_two_results_is_listed_once() -> None:
    both = given(replace(one(nic()), admin_access=True), one(nic()))

    assert conditions_of(status_of(both, attachment()))["Ready"] == (
        True,
        "NetworkDeviceReady",
    )


def test_shares_of_a_device_are_listed_separately() -> None:
    allocation = given(one(nic(), "s-2"), one(nic(), "s-1"))
    record = attachment(attached_device(nic(), "net2"), attached_device(nic(), "net1"))

    found = device_statuses(allocation, record)

    assert [(device_status.share_id, device_status.network) for device_status in found] == [
        ("s-1", NetworkData("net1", "02:00:00:00:00:05", ("10.1.0.5/24",))),
        ("s-2", NetworkData("net2", "02:00:00:00:00:05", ("10.1.0.5/24",))),
    ]


def test_addresses_have_the_format_of_the_api() -> None:
    many = tuple(f"10.0.{index}.1/24" for index in range(20))
    unusual = ("2001:DB8:0:0:0:0:0:5/64", "2001:db8::5/64", "::ffff:10.0.0.1/120", *many)
    record = attachment(replace(attached_device(nic()), addresses=unusual, mac="0C:42:A1:00:00:01"))

    network = status_of(given(), record).network

    assert network == NetworkData(
        "net1", "0c:42:a1:00:00:01", ("2001:db8::5/64", *many[: MAX_IPS - 1])
    )


@pytest.mark.parametrize(
    ("record", "passing"),
    [
        (None, True),
        (attachment(), False),
        (attachment(phase=Phase.INTENT), True),
        (attachment(phase=Phase.INTENT, failure=failure()), False),
        (attachment(phase=Phase.FAILED, failure=failure()), False),
        (attachment(phase=Phase.DETACHING), True),
        (attachment(phase=Phase.DETACHING, failure=failure()), False),
        (attachment(phase=Phase.RESTORED), False),
        (replace(attachment(), pod=OTHER_POD), True),
    ],
)
def test_state_that_changes_by_itself_is_transient(
    record: Attachment | None,
    passing: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    assert in_transition(given(), record) is passing


def test_admin_access_claim_is_not_transient() -> None:
    observed = AllocatedDevice("nic", "node-a", nic(), admin_access=True)

    assert not in_transition(given(observed), None)


@pytest.mark.parametrize(
    ("record", "also"),
    [
        (None, ""),
        (attachment(phase=Phase.RESTORED), ""),
        (
            attachment(phase=Phase.RESTORED, failure=failure("MTU left at 9000")),
            "; MTU left at 9000",
        ),
    ],
)
def test_a_device_that_a_pod_waits_for_in_vain_is_not_called_back(
    record: Attachment | None, also: str
) -> None:
    third = replace(OTHER_POD, name="third", uid="pod-3")

    (status,) = device_statuses(given(), record, (OTHER_POD, third))

    assert conditions_of(status) == dict.fromkeys(
        ("Ready", "NetworkReady"), (False, "ClaimInUseByEndedPod")
    )
    assert {condition.message for condition in status.conditions} == {
        "was prepared for pod ai/train, which has ended, and the kubelet does not prepare it for"
        " pod ai/gone, ai/third, so that pod never gets the devices; delete it, its controller"
        " creates a new one; if that one gets this Event too, scale the controller to 0 until no"
        " pod has the claim" + also
    }
