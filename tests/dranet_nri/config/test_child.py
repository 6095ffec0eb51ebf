"""Documents of children."""

from dranet_nri.config.child import child_to_object
from dranet_nri.model import IpoibConfig, VlanConfig


def test_a_vlan_has_its_number() -> None:
    assert child_to_object(VlanConfig(7)) == {"type": "VLAN", "vlan": {"id": 7}}


def test_a_child_of_defaults_is_its_type() -> None:
    assert child_to_object(IpoibConfig()) == {"type": "IPoIB"}
