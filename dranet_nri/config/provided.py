"""Provided parameters: those of a cloud or profile, below those of class and claim.

Rules:
1. The claim takes precedence over the cloud, and the cloud over the profile, field by field; an
   explicit false or 0, and an empty `addresses` or `altnames`, are values. A cloud can name the
   profile of a claim that names none, as in dranet.
2. Lists are joined, as in dranet. Of equal addresses, routes with one destination and table, and
   neighbors with one destination, the one with higher precedence stays.
3. Rules of a provider do not apply with a VRF, and its IPv6 routes and rules do not apply with
   `disableIPv6`, because their claim would always be refused in such a cloud.
4. The parameters of each provider are checked alone, so that a violation has its origin, and then
   the result.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dranet_nri.config.encode import network_config_to_object
from dranet_nri.config.network import parse_network_config
from dranet_nri.errors import ConfigError
from dranet_nri.model import InterfaceConfig, NetworkConfig

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


def with_provided(provided: Sequence[Provided], own: NetworkConfig) -> NetworkConfig:
    """Return the parameters of class and claim merged over those of providers.

    Args:
        provided: provided parameters, the highest precedence last.
        own: parameters of class and claim.

    Raises:
        ConfigError: the parameters of a provider, or the result, are invalid.
    """
    given = [layer for layer in provided if layer.parameters]
    if not given:
        return own
    violations: list[str] = []
    merged: JsonMap = {}
    for layer in given:
        try:
            checked = parse_network_config(layer.parameters, layer.origin)
        except ConfigError as error:
            violations += error.violations
        else:
            merged = _over(merged, network_config_to_object(checked))
    if violations:
        raise ConfigError(violations)
    merged = _over(_applicable(merged, own.interface), network_config_to_object(own))
    origins = ", ".join(layer.origin for layer in given)
    return parse_network_config(merged, f"parameters with those of {origins}")


def _applicable(provided: JsonMap, interface: InterfaceConfig) -> JsonMap:
    """Return provided parameters without routes and rules that the claim's interface excludes."""
    kept = dict(provided)
    if interface.vrf is not None:
        kept.pop("rules", None)
    if interface.disable_ipv6:
        for name in kept.keys() & {"routes", "rules"}:
            entries = kept[name]
            assert isinstance(entries, list), "encoded by network_config_to_object"
            kept[name] = [
                entry
                for entry in entries
                if ":" not in "".join(_field(entry, "source", "destination"))
            ]
    return kept


def _over(below: JsonMap, above: JsonMap) -> dict[str, object]:
    merged = dict(below)
    for name, value in above.items():
        under = merged.get(name)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[name] = _over(under, value)
        elif isinstance(value, list) and isinstance(under, list) and value and name in _KEYS:
            merged[name] = _joined(under, value, _KEYS[name])
        else:
            merged[name] = value
    return merged


def _joined(
    below: list[object], above: list[object], key: Callable[[object], object]
) -> list[object]:
    stronger = {key(entry) for entry in above}
    return [*(entry for entry in below if key(entry) not in stronger), *above]


def _field(entry: object, *names: str) -> tuple[str, ...]:
    assert isinstance(entry, Mapping), "encoded by network_config_to_object"
    return tuple(str(entry.get(name, "")) for name in names)


_KEYS: Final[Mapping[str, Callable[[object], object]]] = {
    "addresses": str,
    "routes": lambda entry: _field(entry, "destination", "table"),
    "rules": lambda entry: _field(entry, "priority", "source", "destination", "table"),
    "neighbors": lambda entry: _field(entry, "destination"),
}
