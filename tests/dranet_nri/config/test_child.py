"""Documents of children."""

import pytest

from dranet_nri.config import network_config_to_object
from dranet_nri.config.child import child_to_object
from dranet_nri.model import (
    ChildFlag,
    InterfaceConfig,
    IpoibConfig,
    IpvlanConfig,
    IpvlanMode,
    MacvlanConfig,
    NetworkConfig,
    VlanConfig,
)


@pytest.mark.parametrize(
    ("interface", "document"),
    [
        (InterfaceConfig(vlan=VlanConfig(7)), {"type": "VLAN", "vlan": {"id": 7}}),
        (
            InterfaceConfig(ipvlan=IpvlanConfig(IpvlanMode.L3)),
            {"type": "IPVLAN", "ipvlan": {"mode": "L3"}},
        ),
        (
            InterfaceConfig(macvlan=MacvlanConfig(ChildFlag.PRIVATE)),
            {"type": "MACVLAN", "macvlan": {"mode": "Private"}},
        ),
    ],
    ids=["VLAN", "IPVLAN", "MACVLAN"],
)
def test_child_is_encoded_without_its_defaults(
    interface: InterfaceConfig, document: dict[str, object]
) -> None:
    assert network_config_to_object(NetworkConfig(interface=interface)) == {"interface": document}


def test_child_with_defaults_is_encoded_as_its_type() -> None:
    assert child_to_object(IpoibConfig()) == {"type": "IPoIB"}
