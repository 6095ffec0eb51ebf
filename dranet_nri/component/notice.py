"""Log notices: reports of workers, each declared with the level and the event of its log line.

Rules:
1. Events are short constant phrases; facts are keys, by default the fields that the notice's repr
   shows.
2. The fields `error` and `message` are logged as `reason`, and so is `cause`: an exception that
   may be a bug, logged with its traceback.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar, Final

from dranet_nri.component.replace import replace

_KEYS: Final = {"error": "reason", "message": "reason"}


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log.

    Attributes:
        level: "debug", "info", "warning" or "error".
        event: a constant phrase.
        limited: logged once a minute while the facts, but for retry_s, stay equal.
    """

    level: str
    event: str
    facts: Mapping[str, object] = field(default_factory=dict)
    limited: bool = False


class LogNotice:
    """Base of all notices, which are dataclasses; log is the line without its facts."""

    __slots__ = ()
    log: ClassVar[LogLine]

    def line(self) -> LogLine:
        """Return the log line."""
        return replace(self.log, facts=self._facts())

    def _facts(self) -> Mapping[str, object]:
        found: dict[str, object] = {}
        for part in fields(self):  # type: ignore[arg-type]
            value = getattr(self, part.name)
            if not part.repr:
                continue
            if part.name == "cause":
                found |= {"reason": str(value), "exc_info": value}
            else:
                found[_KEYS.get(part.name, part.name)] = _logged(value)
        return found


def _logged(value: object) -> object:
    match value:
        case int() | None:
            return value
        case float():
            return round(value, 1)
        case _:
            return str(value)
