"""Provided parameters: those of a cloud or profile, below those of class and claim.

Rules:
1. The claim takes precedence over the cloud, and the cloud over the profile, field by field; an
   explicit default such as false, 0 or `type: Passthrough`, and an empty `addresses` or `altnames`,
   are values. A cloud can name the profile of a claim that names none, as in dranet.
2. Lists are joined, as in dranet. Of equal addresses, routes with one destination and table, and
   neighbors with one destination, the one with higher precedence stays.
3. Rules of a provider do not apply with a VRF, and its IPv6 routes, rules and neighbors do not
   apply without IPv6, because their claim would always be refused in such a cloud.
4. Of a claim with addresses, provided routes whose gateway is out of reach do not apply, nor do the
   provided rules of a table that is then empty: the routing of a cloud is for the addresses of the
   NIC, and a claim cannot remove it.
5. The block of a child (`ipvlan`) does not apply with another type, as in dranet.
6. The parameters of each provider are checked alone, so that a violation has its origin, and then
   the result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.config.addressing import unreachable_gateways
from dranet_nri.config.child import BLOCKS, PASSTHROUGH
from dranet_nri.config.encode import network_config_to_object
from dranet_nri.config.link import MIN_MTU_IPV6
from dranet_nri.config.merge import Key, SelectedParameters, merge_objects
from dranet_nri.config.network import parse_network_config
from dranet_nri.errors import ConfigError
from dranet_nri.model import InterfaceConfig, NetworkConfig, RouteConfig, RuleConfig

JsonMap = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Provided:
    """Parameters of one provider.

    Attributes:
        origin: prefix of each violation ("cloud AZURE", 'profile "fast"').
        parameters: NetworkConfig as JSON.
    """

    origin: str
    parameters: JsonMap


def with_provided(provided: Sequence[Provided], own: SelectedParameters) -> NetworkConfig:
    """Return the parameters of class and claim merged over those of providers.

    Args:
        provided: provided parameters, the highest precedence last.
        own: parameters of class and claim.

    Raises:
        ConfigError: the parameters of a provider, or the result, are invalid.
    """
    given = [layer for layer in provided if layer.parameters]
    if not given:
        return own.config
    violations: list[str] = []
    merged: JsonMap = {}
    for layer in given:
        try:
            checked = parse_network_config(layer.parameters, layer.origin)
        except ConfigError as error:
            violations += error.violations
        else:
            merged = merge_objects(merged, _explicit(checked, layer.parameters), _KEYS)
    if violations:
        raise ConfigError(violations)
    kept = _applicable(merged, own.config.interface)
    merged = merge_objects(kept, _explicit(own.config, own.written), _KEYS)
    origins = ", ".join(layer.origin for layer in given)
    config = parse_network_config(_of_type(merged), f"parameters with those of {origins}")
    return _within_reach(config, own.config)


def _explicit(config: NetworkConfig, written: JsonMap) -> JsonMap:
    """Return the parameters in canonical form, with the explicit type and block of a child."""
    interface = written.get("interface")
    canonical = network_config_to_object(config)
    if not isinstance(interface, Mapping):
        return canonical
    given = {name: interface[name] for name in ("type", *BLOCKS) if interface.get(name)}
    for name in given.keys() & BLOCKS.keys():
        given[name] = {field: value for field, value in given[name].items() if value}
    return merge_objects(canonical, {"interface": given}, _KEYS) if given else canonical


def _of_type(merged: JsonMap) -> JsonMap:
    """Return the parameters without the blocks of other types, which a provider gave."""
    interface = merged.get("interface")
    if not isinstance(interface, Mapping):
        return merged
    kind = interface.get("type", PASSTHROUGH)
    kept = {name: value for name, value in interface.items() if BLOCKS.get(name, kind) == kind}
    return {**merged, "interface": kept}


def _applicable(provided: JsonMap, interface: InterfaceConfig) -> JsonMap:
    """Return provided parameters without routes and rules that the claim's interface excludes."""
    kept = dict(provided)
    if interface.vrf is not None:
        kept.pop("rules", None)
    if interface.disable_ipv6 or (interface.mtu or MIN_MTU_IPV6) < MIN_MTU_IPV6:
        for name in kept.keys() & {"routes", "rules", "neighbors"}:
            entries = kept[name]
            assert isinstance(entries, list), "encoded by network_config_to_object"
            kept[name] = [
                entry
                for entry in entries
                if ":" not in "".join(_field(entry, "source", "destination"))
            ]
    return kept


def _within_reach(config: NetworkConfig, own: NetworkConfig) -> NetworkConfig:
    """Return the parameters without provided routes out of reach, and rules of their tables."""
    if own.interface.addresses is None:
        return config
    unreachable = {index for index, _ in unreachable_gateways(config)}
    routes = tuple(
        route
        for index, route in enumerate(config.routes)
        if index not in unreachable or route in own.routes
    )
    emptied = {_table(route) for route in config.routes} - {_table(route) for route in routes}
    rules = tuple(rule for rule in config.rules if _table(rule) not in emptied or rule in own.rules)
    return replace(config, routes=routes, rules=rules)


def _table(entry: RouteConfig | RuleConfig) -> tuple[int, bool]:
    """Return number and family of a routing table; the families have different tables."""
    return entry.table, ":" in entry.source + entry.destination


def _field(entry: object, *names: str) -> tuple[str, ...]:
    assert isinstance(entry, Mapping), "encoded by network_config_to_object"
    return tuple(str(entry.get(name, "")) for name in names)


_KEYS: Final[Mapping[str, Key]] = {
    "addresses": str,
    "routes": lambda entry: _field(entry, "destination", "table"),
    "rules": lambda entry: _field(entry, "priority", "source", "destination", "table"),
    "neighbors": lambda entry: _field(entry, "destination"),
}
