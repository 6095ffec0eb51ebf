"""Parsing of external values into types, or errors that name the value."""

import pytest

from dranet_nri.errors import InvalidValueError
from dranet_nri.model import ObjectRef, Pod, parse_pci_address, parse_uid


@pytest.mark.parametrize("text", ["0000:8a:00.0", "0000:8A:00.7", "10000:00:1f.6"])
def test_pci_address_is_kept_in_lower_case(text: str) -> None:
    assert parse_pci_address(text) == text.lower()


@pytest.mark.parametrize("text", ["", "8a:00.0", "0000:8a:00.8", "0000:8a:00.0/..", "eth0"])
def test_invalid_pci_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="must look like"):
        parse_pci_address(text)


@pytest.mark.parametrize("text", ["a", "9f2c-11", "x" * 128])
def test_valid_uid_is_accepted(text: str) -> None:
    assert parse_uid(text) == text


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "-a", "a b", "x" * 129, "a\n"])
def test_uid_unsafe_in_a_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="uid"):
        parse_uid(text)


def test_object_is_printed_as_namespace_and_name() -> None:
    assert str(ObjectRef("blue", "claim", "uid")) == "blue/claim"
    assert str(Pod("sandbox", "uid", "blue", "web")) == "blue/web"
