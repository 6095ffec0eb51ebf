"""dranet_nri.state.packed: attachments that are too long for their file, and their limits."""

import json
import zlib
from base64 import b64encode
from dataclasses import replace
from random import Random

import pytest

from dranet_nri.errors import InvalidValueError, StateCorruptError, StateVersionError
from dranet_nri.model import AttachedDevice, Attachment, Failure, Phase, Route
from dranet_nri.state.packed import ENVELOPE, MAX_PACKED
from dranet_nri.state.record import (
    MAX_RECORD,
    VERSION,
    decode_allocation,
    decode_attachment,
    encode_attachment,
    salvage_devices,
    salvage_pod_uid,
)
from tests.state.examples import ATTACHMENT, POD_UID

LARGE = 1100  # routes, about 180 KiB


def ip(dice: Random) -> str:
    """Return an IPv6 address that no compression can guess."""
    return ":".join(f"{dice.randrange(0x1000, 0x10000):x}" for _ in range(8))


def crowded(routes: int, phase: Phase = Phase.INTENT) -> Attachment:
    """Return an attachment with so many routes of two NICs or more, as large as they get."""
    dice = Random(7)
    gateways = [ip(dice) for _ in range(4)]
    made = [
        Route(f"{ip(dice)}/128", gateway=dice.choice(gateways), table=1000, metric=number)
        for number in range(routes)
    ]
    device = replace(ATTACHMENT.devices[0], home=False, share_id="")
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


def test_an_attachment_that_is_too_long_for_its_file_comes_back_from_it() -> None:
    attachment = crowded(LARGE)

    data = encode_attachment(attachment)

    assert len(data) <= MAX_RECORD
    assert decode_attachment(data) == attachment


def test_512_ipv6_routes_of_a_nic_fit_beside_another_nics() -> None:
    attachment = crowded(1024)

    assert decode_attachment(encode_attachment(attachment)) == attachment


def test_a_reader_of_no_packed_records_refuses_it_and_can_keep_its_devices() -> None:
    attachment = crowded(LARGE)
    first, *others = attachment.devices
    shared = replace(first, share_id="5e0f")
    data = encode_attachment(replace(attachment, devices=(shared, *others)))

    with pytest.raises(StateVersionError, match="upgrade it"):
        decode_allocation(data)  # which is never packed
    assert json.loads(data)["version"] > VERSION
    assert salvage_pod_uid(data) == POD_UID
    assert salvage_devices(data) == (("nic-0", "5e0f"), ("nic-512", ""), ("nic-1024", ""))


def ended(device: AttachedDevice) -> AttachedDevice:
    """Return the device with all that a result may add."""
    files = tuple(
        replace(file, path=f"/dev/infiniband/{kind}{number}", major=231, minor=number)
        for number, kind in enumerate(("uverbs", "umad", "issm"))
        for file in ATTACHMENT.devices[0].char_devices[:1]
    )
    addresses = tuple(f"2001:db8::{number:x}/64" for number in range(16))
    return replace(device, pod_index=99, char_devices=files, addresses=addresses)


def test_what_can_be_begun_can_be_recorded_to_its_end_whatever_fails() -> None:
    dice = Random(9)
    worst = "".join(chr(dice.randrange(0x10000, 0x14000)) for _ in range(2000))
    failure = Failure("NetworkDeviceAttachFailed", worst, 1_800_000_000, 7)
    intent, attached = largest(Phase.INTENT), largest(Phase.ATTACHED)
    result = replace(
        intent, phase=Phase.ATTACHED, devices=tuple(ended(each) for each in intent.devices)
    )
    for record in (
        result,
        replace(intent, failure=failure),
        replace(intent, phase=Phase.FAILED, failure=failure),
        replace(attached, failure=failure),
        replace(attached, phase=Phase.DETACHING, failure=failure),
    ):
        assert decode_attachment(encode_attachment(record)) == record


def test_a_failure_from_before_makes_no_room_for_an_intent() -> None:
    above = crowded(len(routes_of(largest(Phase.INTENT))) + 1)
    failure = Failure("NetworkDeviceAttachFailed", "", 1_800_000_000)

    for intent in (above, replace(above, failure=failure)):
        with pytest.raises(InvalidValueError, match="packed; a record of phase intent has at most"):
            encode_attachment(intent)


def routes_of(attachment: Attachment) -> list[Route]:
    return [route for each in attachment.devices if each.snapshot for route in each.snapshot.routes]


def test_a_record_above_256_kib_is_refused_however_small_it_is_packed() -> None:
    failure = Failure("NetworkDeviceDetachFailed", "x" * MAX_PACKED, 1_800_000_000)

    with pytest.raises(InvalidValueError, match="at most 262144, 65536 packed; claim fewer"):
        encode_attachment(replace(ATTACHMENT, failure=failure))


def envelope(packed: object, version: int = ENVELOPE) -> bytes:
    return json.dumps({"version": version, "packed": packed}).encode()


def packed(data: bytes) -> str:
    return b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(envelope(7), r"^\$\.packed: ", id="no-text"),
        pytest.param(envelope("§"), r"^\$\.packed: ", id="no-ascii"),
        pytest.param(envelope("eJw="), "torn", id="torn"),
        pytest.param(envelope("AAAA"), r"^\$\.packed: Error -3", id="no-zlib"),
        pytest.param(envelope(packed(b"{}" + b" " * MAX_PACKED)), "above 262144", id="bomb"),
        pytest.param(
            envelope(b64encode(zlib.compress(b"{}") + b"x").decode()), "torn", id="more behind it"
        ),
        pytest.param(envelope(packed(b"[]")), "must be an object", id="no-object"),
    ],
)
def test_a_broken_envelope_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(StateCorruptError, match=text):
        decode_attachment(data)


@pytest.mark.parametrize(
    "data",
    [envelope(packed(b"{}"), ENVELOPE + 1), envelope(packed(envelope(packed(b"{}"))))],
    ids=["newer", "twice"],
)
def test_what_is_packed_in_another_way_is_of_a_newer_version(data: bytes) -> None:
    with pytest.raises(StateVersionError):
        decode_attachment(data)
