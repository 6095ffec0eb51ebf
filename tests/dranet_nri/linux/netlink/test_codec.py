"""Decoding of malformed netlink messages."""

from errno import EBADMSG

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.kernel.messages import LinkMessage, NeighbourMessage, RuleMessage
from dranet_nri.linux.netlink.codec import (
    ATTRIBUTE,
    MAX_CACHED,
    address,
    attribute,
    attributes,
    encode,
    u8,
    u32,
    u64,
)


def test_attribute_longer_than_the_message_ends_the_parsing() -> None:
    data = attribute(1, b"a") + ATTRIBUTE.pack(9, 2) + b"cut."

    assert attributes(data) == {1: b"a"}


def test_last_attribute_without_padding_is_parsed() -> None:
    assert attributes(ATTRIBUTE.pack(5, 2) + b"a") == {2: b"a"}


def test_attribute_shorter_than_its_header_ends_the_parsing() -> None:
    assert attributes(attribute(1, b"a") + ATTRIBUTE.pack(3, 2) + bytes(8)) == {1: b"a"}


def test_absent_numbers_are_zero() -> None:
    assert (u8(None), u32(None), u32(None, 7), u64(None)) == (0, 0, 7, 0)


def test_short_numbers_are_kernel_errors() -> None:
    with pytest.raises(KernelError, match="0 bytes, not 1") as empty:
        u8(b"")
    with pytest.raises(KernelError, match="3 bytes, not 4"):
        u32(bytes(3))
    with pytest.raises(KernelError, match="7 bytes, not 8"):
        u64(bytes(7))

    assert empty.value.code == EBADMSG


@pytest.mark.parametrize("size", [0, 3, 5, 15, 17])
def test_addresses_of_unknown_length_are_kernel_errors(size: int) -> None:
    with pytest.raises(KernelError, match=f"address of {size} bytes"):
        address(bytes(size))


def test_different_requests_are_encoded_differently() -> None:
    v4 = {"family": 2, "dst_len": 24, "table": 5}
    observed = {
        encode(RuleMessage, v4, [("FRA_DST", "10.1.0.5")]),
        encode(RuleMessage, v4, [("FRA_DST", "10.1.0.6")]),
        encode(RuleMessage, v4, [("FRA_SRC", "10.1.0.5")]),
        encode(RuleMessage, v4 | {"table": 6}, [("FRA_DST", "10.1.0.5")]),
        encode(RuleMessage, v4, [("FRA_TABLE", 1), ("FRA_DST", "10.1.0.5")]),
        encode(RuleMessage, v4, [("FRA_DST", "10.1.0.5"), ("FRA_TABLE", 1)]),
    }
    assert len(observed) == 6
    assert encode(RuleMessage, {"family": 2}, []) != encode(LinkMessage, {"family": 2}, [])


def test_cached_request_is_encoded_as_without_the_cache() -> None:
    def request(index: int) -> bytes:
        return encode(NeighbourMessage, {"family": 2, "ifindex": index}, [("NDA_DST", "10.1.0.5")])

    first = request(1)
    assert first[4:8] == (1).to_bytes(4, "little")
    assert request(1) == first
    for index in range(2, MAX_CACHED + 3):
        request(index)
    assert request(1) == first
