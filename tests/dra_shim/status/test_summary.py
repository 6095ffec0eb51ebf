"""What records come to, and when."""

from dataclasses import replace
from math import inf

import pytest

from dra_shim.status.conditions import device_statuses
from dra_shim.status.reasons import of_attachment
from dra_shim.status.summary import (
    DEPARTURE_S,
    GATHER_S,
    SLOW_S,
    ClaimRecords,
    StatusUpdate,
    status_update,
)
from dranet_nri.model import Attachment, Phase
from tests.dra_shim.status.records import NOW, OTHER_POD, attachment, failure, given, held, nic


def test_an_attached_claim_is_told_at_once() -> None:
    claim_records = ClaimRecords(given(), attachment())

    assert status_update(claim_records, 0.0, NOW) == StatusUpdate(
        device_statuses(given(), attachment()), (), GATHER_S, inf
    )


def test_a_failure_is_told_to_the_pod_as_well() -> None:
    record = attachment(phase=Phase.FAILED, failure=failure())

    found = status_update(ClaimRecords(given(), record), 0.0, NOW)

    assert found.devices == device_statuses(given(), record)
    assert found.occurrences == of_attachment(record, NOW)


@pytest.mark.parametrize(
    "record",
    [
        None,
        attachment(phase=Phase.INTENT),
        attachment(phase=Phase.DETACHING),
        replace(attachment(), pod=OTHER_POD),
    ],
)
def test_what_passes_by_itself_is_not_told_yet(record: Attachment | None) -> None:
    assert status_update(ClaimRecords(given(), record), SLOW_S - 1, NOW) == StatusUpdate(
        None, again_s=SLOW_S
    )


@pytest.mark.parametrize(
    ("record", "reasons"),
    [
        (None, ["NetworkDeviceAttachPending"]),
        (attachment(phase=Phase.INTENT), ["NetworkDeviceAttachDeferred"]),
        (attachment(phase=Phase.DETACHING), []),
        (replace(attachment(), pod=OTHER_POD), ["NetworkDeviceAttachPending"]),
    ],
)
def test_what_should_have_passed_is_told(record: Attachment | None, reasons: list[str]) -> None:
    found = status_update(ClaimRecords(given(), record), SLOW_S, NOW)

    assert found.devices == device_statuses(given(), record)
    assert [event.reason for event in found.occurrences] == reasons
    assert found.again_s == inf


def test_a_pod_that_ended_mostly_takes_its_claim_along() -> None:
    record = attachment(phase=Phase.HOME)

    found = status_update(ClaimRecords(given(), record), 0.0, NOW)

    assert (found.devices, found.delay_s) == (device_statuses(given(), record), DEPARTURE_S)


def test_a_claim_without_a_record_has_no_status_of_ours() -> None:
    assert status_update(ClaimRecords(), 0.0, NOW) == StatusUpdate((), (), DEPARTURE_S)


def test_what_keeps_a_device_from_home_is_told_without_an_allocation() -> None:
    record = attachment(phase=Phase.DETACHING, failure=failure("eth0: EBUSY", time=NOW - 60))

    found = status_update(ClaimRecords(None, record), 0.0, NOW)

    assert found.devices == ()
    assert [event.message for event in found.occurrences] == ["claim fast: eth0: EBUSY"]


def test_an_old_failure_is_no_news() -> None:
    warned = replace(held(nic()), warnings=("umad is missing",))
    record = attachment(warned, phase=Phase.FAILED, failure=failure(time=NOW - 3600))

    found = status_update(ClaimRecords(given(), record), 0.0, NOW)

    assert [event.reason for event in found.occurrences] == ["NetworkDeviceWarning"]


@pytest.mark.parametrize("record", [None, attachment(phase=Phase.HOME)])
def test_a_claim_that_a_pod_waits_for_in_vain_is_told_at_once(record: Attachment | None) -> None:
    found = status_update(ClaimRecords(given(), record, (OTHER_POD,)), 0.0, NOW)

    assert found.devices == device_statuses(given(), record, (OTHER_POD,))
    assert (found.occurrences, found.again_s) == ((), inf)


def test_only_what_has_a_record_and_nobody_in_vain_is_passing() -> None:
    assert ClaimRecords(given()).is_passing
    assert not ClaimRecords(given(), waiting=(OTHER_POD,)).is_passing
    assert not ClaimRecords(None, attachment()).is_passing
