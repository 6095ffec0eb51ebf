"""Status updates derived from records, and their time."""

from dataclasses import replace
from math import inf

import pytest

from dra_shim.status.conditions import device_statuses
from dra_shim.status.reasons import of_attachment
from dra_shim.status.summary import (
    DEBOUNCE_S,
    ENDED_DELAY_S,
    SLOW_S,
    ClaimRecords,
    StatusUpdate,
    status_update,
)
from dranet_nri.model import Attachment, Phase
from tests.dra_shim.status.records import (
    NOW,
    OTHER_POD,
    attached_device,
    attachment,
    failure,
    given,
    nic,
)


def test_attached_claim_is_reported_at_once() -> None:
    claim_records = ClaimRecords(given(), attachment())

    assert status_update(claim_records, 0.0, NOW) == StatusUpdate(
        device_statuses(given(), attachment()), (), DEBOUNCE_S, inf
    )


def test_failure_is_reported_to_the_pod() -> None:
    record = attachment(phase=Phase.FAILED, failure=failure())

    found = status_update(ClaimRecords(given(), record), 0.0, NOW)

    assert found.devices == device_statuses(given(), record)
    assert found.events == of_attachment(record, NOW)


@pytest.mark.parametrize(
    "record",
    [
        None,
        attachment(phase=Phase.INTENT),
        attachment(phase=Phase.DETACHING),
        replace(attachment(), pod=OTHER_POD),
    ],
)
def test_transient_state_is_not_reported_yet(record: Attachment | None) -> None:
    assert status_update(ClaimRecords(given(), record), SLOW_S - 1, NOW) == StatusUpdate(
        None, recheck_s=SLOW_S
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
def test_overdue_transient_state_is_reported(record: Attachment | None, reasons: list[str]) -> None:
    found = status_update(ClaimRecords(given(), record), SLOW_S, NOW)

    assert found.devices == device_statuses(given(), record)
    assert [event.reason for event in found.events] == reasons
    assert found.recheck_s == inf


def test_status_of_an_ended_pod_waits_for_the_deletion_of_its_claim() -> None:
    record = attachment(phase=Phase.RESTORED)

    found = status_update(ClaimRecords(given(), record), 0.0, NOW)

    assert (found.devices, found.delay_s) == (device_statuses(given(), record), ENDED_DELAY_S)


def test_claim_without_a_record_has_no_status() -> None:
    assert status_update(ClaimRecords(), 0.0, NOW) == StatusUpdate((), (), ENDED_DELAY_S)


def test_failed_restore_is_reported_without_an_allocation() -> None:
    record = attachment(phase=Phase.DETACHING, failure=failure("eth0: EBUSY", time=NOW - 60))

    found = status_update(ClaimRecords(None, record), 0.0, NOW)

    assert found.devices == ()
    assert [event.message for event in found.events] == ["claim fast: eth0: EBUSY"]


def test_old_failure_is_not_reported_again() -> None:
    warned = replace(attached_device(nic()), warnings=("umad is missing",))
    record = attachment(warned, phase=Phase.FAILED, failure=failure(time=NOW - 3600))

    found = status_update(ClaimRecords(given(), record), 0.0, NOW)

    assert [event.reason for event in found.events] == ["NetworkDeviceWarning"]


@pytest.mark.parametrize("record", [None, attachment(phase=Phase.RESTORED)])
def test_blocked_claim_is_reported_at_once(record: Attachment | None) -> None:
    found = status_update(ClaimRecords(given(), record, (OTHER_POD,)), 0.0, NOW)

    assert found.devices == device_statuses(given(), record, (OTHER_POD,))
    assert (found.events, found.recheck_s) == ((), inf)


def test_only_unblocked_claims_with_a_record_are_transient() -> None:
    assert ClaimRecords(given()).in_transition
    assert not ClaimRecords(given(), waiting=(OTHER_POD,)).in_transition
    assert not ClaimRecords(None, attachment()).in_transition
