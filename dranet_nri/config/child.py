"""Parser of `interface.type` and its blocks: the child link of a device that stays on the host."""

from typing import Final

from dranet_nri.config.fields import IPVLAN_FIELDS, MACVLAN_FIELDS, VLAN_FIELDS
from dranet_nri.config.json_cursor import Fields, Node, given, without_blank
from dranet_nri.config.rdma import IPOIB, read_ipoib
from dranet_nri.model import (
    ChildConfig,
    ChildFlag,
    InterfaceConfig,
    IpvlanConfig,
    IpvlanMode,
    MacvlanConfig,
    VlanConfig,
    VlanProtocol,
)

PASSTHROUGH: Final = "Passthrough"
IPVLAN: Final = IpvlanConfig.kind
MACVLAN: Final = MacvlanConfig.kind
VLAN: Final = VlanConfig.kind
TYPES: Final = (PASSTHROUGH, IPVLAN, MACVLAN, VLAN, IPOIB)
BLOCKS: Final = {"ipoib": IPOIB, "ipvlan": IPVLAN, "macvlan": MACVLAN, "vlan": VLAN}

_DEFAULTS: Final = (IpvlanMode.L2, ChildFlag.BRIDGE, VlanProtocol.CUSTOMER)
_MAX_VLAN: Final = 4094  # IEEE 802.1Q: 0 is no VLAN, and 4095 is reserved


def read_child(fields: Fields) -> InterfaceConfig:
    """Return the configuration with only the child in the fields of `interface`."""
    kind = given(fields, "type", lambda found: found.word(TYPES)) or PASSTHROUGH
    if kind == IPVLAN and "hardwareAddr" in fields:
        rule = "not possible with type IPVLAN, which has the address of its parent; remove it"
        fields["hardwareAddr"].report(rule)
    if kind == VLAN and "vlan" not in fields:
        fields["type"].report_missing("needs vlan.id; add it")
    for name, owner in BLOCKS.items():
        _check_block(fields, name, owner)
    ipvlan = given(fields, "ipvlan", _ipvlan) or IpvlanConfig()
    macvlan = given(fields, "macvlan", _macvlan) or MacvlanConfig()
    vlan = given(fields, "vlan", _vlan)
    return InterfaceConfig(
        ipoib=read_ipoib(fields),
        ipvlan=ipvlan if kind == IPVLAN else None,
        macvlan=macvlan if kind == MACVLAN else None,
        vlan=vlan if kind == VLAN else None,
    )


def child_to_object(child: ChildConfig) -> dict[str, object]:
    """Return the type of a child other than IPoIB, and its block without defaults."""
    pairs: dict[str, object] = {}
    match child:
        case IpvlanConfig(mode, flag):
            pairs = {"mode": mode, "flag": flag}
        case MacvlanConfig(flag):
            pairs = {"mode": flag}
        case VlanConfig(number, protocol):
            pairs = {"id": number, "protocol": protocol}
    block = {
        name: value if isinstance(value, int) else str(value)
        for name, value in pairs.items()
        if value not in _DEFAULTS
    }
    return {"type": child.kind} | ({child.kind.lower(): block} if block else {})


def _check_block(fields: Fields, block: str, owner: str) -> None:
    """Report a block whose type is not `owner`."""
    if block not in fields:
        return
    rule = f"only possible with type {owner}; set it, or remove this"
    if "type" not in fields:
        fields[block].report_missing(rule)
    elif fields["type"].value != owner:
        fields[block].report(rule)


def _ipvlan(node: Node) -> IpvlanConfig:
    fields = without_blank(node.fields(IPVLAN_FIELDS), "mode", "flag")
    mode = given(fields, "mode", lambda found: found.word(tuple(IpvlanMode)))
    flag = given(fields, "flag", lambda found: found.word(tuple(ChildFlag)))
    return IpvlanConfig(IpvlanMode(mode or IpvlanMode.L2), ChildFlag(flag or ChildFlag.BRIDGE))


def _macvlan(node: Node) -> MacvlanConfig:
    fields = without_blank(node.fields(MACVLAN_FIELDS), "mode")
    mode = given(fields, "mode", lambda found: found.word(tuple(ChildFlag)))
    return MacvlanConfig(ChildFlag(mode or ChildFlag.BRIDGE))


def _vlan(node: Node) -> VlanConfig | None:
    fields = without_blank(node.fields(VLAN_FIELDS), "protocol")
    if "id" not in fields:
        node.report_missing("needs id; add it")
    number = given(fields, "id", lambda found: found.integer(1, _MAX_VLAN))
    word = given(fields, "protocol", lambda found: found.word(tuple(VlanProtocol)))
    return VlanConfig(number or 1, VlanProtocol(word or VlanProtocol.CUSTOMER))
