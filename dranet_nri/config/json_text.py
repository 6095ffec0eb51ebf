"""JSON text parser: plain Python values, with a record of duplicate keys."""

import json
from collections import Counter
from typing import NoReturn

from dranet_nri.errors import ConfigError


class JsonObject(dict[str, object]):
    """A JSON object with a record of its duplicate keys; the last value is kept."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        """Store the pairs in order, and each duplicate key once."""
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.repeated = tuple(key for key, count in counts.items() if count > 1)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON; write a number")


def load_json(text: str, path: str = "") -> object:
    """Parse one JSON document; objects become `JsonObject`.

    Raises:
        ConfigError: the text is not JSON; the violation has the position.
    """
    try:
        return json.loads(text, object_pairs_hook=JsonObject, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        reason = f"not valid JSON at {where}: {error.msg}; correct the text there"
    except RecursionError:
        reason = "not usable JSON: nested too deeply; flatten it"
    except ValueError as error:
        reason = f"not valid JSON: {error}"
    raise ConfigError([f"{path or 'document'}: {reason}"])
