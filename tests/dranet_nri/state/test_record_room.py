"""dranet_nri.state.record: size limits, and room for the result of a started attach."""

from dataclasses import replace
from functools import cache
from random import Random

import pytest

from dranet_nri.errors import InvalidValueError
from dranet_nri.model import AttachedDevice, Attachment, Failure, Phase, Route
from dranet_nri.state.record import MAX_RECORD, decode_attachment, encode_attachment
from tests.dranet_nri.state.examples import ATTACHMENT


def ip(rng: Random) -> str:
    """Return an IPv6 address of maximum length."""
    return ":".join(f"{rng.randrange(0x1000, 0x10000):x}" for _ in range(8))


def crowded(routes: int, phase: Phase = Phase.INTENT) -> Attachment:
    """Return an attachment with this many routes of maximum size on two NICs or more."""
    rng = Random(7)
    gateways = [ip(rng) for _ in range(4)]
    made = [
        Route(f"{ip(rng)}/128", gateway=rng.choice(gateways), table=1000, metric=number)
        for number in range(routes)
    ]
    device = replace(ATTACHMENT.devices[0], restored=False, share_id="")
    if phase is Phase.INTENT:  # and nothing was given to a pod before
        device = replace(device, mtu=0, char_devices=())
    assert device.snapshot is not None
    devices = tuple(
        replace(
            device,
            device=replace(device.device, name=f"nic-{first}"),
            snapshot=replace(device.snapshot, routes=tuple(made[first : first + 512])),
        )
        for first in range(0, routes, 512)
    )
    return replace(ATTACHMENT, phase=phase, devices=devices, failure=None)


@cache
def largest(phase: Phase) -> Attachment:
    """Return the attachment of the phase with the most routes that can be recorded."""
    fits, too_many = 400, 3000
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        try:
            encode_attachment(crowded(middle, phase))
            fits = middle
        except InvalidValueError:
            too_many = middle
    return crowded(fits, phase)


def test_attachment_of_512_ipv6_routes_per_nic_fits() -> None:
    attachment = crowded(1024)

    assert decode_attachment(encode_attachment(attachment)) == attachment


def ended(device: AttachedDevice) -> AttachedDevice:
    """Return the device with all that a result may add."""
    files = tuple(
        replace(file, path=f"/dev/infiniband/{kind}{number}", major=231, minor=number)
        for number, kind in enumerate(("uverbs", "umad", "issm"))
        for file in ATTACHMENT.devices[0].char_devices[:1]
    )
    addresses = tuple(f"2001:db8::{number:x}/64" for number in range(16))
    return replace(device, pod_index=99, char_devices=files, addresses=addresses)


def test_result_of_an_attach_that_could_be_started_fits_into_the_record() -> None:
    rng = Random(9)
    worst = "".join(chr(rng.randrange(0x10000, 0x14000)) for _ in range(2000))
    failure = Failure("NetworkDeviceAttachFailed", worst, 1_800_000_000, 7)
    intent, attached = largest(Phase.INTENT), largest(Phase.ATTACHED)
    result = replace(
        intent, phase=Phase.ATTACHED, devices=tuple(ended(device) for device in intent.devices)
    )
    for record in (
        result,
        replace(intent, failure=failure),
        replace(intent, phase=Phase.FAILED, failure=failure),
        replace(attached, failure=failure),
        replace(attached, phase=Phase.DETACHING, failure=failure),
    ):
        assert decode_attachment(encode_attachment(record)) == record


def test_earlier_failure_does_not_enlarge_the_limit_of_an_intent() -> None:
    above = crowded(len(routes_of(largest(Phase.INTENT))) + 1)
    failure = Failure("NetworkDeviceAttachFailed", "", 1_800_000_000)

    for intent in (above, replace(above, failure=failure)):
        with pytest.raises(InvalidValueError, match="of phase intent has at most 196608"):
            encode_attachment(intent)


def test_largest_attached_record_fits_as_an_intent() -> None:
    attached = largest(Phase.ATTACHED)

    assert encode_attachment(replace(attached, phase=Phase.INTENT))


def routes_of(attachment: Attachment) -> list[Route]:
    return [
        route
        for device in attachment.devices
        if device.snapshot
        for route in device.snapshot.routes
    ]


def test_attachment_above_256_kib_is_refused_in_every_phase() -> None:
    failure = Failure("NetworkDeviceDetachFailed", "x" * MAX_RECORD, 1_800_000_000)

    for phase in Phase:
        with pytest.raises(InvalidValueError, match=r"2[67]\d{4} bytes.*; claim fewer devices"):
            encode_attachment(replace(ATTACHMENT, phase=phase, failure=failure))
