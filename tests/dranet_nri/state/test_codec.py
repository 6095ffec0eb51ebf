"""dranet_nri.state.json_codec: dataclasses to JSON values, beyond the tests of records."""

from dataclasses import replace

import pytest

from dranet_nri.errors import InvalidValueError
from dranet_nri.model import Device, Phase
from dranet_nri.state.json_codec import codec_of
from dranet_nri.state.record import decode_attachment, encode_attachment
from tests.dranet_nri.state.examples import ATTACHMENT, DEVICE


def test_type_unknown_to_records_is_refused_at_startup() -> None:
    with pytest.raises(TypeError, match="no record codec for <class 'float'>"):
        codec_of(float, {})


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param((("b", 1), ("a", 1)), id="unsorted"),
        pytest.param((("a", 1), ("a", 2)), id="twice"),
    ],
)
def test_unsorted_attributes_are_not_written(
    attributes: tuple[tuple[str, int], ...],
) -> None:
    device = replace(DEVICE, attributes=attributes)

    with pytest.raises(InvalidValueError, match=r"\$\.attributes: must be sorted by name"):
        codec_of(Device, {}).to_json(device)


def test_attribute_of_an_unsupported_type_is_not_written() -> None:
    device = replace(DEVICE, attributes=(("a", 1.5),))  # type: ignore[arg-type]

    with pytest.raises(InvalidValueError, match=r"\$\.attributes\.a: is float, must be bool"):
        codec_of(Device, {}).to_json(device)


def test_value_of_another_type_is_not_written() -> None:
    with pytest.raises(InvalidValueError, match=r"\$: is str, must be Device"):
        codec_of(Device, {}).to_json("eth0")


def test_changed_part_of_a_cached_value_is_encoded_again() -> None:
    first = encode_attachment(ATTACHMENT)
    device = replace(ATTACHMENT.devices[0], restored=True)
    restored = replace(ATTACHMENT, phase=Phase.RESTORED, devices=(device,))

    assert decode_attachment(encode_attachment(restored)) == restored
    assert encode_attachment(ATTACHMENT) == first


def test_values_beyond_the_cache_size_are_encoded_correctly() -> None:
    device = ATTACHMENT.devices[0]
    records = [
        replace(ATTACHMENT, devices=(replace(device, pod_index=number + 1),))
        for number in range(100)
    ]

    first = [encode_attachment(record) for record in records]

    assert [decode_attachment(data) for data in first] == records
    assert [encode_attachment(record) for record in records] == first


def test_invalid_value_is_refused_each_time() -> None:
    misfit = replace(ATTACHMENT, devices=(replace(ATTACHMENT.devices[0], mtu=-1),))

    for _ in range(2):
        with pytest.raises(InvalidValueError, match=r"\$\.devices\[0\]\.mtu"):
            encode_attachment(misfit)
