"""Documents of children."""

from dranet_nri.config.child import child_to_object
from dranet_nri.model import IpoibConfig, VlanConfig


def test_vlan_is_encoded_with_its_id() -> None:
    assert child_to_object(VlanConfig(7)) == {"type": "VLAN", "vlan": {"id": 7}}


def test_child_with_defaults_is_encoded_as_its_type() -> None:
    assert child_to_object(IpoibConfig()) == {"type": "IPoIB"}
