"""`ethtool` of the opaque parameters: features, private flags and driver settings of the device.

Only the form of names and numbers is checked here; the attach checks what the device takes.
"""

from collections.abc import Iterator
from typing import Final

from dranet_nri.config.fields import BLOCK_FIELDS, ETHTOOL_FIELDS, RSS_FIELDS
from dranet_nri.config.json_cursor import INT32, Fields, Node, given
from dranet_nri.model import (
    FEATURE_ALIASES,
    DriverSetting,
    EthtoolConfig,
    RssConfig,
    SettingGroup,
    Switches,
    switches,
)

ETHTOOL: Final = "ethtool"
FEATURES: Final = "features"
PRIVATE_FLAGS: Final = "privateFlags"
MAX_NAME: Final = 31  # bytes; ETH_GSTRING_LEN less the zero, linux/ethtool.h
MAX_QUEUES: Final = 1024
NUMBERS: Final = (SettingGroup.RINGS, SettingGroup.CHANNELS, SettingGroup.COALESCE)
# Settings of these names are switches; a claim has true or false, the kernel 1 or 0.
SWITCHES: Final = frozenset({"coalesce.adaptiveRx", "coalesce.adaptiveTx"}) | {
    f"{SettingGroup.PAUSE}.{name}" for name in BLOCK_FIELDS[SettingGroup.PAUSE]
}


def read_ethtool(node: Node) -> EthtoolConfig:
    """Return the parsed block."""
    fields = node.fields(ETHTOOL_FIELDS)
    features = _flags(fields, FEATURES)
    if FEATURES in fields:
        _check_aliases(fields[FEATURES], features)
    return EthtoolConfig(
        switches(features),
        switches(_flags(fields, PRIVATE_FLAGS)),
        tuple(
            setting
            for group in (*NUMBERS, SettingGroup.PAUSE)
            if group in fields
            for setting in _settings(fields[group], group)
        ),
        given(fields, SettingGroup.RSS, _rss),
    )


def ethtool_to_object(config: EthtoolConfig) -> dict[str, object]:
    """Return the block as a claim carries it."""
    groups = {FEATURES: config.features, PRIVATE_FLAGS: config.private_flags}
    blocks: dict[str, object] = {key: _object(group) for key, group in groups.items() if group}
    for group in (*NUMBERS, SettingGroup.PAUSE):
        block = {
            setting.name.partition(".")[2]: bool(setting.value)
            if setting.name in SWITCHES
            else setting.value
            for setting in config.settings
            if setting.group == group
        }
        blocks |= {str(group): block} if block else {}
    if config.rss is not None:
        equal, weights = config.rss.equal, config.rss.weights
        blocks[str(SettingGroup.RSS)] = {"equal": equal} if equal else {"weights": list(weights)}
    return blocks


def _settings(node: Node, group: SettingGroup) -> Iterator[DriverSetting]:
    fields = node.fields(BLOCK_FIELDS[group])
    least = 1 if group is SettingGroup.RINGS else 0
    for field in BLOCK_FIELDS[group]:
        name = f"{group}.{field}"
        value: int | None = None
        if field in fields:
            found = fields[field]
            value = found.boolean() if name in SWITCHES else found.integer(least, INT32[1])
        if value is not None:
            yield DriverSetting(name, int(value))


def _rss(node: Node) -> RssConfig | None:
    fields = node.fields(RSS_FIELDS)
    equal = given(fields, "equal", lambda found: found.integer(1, MAX_QUEUES))
    weights = given(fields, "weights", _weights)
    if len(fields) == len(RSS_FIELDS):
        fields["weights"].report("not possible with equal; remove one")
    return RssConfig(equal or 0, weights or ()) if equal or weights else None


def _weights(node: Node) -> tuple[int, ...] | None:
    shares = [item.integer(0, INT32[1]) for item in node.items(MAX_QUEUES)]
    if not any(shares):
        node.report("needs a share above 0; add one, or remove weights")
        return None
    return tuple(share or 0 for share in shares)


def _object(group: Switches) -> dict[str, object]:
    states = dict.fromkeys(group.on, True) | dict.fromkeys(group.off, False)
    return {name: states[name] for name in sorted(states)}


def _flags(fields: Fields, group: str) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for name, node in fields[group].entries().items() if group in fields else ():
        state = node.boolean()
        if not name or not name.isascii() or not name.isprintable() or len(name) > MAX_NAME:
            node.report(f"its name must have 1 to {MAX_NAME} printable ASCII characters")
        elif state is not None:
            found[name] = state
    return found


def _check_aliases(node: Node, features: dict[str, bool]) -> None:
    """Report two names of one group that contradict each other."""
    first_name: dict[str, str] = {}
    for name, state in features.items():
        pattern = FEATURE_ALIASES.get(name, name)
        other = first_name.setdefault(pattern, name)
        if features[other] is not state:
            node.report(f"{other} and {name} are the same feature; keep one")
