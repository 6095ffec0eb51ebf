"""Values from outside become types at the door, or errors that name them."""

import pytest

from dranet_nri.errors import InvalidValueError
from dranet_nri.model import ObjectRef, Pod, parse_pci_address, parse_uid


@pytest.mark.parametrize("text", ["0000:8a:00.0", "0000:8A:00.7", "10000:00:1f.6"])
def test_a_pci_address_is_kept_in_lower_case(text: str) -> None:
    assert parse_pci_address(text) == text.lower()


@pytest.mark.parametrize("text", ["", "8a:00.0", "0000:8a:00.8", "0000:8a:00.0/..", "eth0"])
def test_what_is_no_pci_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidValueError, match="must look like"):
        parse_pci_address(text)


@pytest.mark.parametrize("text", ["a", "9f2c-11", "x" * 128])
def test_a_uid_may_name_a_file(text: str) -> None:
    assert parse_uid(text) == text


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "-a", "a b", "x" * 129, "a\n"])
def test_a_uid_that_a_path_could_abuse_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="uid"):
        parse_uid(text)


def test_objects_read_as_namespace_and_name() -> None:
    assert str(ObjectRef("blue", "claim", "uid")) == "blue/claim"
    assert str(Pod("sandbox", "uid", "blue", "web")) == "blue/web"
