"""Traffic between a client and the fake API server: requests, answers, watches and failures."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Document = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Document = field(default_factory=dict)

    def __str__(self) -> str:
        """Return method and path."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Response:
    """An answer; bytes are sent as they are."""

    status: int
    body: Document | bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class NoResponse:
    """No answer, and no end of the connection either."""


class End(Enum):
    """How a watch ends: as it should, or with the connection."""

    PROPER = "proper"
    BROKEN = "broken"


@dataclass
class WatchStream:
    """An open watch; it sends only events after the resourceVersion `since`."""

    plural: str
    version: str
    selector: Mapping[str, str]
    seconds: float
    bookmarks: bool
    since: int
    lines: "asyncio.Queue[bytes | End]" = field(default_factory=asyncio.Queue)


@dataclass
class InjectedFailure:
    """A failure of the next matching requests; the response None breaks the connection."""

    response: Response | NoResponse | None
    matches: Callable[[Request], bool]
    times: int
    done: bool = False  # whether the request is carried out nevertheless
