import pytest

from dranet_nri.inventory.names import (
    interface_device_name,
    pci_device_name,
    port_device_name,
)


def test_a_pci_function_is_named_after_its_address() -> None:
    assert pci_device_name("0000:8a:00.0") == "pci-0000-8a-00-0"


def test_a_further_port_adds_its_number() -> None:
    assert port_device_name("0000:8a:00.0", 1) == "pci-0000-8a-00-0-p1"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("eth0", "eth0"),
        ("a", "a"),
        ("eth:0", "net-mv2gqorq"),
        ("ETH0", "net-ivkeqma"),
        ("eth_int", "net-mv2gqx3jnz2a"),
        ("mlx5_6", "net-nvwhqnk7gy"),
        ("eth0-", "net-mv2gqmbn"),
        ("", ""),
    ],
)
def test_an_interface_keeps_its_name_if_it_is_a_label_and_is_encoded_otherwise(
    name: str, expected: str
) -> None:
    assert interface_device_name(name) == expected
