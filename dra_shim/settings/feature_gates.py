"""Feature gates: dranet's --feature-gates, parsed into the requested alpha features.

Origin: k8s.io/component-base/featuregate (the syntax), dranet pkg/features (the names).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dranet_nri.errors import InvalidValueError

LISTS: Final = "DRAListTypeAttributes"
PERSISTENT: Final = "PersistentResourceSliceAttributes"  # the default
_ALPHA: Final = "AllAlpha"  # all gates that are not listed
_KNOWN: Final = (LISTS, PERSISTENT, _ALPHA, "AllBeta")  # none of the gates is beta
BOOLEANS: Final = {  # strconv.ParseBool
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Enabled alpha features.

    Attributes:
        lists: NUMA nodes are published as lists, if the server supports lists.
        ignored: given gates that have no effect.
    """

    lists: bool = False
    ignored: tuple[str, ...] = ()


def parse_gates(text: str) -> FeatureGates:
    """Return the gates of "Gate=true,Other=false"; gates that are not listed are off.

    Raises:
        InvalidValueError: dranet does not have the gate, or the value is not a boolean.
    """
    given = dict(_entries(text))
    ignored = tuple(name for name in given if name == PERSISTENT)
    return FeatureGates(given.get(LISTS, given.get(_ALPHA, False)), ignored)


def _entries(text: str) -> Iterator[tuple[str, bool]]:
    for entry in filter(None, map(str.strip, text.split(","))):
        name, _, word = (part.strip() for part in entry.partition("="))
        if name not in _KNOWN:
            # Imported here: the import would delay the registration, and only this error needs it.
            from dranet_nri.config import did_you_mean

            hint = did_you_mean(name, _KNOWN)
            raise InvalidValueError(f"{name}: unknown feature gate{hint}; known: {LISTS}")
        if word not in BOOLEANS:
            raise InvalidValueError(f"{entry}: must be {name}=true or {name}=false")
        yield name, BOOLEANS[word]
