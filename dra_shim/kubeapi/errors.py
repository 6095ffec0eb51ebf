"""API errors: failed requests to an API server.

ApiError                the request, the reason and the remedy
├── UnavailableError    no answer, or one for later (408, 429, 5xx): worth another try
├── RejectedError       the server does not accept the credentials (401), or forbids it (403)
├── NotFoundError       there is no such object, or its namespace is being deleted
├── NotServedError      the server has no supported version of the kind
├── ConflictError       the object changed or exists already, or is another one
├── ExpiredError        the resource version is too old: list again
└── InvalidError        the server refuses the object; names the fields

CredentialsError        no request was sent, because there are no credentials
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dranet_nri.errors import DranetError


class ApiError(DranetError):
    """A request failed.

    Attributes:
        subject: what was asked: "update ResourceSlice node-1-dra.net-0".
        reason: why it failed, in the server's words where it said any.
        remedy: what to do, "" where nothing but waiting helps.
        after_s: seconds that the server asked to wait before a retry, 0.0 if it did not say.
    """

    kind = "api"

    def __init__(
        self, subject: str, reason: str, remedy: str = "", *, after_s: float = 0.0
    ) -> None:
        """Keep the facts; the text is one line of the first three."""
        super().__init__(f"{subject}: {reason}{f'; {remedy}' if remedy else ''}")
        self.subject = subject
        self.reason = reason
        self.remedy = remedy
        self.after_s = after_s


class CredentialsError(DranetError):
    """There is no token to present, now."""


class UnavailableError(ApiError):
    """No answer, or one for later."""

    kind = "unavailable"


class TooLargeError(UnavailableError):
    """The answer is larger than what is read at once."""


class RejectedError(ApiError):
    """The server refuses the credentials or the permission, not the content."""

    kind = "rejected"


class NotFoundError(ApiError):
    """There is no such object, nor can there be one: its namespace is being deleted."""

    kind = "not_found"


class NotServedError(ApiError):
    """The server does not have that kind of object in a supported version."""

    kind = "not_served"


class ConflictError(ApiError):
    """The object is not the expected one, or exists already."""

    kind = "conflict"


class ExpiredError(ApiError):
    """The server does not have the requested resource version any more."""

    kind = "expired"


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that the server does not take: "spec.devices[3].name", and the rule."""

    field: str
    message: str


class InvalidError(ApiError):
    """The server does not take what was sent.

    Attributes:
        causes: the fields, where the server named them.
    """

    kind = "invalid"

    def __init__(
        self, subject: str, reason: str, remedy: str = "", causes: Sequence[Cause] = ()
    ) -> None:
        """Keep the facts."""
        super().__init__(subject, reason, remedy)
        self.causes = tuple(causes)
