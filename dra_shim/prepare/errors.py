"""Errors of a claim that cannot be prepared now."""

from dranet_nri.errors import DranetError


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
