"""Plans for offload features and private flags: resolves the claim's names on a device.

Rules:
1. A move keeps them. They are set on the host, before the device leaves and after it returned.
2. The name of a feature takes precedence over an alias that includes it.
3. An unchangeable feature of an alias is accepted if it has the claimed value, such as large
   receive offload that is off on a device without it.
4. In the pod a feature must be active or inactive as claimed. On the host the previous request is
   restored; whether the feature is then active depends on the device.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    FEATURE_ALIASES,
    EthtoolConfig,
    LinkState,
    Ns,
    Switches,
    switches,
)
from dranet_nri.plan.ops import Plan, SetFeatures, SetPrivateFlags


def features_of(config: EthtoolConfig, host: LinkState) -> Switches:
    """Return the device's features for the claim's names and aliases.

    Raises:
        RefusedError: the device has no such changeable feature, or not the claimed value.
    """
    if host.ethtool is None:
        return Switches()
    supported = _names(host.ethtool.features)
    desired: dict[str, bool] = {}
    for exact in (False, True):
        for name, on in states(config.features):
            if (name in supported) is exact:
                desired |= dict.fromkeys(_features_for(name, supported, host, on=on), on)
    return switches(desired)


def private_flags_of(config: EthtoolConfig, host: LinkState) -> Switches:
    """Return the claimed private flags.

    Raises:
        RefusedError: the driver has no such flag.
    """
    if host.ethtool is None:
        return Switches()
    supported = _names(host.ethtool.private_flags)
    for name, _ in states(config.private_flags):
        if name not in supported:
            raise RefusedError(_unknown("privateFlags", "private flag", name, supported, host))
    return config.private_flags


def states(named: Switches) -> Iterator[tuple[str, bool]]:
    """Yield each name with True for on."""
    yield from ((name, True) for name in named.on)
    yield from ((name, False) for name in named.off)


def plan_offloads(features: Switches, private_flags: Switches, host: LinkState) -> Plan:
    """Return the operations that set the claimed values on the host."""
    if host.ethtool is None:
        return ()
    active = _active_states(host.ethtool.features, host.ethtool.active)
    return _ops(
        host.link.name,
        _missing(features, active),
        _missing(private_flags, host.ethtool.private_flags),
        strict=True,
    )


def restore_offloads(before: LinkState, now: LinkState, name: str) -> Plan:
    """Return the operations that restore the values of the device, which has this name."""
    if before.ethtool is None or now.ethtool is None:
        return ()
    return _ops(
        name,
        _missing(before.ethtool.features, now.ethtool.features),
        _missing(before.ethtool.private_flags, now.ethtool.private_flags),
        strict=False,
    )


def _ops(name: str, features: Switches, private_flags: Switches, *, strict: bool) -> Plan:
    return (
        *((SetPrivateFlags(Ns.HOST, name, private_flags),) if private_flags else ()),
        *((SetFeatures(Ns.HOST, name, features, strict),) if features else ()),
    )


def _missing(desired: Switches, now: Switches) -> Switches:
    """Return the switches of the device that differ from `desired`."""
    return Switches(
        tuple(name for name in desired.on if name in now.off),
        tuple(name for name in desired.off if name in now.on),
    )


def _active_states(changeable: Switches, active: tuple[str, ...]) -> Switches:
    return switches({name: name in active for name in _names(changeable)})


def _names(named: Switches) -> frozenset[str]:
    return frozenset((*named.on, *named.off))


def _features_for(
    name: str, supported: frozenset[str], host: LinkState, *, on: bool
) -> tuple[str, ...]:
    """Return the features to set for a name; none if an unchangeable one has the value."""
    if name in supported:
        return (name,)
    pattern = FEATURE_ALIASES.get(name, name if name in FEATURE_ALIASES.values() else "")
    found = tuple(feature for feature in supported if fnmatchcase(feature, pattern))
    active = any(fnmatchcase(feature, pattern) for feature in _active(host))
    if not found and (not pattern or active is not on):
        raise RefusedError(_unknown("features", "feature", name, supported, host))
    return found


def _active(host: LinkState) -> tuple[str, ...]:
    return host.ethtool.active if host.ethtool else ()


def _unknown(field: str, what: str, name: str, supported: frozenset[str], host: LinkState) -> str:
    listed = ", ".join(sorted(supported)) or "none"
    return (
        f"ethtool.{field}.{name}: device {host.link.name} has no such {what} that can be changed;"
        f" remove it or use one of: {listed}"
    )
