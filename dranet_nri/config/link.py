"""Parser of link settings in the pod: queue length, alternative names, IPv6, VRF.

Rules:
1. Values are those of the kernel's sysctls (Documentation/networking/ip-sysctl.rst).
2. A VRF has all routes of the interface, so `rules` are refused with it. Without `table`, its table
   is derived from its name, as in dranet.
"""

from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.config.fields import VRF_FIELDS
from dranet_nri.config.json_cursor import INT32, Fields, Node, distinct, given
from dranet_nri.config.scalars import parse_ifname
from dranet_nri.model import AddressMode, InterfaceConfig, VrfConfig, table_of

MIN_MTU_IPV6: Final = 1280  # RFC 8200; below it the kernel disables IPv6 on a link
_MAX_U32: Final = 2**32 - 1
_RESERVED_TABLES: Final = (253, 254, 255)  # default, main, local: linux/rtnetlink.h
_TRANSMITS: Final = 100  # with more, an address is tentative for minutes
_SECONDS: Final = 86400

# Field, minimum and maximum.
NUMBERS: Final = {
    "txQueueLen": (0, INT32[1]),
    "dadTransmits": (0, _TRANSMITS),
    "acceptRA": (0, 2),
    "routerSolicitations": (-1, INT32[1]),
    "routerSolicitationDelay": (0, _SECONDS),
    "routerSolicitationInterval": (0, _SECONDS),
    "routerSolicitationMaxInterval": (0, _SECONDS),
}
_IPV6: Final = NUMBERS.keys() - {"txQueueLen"} | {"addrGenMode"}


def read_link(fields: Fields, config: InterfaceConfig, *, has_rules: bool) -> InterfaceConfig:
    """Return the configuration with the settings of the fields of `interface`.

    Args:
        fields: fields of `interface`.
        config: what was read of them before.
        has_rules: whether the document has entries in `rules`.
    """
    numbers = {name: _number(fields, name) for name in NUMBERS}
    mtu = fields["mtu"].value if "mtu" in fields else None
    if isinstance(mtu, int) and mtu < MIN_MTU_IPV6:
        for field in _IPV6 & fields.keys():
            fields[field].report(f"needs mtu {MIN_MTU_IPV6} or more; raise it or remove one")
    disabled = given(fields, "disableIPv6", Node.boolean)
    if disabled and numbers["acceptRA"]:
        fields["acceptRA"].report("not possible with disableIPv6; remove one")
    vrf = given(fields, "vrf", _vrf)
    if has_rules and "vrf" in fields:
        fields["vrf"].report("rules together with vrf are not possible; remove one")
    altnames = given(fields, "altnames", _altnames)
    name = fields["name"].value if "name" in fields else None
    if vrf is not None and vrf.name in (name, *(altnames or ())):
        fields["vrf"].report("has a name of the interface; choose another name")
    return replace(
        config,
        tx_queue_len=numbers["txQueueLen"],
        altnames=altnames,
        disable_ipv6=disabled,
        addr_gen_mode=given(fields, "addrGenMode", _address_mode),
        dad_transmits=numbers["dadTransmits"],
        accept_ra=numbers["acceptRA"],
        router_solicitations=numbers["routerSolicitations"],
        router_solicitation_delay=numbers["routerSolicitationDelay"],
        router_solicitation_interval=numbers["routerSolicitationInterval"],
        router_solicitation_max_interval=numbers["routerSolicitationMaxInterval"],
        vrf=vrf,
    )


def _number(fields: Fields, name: str) -> int | None:
    low, high = NUMBERS[name]
    return given(fields, name, lambda found: found.integer(low, high))


def address_mode(value: object) -> AddressMode | None:
    """Return the mode of a word or, as in dranet, of a number; None for other values."""
    number = value if type(value) is int else None
    return next((mode for mode in AddressMode if value == mode or number == mode.number), None)


def _address_mode(node: Node) -> AddressMode | None:
    mode = address_mode(node.value)
    if mode is None:
        words = ", ".join(AddressMode)
        node.report(f"must be one of {words}, or 0, 1, 3; 2 needs a secret that no pod has")
    return mode


def _altnames(node: Node) -> tuple[str, ...]:
    return distinct(node.items(), lambda item: item.parsed(parse_ifname))


def _vrf(node: Node) -> VrfConfig | None:
    fields = node.fields(VRF_FIELDS)
    table = given(fields, "table", lambda found: found.integer(1, _MAX_U32))
    if table in _RESERVED_TABLES:
        fields["table"].report("253, 254 and 255 belong to the system; choose another")
    if "name" not in fields:
        node.report_missing("needs name; add it")
        return None
    if fields["name"].value == "":
        fields["name"].report("must not be empty")
        return None
    name = fields["name"].parsed(parse_ifname)
    return VrfConfig(name, table or table_of(name)) if name else None
