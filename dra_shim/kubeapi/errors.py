"""API errors: failed requests to an API server.

ApiError                the request, the reason and the remedy
├── UnavailableError    no response, or a request to retry (3xx, 408, 429, 5xx)
├── RejectedError       the server rejects the credentials (401) or forbids the request (403)
├── NotFoundError       the object does not exist, or its namespace is being deleted
├── NotServedError      the server has no supported version of the kind
├── ConflictError       the object changed, exists already, or has another UID
├── ExpiredError        the resource version is too old: list again
└── InvalidError        the server rejects the object; names the fields

CredentialsError        no request was sent, because there are no credentials
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dranet_nri.errors import DranetError


class ApiError(DranetError):
    """A request failed.

    Attributes:
        subject: the request: "update ResourceSlice node-1-dra.net-0".
        reason: the error, with the server's message if there is one.
        remedy: the remedy, "" if only a retry can help.
        after_s: seconds of Retry-After, 0.0 if there is none.
    """

    kind = "api"

    def __init__(
        self, subject: str, reason: str, remedy: str = "", *, after_s: float = 0.0
    ) -> None:
        """Store the attributes; the text is one line of subject, reason and remedy."""
        super().__init__(f"{subject}: {reason}{f'; {remedy}' if remedy else ''}")
        self.subject = subject
        self.reason = reason
        self.remedy = remedy
        self.after_s = after_s


class CredentialsError(DranetError):
    """There is no token to send now."""


class UnavailableError(ApiError):
    """No response, or a request to retry."""

    kind = "unavailable"


class TooLargeError(UnavailableError):
    """The response exceeds the size limit."""


class RejectedError(ApiError):
    """The server rejects the credentials or the permission, not the content."""

    kind = "rejected"


class NotFoundError(ApiError):
    """The object does not exist, or cannot exist because its namespace is being deleted."""

    kind = "not_found"


class NotServedError(ApiError):
    """The server does not serve the kind in a supported version."""

    kind = "not_served"


class ConflictError(ApiError):
    """The object is not the expected one, or exists already."""

    kind = "conflict"


class ExpiredError(ApiError):
    """The server no longer has the requested resource version."""

    kind = "expired"


@dataclass(frozen=True, slots=True)
class Cause:
    """One rejected field, such as "spec.devices[3].name", and the rule."""

    field: str
    message: str


class InvalidError(ApiError):
    """The server rejects the content.

    Attributes:
        causes: the rejected fields, if the server names them.
    """

    kind = "invalid"

    def __init__(
        self, subject: str, reason: str, remedy: str = "", causes: Sequence[Cause] = ()
    ) -> None:
        """Store the causes; the other arguments are those of ApiError."""
        super().__init__(subject, reason, remedy)
        self.causes = tuple(causes)
