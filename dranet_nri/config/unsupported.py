"""Fields of dranet's parameters that this version does not apply.

They are checked by dranet's rules first, so that the user gets every violation at once, and then
refused. A value that only states the default is accepted, because it changes nothing.
"""

from typing import Final

from dranet_nri.config.child import IPVLAN, PASSTHROUGH
from dranet_nri.config.json_cursor import Fields, Node, given

REFUSED_TOP: Final = ("profile",)
REFUSED_INTERFACE: Final = ("dhcp", "disableEbpfPrograms", "addressing")

_NOT_SUPPORTED: Final = "not supported by this version; remove it"
_APPLIED: Final = ("Static", "Unnumbered")
_ADDRESSING: Final = ("Static", "DHCP", "Unnumbered")


def check_top(fields: Fields) -> None:
    """Check and refuse the fields beside `interface`."""
    if "profile" in fields:
        fields["profile"].text()
        fields["profile"].complain(_NOT_SUPPORTED)


def check_interface(node: Node, fields: Fields) -> None:
    """Check and refuse fields of `interface`, alone and together with others."""
    for name in ("dhcp", "disableEbpfPrograms"):
        if name in fields and fields[name].boolean():
            fields[name].complain(_NOT_SUPPORTED)
    addressing = _word(fields, "addressing", _ADDRESSING)
    _check_addressing(node, fields, addressing)


def _word(fields: Fields, name: str, words: tuple[str, ...]) -> str:
    """Return the word given, or the default, which is the first."""
    applied = [word for word in words if word in _APPLIED]
    word = given(fields, name, lambda node: node.word(applied, words))
    if word is None:
        return words[0]
    if word not in _APPLIED:
        fields[name].complain(_NOT_SUPPORTED)
    return word


def _check_addressing(node: Node, fields: Fields, addressing: str) -> None:
    kind = fields["type"].value if "type" in fields else PASSTHROUGH
    if addressing == "DHCP" and kind == IPVLAN:
        fields["addressing"].complain("DHCP is not possible with type IPVLAN; use Static")
    if addressing == "Unnumbered" and kind == PASSTHROUGH:
        fields["addressing"].complain("Unnumbered is only possible with a child, as type IPVLAN")
    dynamic = fields["dhcp"].value is True if "dhcp" in fields else False
    if dynamic and "addressing" in fields:
        node.complain("dhcp and addressing say the same; keep addressing")
    if addressing == "Unnumbered" and "addresses" in fields:
        node.complain("Unnumbered together with addresses is not possible; keep one")
    if (dynamic or addressing == "DHCP") and "addresses" in fields:
        node.complain("DHCP together with addresses is not possible; keep one")
