"""Merge of a claim's configuration entries, per request.

Rules:
1. An entry applies if it is for this driver and names the request, its main request, or no request.
2. Later entries take precedence: the class first, then the claim. Within one origin, an entry for
   the subrequest ("req/sub") takes precedence over one for the main request or for all.
3. Interface fields merge one by one; an explicit zero or false is a value. A list (addresses,
   routes, rules, neighbors) replaces the whole list.
4. An entry without parameters is ignored.
5. Each entry must be valid alone, except that it may lack what another one has, such as the type of
   a child. The merged result must be valid and complete.
6. A claim entry must keep the policy of each class entry (see policy).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from dranet_nri.config.addressing import without_dhcp
from dranet_nri.config.json_cursor import Node, Violations
from dranet_nri.config.network import parse_network_config
from dranet_nri.config.policy import POLICY, own_policy, policy_violations, read_policy
from dranet_nri.errors import ConfigError
from dranet_nri.model import DRIVER_NAME, NetworkConfig

Key = Callable[[object], object]  # of a list's entry
_NO_KEYS: Final[Mapping[str, Key]] = {}
# Fields of ethtool.rss: the one of higher precedence replaces the other one.
_ALTERNATIVES: Final = {"equal": "weights", "weights": "equal"}


class ConfigSource(StrEnum):
    """Origin of an entry (k8s.io/api/resource, AllocationConfigSource)."""

    CLASS = "FromClass"
    CLAIM = "FromClaim"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One entry of `config`.

    Attributes:
        driver: driver of the parameters.
        parameters: the JSON object, not validated; an empty one has no effect.
        requests: its requests ("req" or "req/sub"); empty for all.
        path: path of the parameters, a prefix of each violation.
    """

    source: ConfigSource
    driver: str
    parameters: Mapping[str, object]
    requests: tuple[str, ...] = ()
    path: str = ""

    def applies_to(self, request: str) -> bool:
        """Whether the entry is for a request; the name of a main request covers its subrequests."""
        main = request.partition("/")[0]
        return not self.requests or request in self.requests or main in self.requests


@dataclass(frozen=True, slots=True)
class SelectedParameters:
    """Parameters of one request, from class and claim.

    Attributes:
        config: the parameters, validated.
        written: the same as JSON, with explicit defaults.
    """

    config: NetworkConfig = NetworkConfig()
    written: Mapping[str, object] = field(default_factory=dict)


def select_config(
    entries: Sequence[ConfigEntry], request: str, *, first_valid_wins: bool = False
) -> NetworkConfig:
    """Return the configuration of one request ("req" or "req/sub"); see select_parameters.

    Raises:
        ConfigError: an entry that applies, or the merged result, is invalid.
    """
    return select_parameters(entries, request, first_valid_wins=first_valid_wins).config


def select_parameters(
    entries: Sequence[ConfigEntry], request: str, *, first_valid_wins: bool = False
) -> SelectedParameters:
    """Return the parameters of one request ("req" or "req/sub").

    Args:
        entries: all entries of the claim's allocation, of class and claim, in order.
        request: name as in the allocation result.
        first_valid_wins: dranet's rule: only the first entry that applies is used, so that the
            class takes precedence and nothing is merged. As in dranet, empty parameters count as
            an entry, and one for "req" does not apply to "req/sub".

    Raises:
        ConfigError: an entry that applies, or the merged result, is invalid.
    """
    of_driver = [entry for entry in entries if entry.driver == DRIVER_NAME]
    if first_valid_wins:
        chosen = [entry for entry in of_driver if not entry.requests or request in entry.requests]
    else:
        chosen = [entry for entry in of_driver if entry.parameters and entry.applies_to(request)]
    if not chosen:
        return SelectedParameters()
    configs = _validated(chosen, first_valid_wins=first_valid_wins)
    chosen = chosen[: len(configs)]
    merged: dict[str, object] = {}
    for entry in sorted(chosen, key=lambda entry: _precedence(entry, request)):
        merged = merge_objects(merged, without_dhcp(entry.parameters))
    if len(configs) == 1:
        return SelectedParameters(configs[0], merged)
    where = f"merged configuration of request {request}"
    return SelectedParameters(parse_network_config(merged, where), merged)


def _validated(
    chosen: Sequence[ConfigEntry], *, first_valid_wins: bool
) -> tuple[NetworkConfig, ...]:
    """Return the configuration of each entry, or of the first one alone, which wins.

    Raises:
        ConfigError: an entry is invalid, or sets what the policy of another one forbids.
    """
    alone = first_valid_wins or len(chosen) == 1
    violations: list[str] = []
    configs: list[NetworkConfig] = []
    for entry in chosen:
        try:
            configs.append(parse_network_config(entry.parameters, entry.path, entry=not alone))
        except ConfigError as error:
            violations += error.violations
        if first_valid_wins and configs:
            break
    violations += () if violations else _forbidden(chosen[: len(configs)])
    if violations:
        raise ConfigError(violations)
    return tuple(configs)


def _forbidden(chosen: Sequence[ConfigEntry]) -> Iterator[str]:
    """Yield what claim entries set against the policies of class entries."""
    policies = [
        read_policy(Node(entry.parameters[POLICY], POLICY, Violations()))
        for entry in chosen
        if entry.source is ConfigSource.CLASS and entry.parameters.get(POLICY) is not None
    ]
    for entry in chosen:
        if entry.source is not ConfigSource.CLAIM:
            continue
        yield from own_policy(entry.parameters, entry.path)
        for policy in policies:
            yield from policy_violations(policy, entry.parameters, entry.path)


def _precedence(entry: ConfigEntry, request: str) -> tuple[bool, bool]:
    return entry.source is ConfigSource.CLAIM, "/" in request and request in entry.requests


def merge_objects(
    below: Mapping[str, object], above: Mapping[str, object], keys: Mapping[str, Key] = _NO_KEYS
) -> dict[str, object]:
    """Return the union of both objects: `above` takes precedence, objects merge, null is absent.

    Args:
        keys: for each field whose lists are joined, what identifies an entry.
    """
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if value is None:
            continue
        merged.pop(_ALTERNATIVES.get(key, ""), None)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[key] = merge_objects(under, value, keys)
        elif isinstance(value, list) and isinstance(under, list) and value and key in keys:
            merged[key] = _joined(under, value, keys[key])
        else:
            merged[key] = value
    return merged


def _joined(below: list[object], above: list[object], key: Key) -> list[object]:
    stronger = {key(entry) for entry in above}
    return [*(entry for entry in below if key(entry) not in stronger), *above]
