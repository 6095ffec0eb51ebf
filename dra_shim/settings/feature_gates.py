"""Feature gates: dranet's --feature-gates, parsed into the requested alpha features.

Origin: k8s.io/component-base/featuregate (the syntax), dranet pkg/features (the names).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dranet_nri.errors import InvalidValueError

LISTS: Final = "DRAListTypeAttributes"
PERSISTENT: Final = "PersistentResourceSliceAttributes"  # it is so without it
_ALPHA: Final = "AllAlpha"  # all that are not named
_KNOWN: Final = (LISTS, PERSISTENT, _ALPHA, "AllBeta")  # of these none is beta
_WORDS: Final = {  # strconv.ParseBool
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The requested alpha features.

    Attributes:
        lists: NUMA nodes are published as lists, to servers that take them.
        idle: gates that were named and decide nothing.
    """

    lists: bool = False
    idle: tuple[str, ...] = ()


def parse_gates(text: str) -> FeatureGates:
    """Return what "Gate=true,Other=false" wants; what is not named is off.

    Raises:
        InvalidValueError: a gate that dranet does not have, or no boolean.
    """
    given = dict(_entries(text))
    idle = tuple(name for name in given if name == PERSISTENT)
    return FeatureGates(given.get(LISTS, given.get(_ALPHA, False)), idle)


def _entries(text: str) -> Iterator[tuple[str, bool]]:
    for entry in filter(None, map(str.strip, text.split(","))):
        name, _, word = (part.strip() for part in entry.partition("="))
        if name not in _KNOWN:
            # Registration does not wait for a room that only this error needs.
            from dranet_nri.config import did_you_mean

            hint = did_you_mean(name, _KNOWN)
            raise InvalidValueError(f"{name}: there is no such gate{hint}; known: {LISTS}")
        if word not in _WORDS:
            raise InvalidValueError(f"{entry}: must be {name}=true or {name}=false")
        yield name, _WORDS[word]
