"""Text as the API takes it: one line, valid UTF-8, of bounded length."""

import re
from datetime import UTC, datetime
from typing import Final

# metav1.Condition.reason; events are not as strict, and take the same.
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_]{0,126}[A-Za-z0-9_])?")
_UNKNOWN: Final = "Unknown"
_MORE: Final = "..."


def one_line(text: str, limit: int) -> str:
    """Return the text as one line of at most so many bytes of UTF-8, cut between characters."""
    line = " ".join(text.split()).encode(errors="replace")
    if len(line) > limit:
        line = line[: limit - len(_MORE)]
        return line.decode(errors="ignore") + _MORE
    return line.decode()


def reason_of(text: str) -> str:
    """Return the CamelCase word if it can be a reason, else one that says nothing."""
    return text if _REASON.fullmatch(text) else _UNKNOWN


def stamp_of(unix_s: float) -> str:
    """Return a time as the API writes it: RFC 3339, whole seconds, UTC."""
    return datetime.fromtimestamp(int(unix_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(stamp: object) -> int | None:
    """Return Unix seconds of what `stamp_of` or a server wrote; None if it is something else."""
    try:
        return int(datetime.fromisoformat(str(stamp)).timestamp())
    except (ValueError, OverflowError):
        return None
