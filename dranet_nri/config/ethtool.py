"""`ethtool` of the opaque parameters: offload features and private flags of the interface.

Only the form of a name is checked here, by the kernel's rules; the attach checks that the device
has the feature.
"""

from typing import Final

from dranet_nri.config.fields import ETHTOOL_FIELDS
from dranet_nri.config.json_cursor import Fields, Node
from dranet_nri.model import FEATURE_ALIASES, EthtoolConfig, Switches, switches

ETHTOOL: Final = "ethtool"
FEATURES: Final = "features"
PRIVATE_FLAGS: Final = "privateFlags"
MAX_NAME: Final = 31  # bytes; ETH_GSTRING_LEN less the zero, linux/ethtool.h


def read_ethtool(node: Node) -> EthtoolConfig:
    """Return what the block asks for."""
    fields = node.fields(ETHTOOL_FIELDS)
    features = _flags(fields, FEATURES)
    if FEATURES in fields:
        _check_aliases(fields[FEATURES], features)
    return EthtoolConfig(switches(features), switches(_flags(fields, PRIVATE_FLAGS)))


def ethtool_to_object(config: EthtoolConfig) -> dict[str, object]:
    """Return the block as a claim carries it."""
    groups = {FEATURES: config.features, PRIVATE_FLAGS: config.private_flags}
    return {key: _object(group) for key, group in groups.items() if group}


def _object(group: Switches) -> dict[str, object]:
    states = dict.fromkeys(group.on, True) | dict.fromkeys(group.off, False)
    return {name: states[name] for name in sorted(states)}


def _flags(fields: Fields, group: str) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for name, node in fields[group].entries().items() if group in fields else ():
        state = node.boolean()
        if not name or not name.isascii() or not name.isprintable() or len(name) > MAX_NAME:
            node.complain(f"its name must have 1 to {MAX_NAME} printable ASCII characters")
        elif state is not None:
            found[name] = state
    return found


def _check_aliases(node: Node, features: dict[str, bool]) -> None:
    """Complain about two names of one group that contradict each other."""
    said: dict[str, str] = {}
    for name, state in features.items():
        pattern = FEATURE_ALIASES.get(name, name)
        other = said.setdefault(pattern, name)
        if features[other] is not state:
            node.complain(f"{other} and {name} are the same feature; keep one")
