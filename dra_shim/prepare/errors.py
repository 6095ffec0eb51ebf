"""Errors of a claim that cannot be prepared now, and their text for the kubelet."""

from typing import Final

from dranet_nri.errors import DranetError

MAX_MESSAGE: Final = 900  # an event holds 1024 bytes, and the kubelet puts words in front


class NotYetError(DranetError):
    """Something that may pass by itself: worth another try while the kubelet waits."""


class ApiUnavailableError(NotYetError):
    """The API server gave no answer, or an answer for later (429, 5xx).

    Attributes:
        after_s: how long it asked to be left alone, 0.0 if it did not say.
    """

    def __init__(self, text: str, after_s: float = 0.0) -> None:
        """Keep the facts."""
        super().__init__(text)
        self.after_s = after_s


def kind_of(error: DranetError | OSError) -> str:
    """Return the kind of an error, as metrics count it."""
    return error.kind if isinstance(error, DranetError) else "io"


def one_line(message: str) -> str:
    """Return one line that fits an event."""
    line = " ".join(message.split())
    return line if len(line) <= MAX_MESSAGE else f"{line[: MAX_MESSAGE - 3]}..."
