"""Messages and reasons in the Events of pods and claims."""

from dataclasses import replace

import pytest

from dra_shim.prepare.notices import (
    ClaimPrepared,
    ClaimUnprepared,
    Notice,
    OrphanRemoved,
    OrphanSearchFailed,
    PodSuperseded,
    PrepareFailed,
    UnprepareFailed,
)
from dra_shim.status.reasons import (
    MAX_MESSAGE,
    EventSpec,
    of_attachment,
    of_delay,
    of_notice,
)
from dranet_nri.model import Phase
from tests.dra_shim.status.records import (
    CLAIM,
    NOW,
    OTHER_POD,
    POD,
    attached_device,
    attachment,
    failure,
    given,
    hca,
    nic,
)


@pytest.mark.parametrize(
    ("notice", "event"),
    [
        (
            ClaimPrepared(CLAIM, POD, gated=False),
            EventSpec(
                "Pod",
                POD,
                "ClaimNotGated",
                "no container lists claim fast in resources.claims, or a request of it is listed"
                " by none, so none is held back until its devices are there; list the whole claim"
                " to be safe",
                int(NOW),
                once=True,
            ),
        ),
        (
            PrepareFailed(CLAIM, "device nic-0: this node\nhas no such device"),
            EventSpec(
                "ResourceClaim",
                CLAIM,
                "ClaimPrepareFailed",
                "device nic-0: this node has no such device",
                int(NOW),
            ),
        ),
        (
            UnprepareFailed(CLAIM, "No space left on device"),
            EventSpec(
                "ResourceClaim",
                CLAIM,
                "ClaimUnprepareFailed",
                "No space left on device",
                int(NOW),
            ),
        ),
        (
            OrphanRemoved(CLAIM, POD, "the claim does not exist any more"),
            EventSpec(
                "ResourceClaim",
                CLAIM,
                "ClaimRecordDropped",
                "the node's record of it for pod ai/train was dropped: the claim does not exist"
                " any more",
                int(NOW),
                warning=False,
            ),
        ),
    ],
)
def test_notices_of_prepare_are_posted(notice: Notice, event: EventSpec) -> None:
    assert of_notice(notice, NOW + 0.7) == (event,)


@pytest.mark.parametrize(
    "notice",
    [
        ClaimPrepared(CLAIM, POD, gated=True),
        ClaimUnprepared(CLAIM),
        OrphanSearchFailed(ValueError("x")),
        PodSuperseded(CLAIM, POD, ()),
    ],
)
def test_normal_state_has_no_event(notice: Notice) -> None:
    assert of_notice(notice, NOW) == ()


def test_blocked_pods_get_events_with_a_remedy() -> None:
    third = replace(OTHER_POD, name="third", uid="pod-3")

    event = of_notice(PodSuperseded(CLAIM, POD, (OTHER_POD, third)), NOW)

    text = (
        "claim fast: was prepared for pod ai/train, which has ended, and the kubelet does not"
        " prepare it for this pod, so that pod never gets the devices; delete it, its controller"
        " creates a new one; if that one gets this Event too, scale the controller to 0 until no"
        " pod has the claim"
    )
    assert event == tuple(
        EventSpec("Pod", pod, "ClaimInUseByEndedPod", text, int(NOW), once=True)
        for pod in (OTHER_POD, third)
    )


def test_failure_event_has_its_time_and_warnings_are_posted_once() -> None:
    warned = replace(attached_device(nic()), warnings=("umad is missing",))
    shared = replace(attached_device(hca(), ""), warnings=("nothing is isolated",))
    record = attachment(warned, shared, phase=Phase.FAILED, failure=failure(time=NOW - 9))

    assert of_attachment(record, NOW) == (
        EventSpec(
            "Pod",
            POD,
            "NetworkDeviceAttachFailed",
            "claim fast: eth0: MTU 9000 is above 1500",
            int(NOW) - 9,
        ),
        EventSpec("Pod", POD, "NetworkDeviceWarning", "net1: umad is missing", int(NOW), once=True),
        EventSpec(
            "Pod", POD, "NetworkDeviceWarning", "hca-0: nothing is isolated", int(NOW), once=True
        ),
    )


def test_unknown_failure_reason_is_kept() -> None:
    record = attachment(phase=Phase.FAILED, failure=failure("new text", reason="NewReason"))

    (posted,) = of_attachment(record, NOW)

    assert (posted.kind, posted.reason, posted.message, posted.once, posted.warning) == (
        *("Pod", "NewReason", "claim fast: new text"),
        *(False, True),
    )


def test_healthy_pod_has_no_events() -> None:
    assert of_attachment(attachment(), NOW) == ()


def test_waiting_pod_gets_an_event_with_the_reason() -> None:
    (event,) = of_delay(given(), None, NOW)

    assert (event.subject, event.reason, event.once) == (POD, "NetworkDeviceAttachPending", True)
    assert event.message.startswith("claim fast: not attached yet: the sandbox of pod ai/train")


def test_messages_fit_the_limit_of_events() -> None:
    (event,) = of_attachment(attachment(failure=failure("ä" * 2000)), NOW)

    assert len(event.message.encode()) <= MAX_MESSAGE
    assert event.message.endswith("ä...")
