"""How long the way home is tried, and how its tries are counted."""

import pytest

from dranet_nri.model import Failure
from dranet_nri.plan.patience import (
    DETACH_FAILED,
    MAX_MESSAGE,
    MAX_RESTORE_TRIES,
    RESTORE_FAILED,
    Return,
    is_patient,
    why_not_home,
)

NOW = 1_800_000_000
HOME = Return(home=True, usable=True)
GONE = Return(home=True, text="eth3 is no more")
AWAY = Return(home=False, text="move eth1: EBUSY")
WAITING = Return(home=False)
ROUTELESS = Return(home=False, text="add route: ENETUNREACH", usable=True)
GIVEN_BACK = Return(home=True, text="add route: ENETUNREACH; given back", usable=True)


@pytest.mark.parametrize(
    ("before", "patient"),
    [
        (None, True),
        (Failure(RESTORE_FAILED, "", NOW, MAX_RESTORE_TRIES - 1), True),
        (Failure(RESTORE_FAILED, "", NOW, MAX_RESTORE_TRIES), False),
        (Failure(DETACH_FAILED, "", NOW, MAX_RESTORE_TRIES), True),
        (Failure("NetworkDeviceAttachFailed", "", NOW, MAX_RESTORE_TRIES), True),
    ],
)
def test_patience_ends_after_tries_that_left_only_what_the_host_refuses(
    before: Failure | None, *, patient: bool
) -> None:
    assert is_patient(before) is patient


@pytest.mark.parametrize(
    ("returns", "reason"),
    [
        ((ROUTELESS,), RESTORE_FAILED),
        ((GIVEN_BACK,), RESTORE_FAILED),
        ((HOME, ROUTELESS), RESTORE_FAILED),
        ((AWAY,), DETACH_FAILED),
        ((AWAY, ROUTELESS), DETACH_FAILED),
        ((WAITING, ROUTELESS), DETACH_FAILED),
        ((GONE,), DETACH_FAILED),
    ],
)
def test_a_try_got_as_far_as_its_worst_device(returns: tuple[Return, ...], reason: str) -> None:
    failure = why_not_home(returns, None, NOW)

    assert failure is not None
    assert failure.reason == reason


@pytest.mark.parametrize("before", [None, Failure(DETACH_FAILED, "busy", 1, 4)])
def test_without_anything_to_tell_the_record_stays(before: Failure | None) -> None:
    assert why_not_home((HOME, WAITING), before, NOW) == before


@pytest.mark.parametrize(
    ("before", "count"),
    [(RESTORE_FAILED, 5), (DETACH_FAILED, 1), ("NetworkDeviceAttachFailed", 1)],
)
def test_another_reason_is_counted_anew(before: str, count: int) -> None:
    failure = why_not_home((ROUTELESS,), Failure(before, "", 1, 4), NOW)

    assert failure == Failure(RESTORE_FAILED, ROUTELESS.text, NOW, count)


def test_what_is_told_of_all_devices_fits_the_record() -> None:
    failure = why_not_home((AWAY, HOME, ROUTELESS), None, NOW)
    long = why_not_home((Return(home=False, text="x" * 3000),), None, NOW)

    assert failure is not None
    assert failure.message == f"{AWAY.text}; {ROUTELESS.text}"
    assert long is not None
    assert len(long.message) == MAX_MESSAGE
