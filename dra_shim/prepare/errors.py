"""Errors of Prepare, and their text for the kubelet."""

from typing import Final

from dranet_nri.errors import DranetError

MAX_MESSAGE: Final = 900  # bytes; an Event has 1024, and the kubelet adds a prefix


class NotYetError(DranetError):
    """A retriable error: Prepare is retried while the kubelet waits."""


class ApiUnavailableError(NotYetError):
    """The API server did not answer, or requested a retry (429, 5xx).

    Attributes:
        after_s: seconds of its Retry-After, 0.0 if there is none.
    """

    def __init__(self, text: str, after_s: float = 0.0) -> None:
        """Keep the text and the delay."""
        super().__init__(text)
        self.after_s = after_s


def kind_of(error: DranetError | OSError) -> str:
    """Return the kind of an error, for metrics."""
    return error.kind if isinstance(error, DranetError) else "io"


def one_line(message: str) -> str:
    """Return one line that fits an Event."""
    line = " ".join(message.split())
    return line if len(line) <= MAX_MESSAGE else f"{line[: MAX_MESSAGE - 3]}..."
