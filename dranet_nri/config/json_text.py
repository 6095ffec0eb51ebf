"""JSON text parser: plain Python values, with a record of duplicate keys."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from dranet_nri.errors import ConfigError

_SPACE: Final = re.compile(r"[ \t\r\n]*")  # of JSON


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
    with _refused(path):
        return json.loads(text, object_pairs_hook=JsonObject, parse_constant=_refuse_constant)


def load_json_stream(text: str, fraction: Callable[[str], object]) -> tuple[object, ...]:
    """Parse JSON documents that follow each other, as kubectl does.

    Args:
        text: the documents, with or without white space between them.
        fraction: converter of a number with a fraction or an exponent.

    Raises:
        ConfigError: the text is not JSON; the violation has the position.
    """
    decoder = json.JSONDecoder(
        object_pairs_hook=JsonObject, parse_constant=_refuse_constant, parse_float=fraction
    )
    found: list[object] = []
    position = _after_space(text, 0)
    with _refused(""):
        while position < len(text):
            document, position = decoder.raw_decode(text, position)
            found.append(document)
            position = _after_space(text, position)
    return tuple(found)


def _after_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


@contextmanager
def _refused(path: str) -> Iterator[None]:
    """Raise the errors of the JSON library as ConfigError."""
    try:
        yield
        return
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        reason = f"not valid JSON at {where}: {error.msg}; correct the text there"
    except RecursionError:
        reason = "not usable JSON: nested too deeply; flatten it"
    except ValueError as error:
        reason = f"not valid JSON: {error}"
    raise ConfigError([f"{path or 'document'}: {reason}"])
