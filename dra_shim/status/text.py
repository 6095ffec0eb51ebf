"""Text in the form that the API requires: one line, valid UTF-8, of limited length."""

import re
from datetime import UTC, datetime
from typing import Final

# metav1.Condition.reason; Events accept the same.
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_]{0,126}[A-Za-z0-9_])?")
_UNKNOWN: Final = "Unknown"
_ELLIPSIS: Final = "..."


def one_line(text: str, limit: int) -> str:
    """Return the text as one line of limited bytes of UTF-8, cut between characters."""
    line = " ".join(text.split()).encode(errors="replace")
    if len(line) > limit:
        line = line[: limit - len(_ELLIPSIS)]
        return line.decode(errors="ignore") + _ELLIPSIS
    return line.decode()


def reason_of(text: str) -> str:
    """Return the text if it is a valid reason, otherwise "Unknown"."""
    return text if _REASON.fullmatch(text) else _UNKNOWN


def stamp_of(unix_s: float) -> str:
    """Return a time in the form of the API: RFC 3339, whole seconds, UTC."""
    return datetime.fromtimestamp(int(unix_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(stamp: object) -> int | None:
    """Return Unix seconds of a timestamp of `stamp_of` or a server; None if it is invalid."""
    try:
        return int(datetime.fromisoformat(str(stamp)).timestamp())
    except (ValueError, OverflowError):
        return None
