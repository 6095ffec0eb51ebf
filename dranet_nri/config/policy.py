"""`policy` of a DeviceClass: the parameters that claims of the class may set, and their values.

Rules:
1. Only the parameters of a class can have a policy. Each policy of the classes that apply to a
   request bounds each claim entry that applies to it, alone and before the merge.
2. The parameters of the class itself, of clouds and of profiles are not bounded.
3. A list (routes, rules, neighbors) is one field.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from dranet_nri.config.address_ranges import parse_address_or_range
from dranet_nri.config.fields import BLOCK_FIELDS, POLICY_FIELDS, TOP_FIELDS
from dranet_nri.config.json_cursor import Node, did_you_mean, given, show, without_blank
from dranet_nri.config.scalars import IpNetwork, parse_mac, parse_network
from dranet_nri.errors import InvalidValueError

POLICY: Final = "policy"
_LISTS: Final = ("routes", "rules", "neighbors")
_FEATURES: Final = ("ethtool.features.", "ethtool.privateFlags.")
_PREFIX: Final = re.compile("[0-9a-f]{2}(:[0-9a-f]{2}){0,19}")


@dataclass(frozen=True, slots=True)
class ClaimPolicy:
    """What claims may set; None does not bound it.

    Attributes:
        name: shown in the error of a claim.
        fields: paths of fields; one that has fields includes all of them.
        addresses: networks in which `interface.addresses` must lie.
        mac_prefixes: with which `interface.hardwareAddr` must begin, in lower case.
    """

    name: str = ""
    fields: tuple[str, ...] | None = None
    addresses: tuple[IpNetwork, ...] | None = None
    mac_prefixes: tuple[str, ...] | None = None


def read_policy(node: Node) -> ClaimPolicy:
    """Return the policy of the block."""
    fields = without_blank(node.fields(POLICY_FIELDS), "name")
    if "name" not in fields:
        node.report("needs name; add it")
    return ClaimPolicy(
        given(fields, "name", Node.text) or "",
        given(fields, "fields", lambda found: tuple(filter(None, map(_field, found.items())))),
        given(fields, "addresses", _networks),
        given(fields, "hardwareAddrs", _prefixes),
    )


def own_policy(parameters: Mapping[str, object], path: str) -> Iterator[str]:
    """Yield the violation of a claim that has a policy itself.

    Args:
        parameters: of the claim.
        path: of the parameters, "" for none.
    """
    value = parameters.get(POLICY)
    if value is not None:
        where = f"{path}.{POLICY}" if path else POLICY
        yield f"{where}: {show(value)}: only a DeviceClass can have a policy; remove it"


def policy_violations(
    policy: ClaimPolicy, parameters: Mapping[str, object], path: str
) -> Iterator[str]:
    """Yield a violation for each value of a claim that the policy forbids.

    Args:
        policy: of the class.
        parameters: of the claim, valid.
        path: their location, the prefix of each violation.
    """
    of_policy = f'by policy "{policy.name}" of the device class'
    remedy = f"{of_policy}; remove it, or ask the administrator"
    for field, value in _set(parameters):
        where = f"{path}.{field}" if path else field
        if policy.fields is not None and not any(_covers(name, field) for name in policy.fields):
            yield f"{where}: {show(value)}: not allowed {remedy}"
        elif field == "interface.addresses" and policy.addresses is not None:
            entries = value if isinstance(value, list | tuple) else ()
            for number, entry in enumerate(entries):
                if not _lies_in(str(entry), policy.addresses):
                    allowed = ", ".join(map(str, policy.addresses)) or "no network"
                    yield f"{where}[{number}]: {show(entry)}: must lie in {allowed} {remedy}"
        elif field == "interface.hardwareAddr" and not _begins(value, policy.mac_prefixes):
            allowed = ", ".join(policy.mac_prefixes or ()) or "nothing"
            yield f"{where}: {show(value)}: must begin with {allowed} {remedy}"


def _field(node: Node) -> str | None:
    name = node.text()
    claim_fields = _claim_fields()
    if name is not None and name not in claim_fields and not name.startswith(_FEATURES):
        rule = "is no path of a field of a claim, such as interface.mtu"
        node.report(f"{rule}{did_you_mean(name, claim_fields)}; correct it")
    return name


def _claim_fields() -> frozenset[str]:
    """Return the path of each field that a policy can name."""
    names = {"profile", *TOP_FIELDS}
    for top, fields in TOP_FIELDS.items():
        if top not in _LISTS:
            names |= {f"{top}.{field}" for field in fields}
            names |= {
                f"{top}.{field}.{inner}"
                for field in fields
                for inner in BLOCK_FIELDS.get(field, ())
            }
    return frozenset(names)


def _networks(node: Node) -> tuple[IpNetwork, ...]:
    return tuple(found for item in node.items() if (found := item.parsed(parse_network)))


def _prefixes(node: Node) -> tuple[str, ...]:
    return tuple(found for item in node.items() if (found := item.parsed(_prefix)))


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text.lower()):
        raise InvalidValueError('must be the first bytes of a MAC address, such as "02:42"')
    return text.lower()


def _set(parameters: Mapping[str, object], path: str = "") -> Iterator[tuple[str, object]]:
    """Yield path and value of each field that is set; null and "" set nothing."""
    for name, value in parameters.items():
        where = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            yield from _set(value, where)
        elif value is not None and value != "":
            yield where, value


def _begins(mac: object, prefixes: tuple[str, ...] | None) -> bool:
    return prefixes is None or parse_mac(str(mac)).startswith(prefixes)


def _covers(name: str, field: str) -> bool:
    return field == name or field.startswith(f"{name}.")


def _lies_in(entry: str, networks: tuple[IpNetwork, ...]) -> bool:
    """Whether an address, or both ends of a range, lie in one of the networks."""
    span = parse_address_or_range(entry).partition("/")[0]
    ends = [ip_address(end) for end in span.split("-")]
    return any(all(end in network for end in ends) for network in networks)
