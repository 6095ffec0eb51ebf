"""API client: requests sent to an API server, with a bounded time.

Rules:
1. The client does not retry; the caller decides. Only a token is read again.
2. Every answer is bounded, in time and in size. A watch may be silent for minutes, and so may a
   connection between two requests; keep-alive checks that the server is still there.
3. The served version of a group is requested once, and again when it is gone.
"""

import asyncio
import socket
from asyncio.trsock import TransportSocket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

import httpx2

from dra_shim.kubeapi import requests
from dra_shim.kubeapi.errors import (
    CredentialsError,
    NotServedError,
    TooLargeError,
    UnavailableError,
)
from dra_shim.kubeapi.requests import REVIEW, ApiRequest, Document, Kind, ObjectPath
from dra_shim.kubeapi.responses import (
    ApiResponse,
    Object,
    ObjectList,
    WatchEvent,
    failure,
    name_of,
    read_event,
    read_listing,
    read_object,
    read_versions,
)

ANSWER_S: Final = 60.0  # the server itself gives up after that (--request-timeout)
WATCH_MARGIN_S: Final = 30.0  # a watch may end that much later than announced
MAX_REPLY: Final = 16 << 20  # bytes; read, it takes six to twenty times that
MAX_EVENT: Final = 8 << 20  # bytes; etcd holds objects of 1.5 MiB

_NO_QUERY: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """TCP keep-alive of a silent connection (tcp(7)), in seconds.

    Attributes:
        after_s: of silence, before it is asked first.
        every_s: before it is asked again.
        times: asked in vain, it is dead.
    """

    after_s: int
    every_s: int
    times: int


PULSE: Final = KeepAlive(30, 15, 4)  # dead within 90 s, where a watch's own time is up to 630 s


class ApiClient:
    """An API server."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        *,
        answer_s: float = ANSWER_S,
        margin_s: float = WATCH_MARGIN_S,
        pulse: KeepAlive = PULSE,
    ) -> None:
        """Prepare; nothing is opened.

        Args:
            http: a client of the server; see connect.connect.
            answer_s: how long an answer may take as a whole; a watch has its own time.
            margin_s: how long after that a watch may still be silent.
            pulse: TCP keep-alive of each connection.
        """
        self._http = http
        self._answer_s = answer_s
        self._margin_s = margin_s
        self._pulse = pulse
        self._versions: dict[str, str] = {"": "v1", REVIEW.group: "v1"}

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def version(self, kind: Kind) -> str:
        """Return the version in which documents of a kind are, both ways.

        Raises:
            NotServedError: the server has no supported version.
            ApiError: see get.
        """
        known = self._versions.get(kind.group)
        if known is None:
            asked = requests.discovery(kind.group)
            known = read_versions(asked, await self._reply(asked), kind.group)
            self._versions[kind.group] = known
        return known

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """Return an object.

        Raises:
            NotFoundError: there is none of that name.
            UnavailableError: the server cannot answer now.
            ApiError: it will not.
        """
        place = await self._place(kind, namespace, name)
        return await self._object(kind, requests.getting(place))

    async def list(
        self, kind: Kind, fields: Mapping[str, str] = _NO_QUERY, since: str = ""
    ) -> ObjectList:
        """Return all objects of a kind.

        Args:
            kind: which.
            fields: field selector.
            since: "" for the newest state, "0" for any that the server has at hand.

        Raises:
            ApiError: see get.
        """
        return await self._listing(kind, requests.listing(await self._place(kind), fields, since))

    async def pages(self, kind: Kind, limit: int) -> AsyncGenerator[ObjectList, None]:
        """Yield all objects of a kind, at most limit at a time, all as they were at first.

        Where so many are too large to be read at once, fewer are asked for from then on.

        Raises:
            ExpiredError: the server no longer has the first page's state; list again.
            TooLargeError: one is too large.
            ApiError: see get.
        """
        rest = ""
        while True:
            asked = requests.paging(await self._place(kind), limit, rest)
            try:
                page = await self._listing(kind, asked)
            except TooLargeError:
                if limit == 1:
                    raise
                limit //= 2
                continue
            yield page
            rest = page.rest
            if not rest:
                return

    async def watch(
        self, kind: Kind, fields: Mapping[str, str], since: str, seconds: int
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield what changes after a state, until the server ends it.

        Close the iterator (contextlib.aclosing) when you leave it early.

        Args:
            kind: which.
            fields: field selector.
            since: resourceVersion of a listing or an event.
            seconds: how long the server shall go on.

        Raises:
            ExpiredError: the server no longer has that state; list again.
            UnavailableError: the connection broke, or fell silent.
            ApiError: see get.
        """
        asked = requests.watching(await self._place(kind), fields, since, seconds)
        patience = httpx2.Timeout(seconds + self._margin_s, connect=self._http.timeout.connect)
        try:
            async with self._sent(asked, patience) as response:
                if response.status_code != 200:
                    raise failure(asked, await _whole(asked, response))
                async with aclosing(_lines(asked, response)) as lines:
                    async for line in lines:
                        yield read_event(asked, line)
        except NotServedError:
            self._forget(kind)
            raise

    async def create(
        self, kind: Kind, document: Document, namespace: str = "", *, dry_run: bool = False
    ) -> Object:
        """Create an object, or with dry_run only see what would be; return it as it is now.

        Raises:
            ConflictError: there is one of that name.
            InvalidError: the server does not take it.
            ApiError: see get.
        """
        place = await self._place(kind, namespace)
        asked = requests.creating(place, document, dry_run=dry_run)
        called = replace(place, name=name_of(document))
        return await self._object(kind, replace(asked, subject=str(called)))

    async def replace(self, kind: Kind, document: Document, namespace: str = "") -> Object:
        """Replace an object, in the state that the document names; return it as it is now.

        Raises:
            ConflictError: it is in another state.
            NotFoundError: it is gone.
            InvalidError: the server does not take it.
            ApiError: see get.
        """
        place = await self._place(kind, namespace, name_of(document))
        return await self._object(kind, requests.replacing(place, document))

    async def delete(
        self, kind: Kind, name: str, uid: str, version: str = "", namespace: str = ""
    ) -> None:
        """Delete the object of that name, UID and, if given, state.

        Raises:
            ConflictError: it is another one, or in another state.
            NotFoundError: it is gone.
            ApiError: see get.
        """
        place = await self._place(kind, namespace, name)
        await self._object(kind, requests.deleting(place, uid, version))

    async def apply(
        self, kind: Kind, document: Document, manager: str, namespace: str = "", part: str = ""
    ) -> Object:
        """Apply a document on the server's side as one of several managers; return the object.

        What this manager applied before and leaves out now goes. A metadata.uid in the document
        must be the object's.

        Raises:
            ConflictError: it is another object.
            NotFoundError: a part of an object that is gone.
            InvalidError: the server does not take it.
            ApiError: see get.
        """
        place = await self._place(kind, namespace, name_of(document), part)
        return await self._object(kind, requests.applying(place, document, manager))

    async def _place(
        self, kind: Kind, namespace: str = "", name: str = "", part: str = ""
    ) -> ObjectPath:
        return ObjectPath(kind, await self.version(kind), namespace, name, part)

    def _forget(self, kind: Kind) -> None:
        if kind.group:
            self._versions.pop(kind.group, None)

    async def _listing(self, kind: Kind, asked: ApiRequest) -> ObjectList:
        try:
            return read_listing(asked, await self._reply(asked))
        except NotServedError:
            self._forget(kind)
            raise

    async def _object(self, kind: Kind, asked: ApiRequest) -> Object:
        try:
            return read_object(asked, await self._reply(asked))
        except NotServedError:
            self._forget(kind)
            raise

    async def _reply(self, asked: ApiRequest) -> ApiResponse:
        try:
            async with (
                asyncio.timeout(self._answer_s),
                self._sent(asked, self._http.timeout) as response,
            ):
                return await _whole(asked, response)
        except TimeoutError as error:
            raise UnavailableError(str(asked), f"no answer within {self._answer_s:g} s") from error

    @asynccontextmanager
    async def _sent(
        self, asked: ApiRequest, patience: httpx2.Timeout
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request; what fails of the connection meanwhile is an UnavailableError."""
        host = self._http.base_url.host
        headers = {"Accept": requests.JSON, "Content-Type": asked.content_type}
        try:
            async with self._http.stream(
                asked.method,
                asked.path,
                params=asked.query,
                content=asked.body,
                headers=headers,
                timeout=patience,
            ) as response:
                _look_after(response, self._pulse)
                yield response
        except httpx2.ReadTimeout as error:
            raise UnavailableError(str(asked), f"{host} fell silent") from error
        except httpx2.HTTPError as error:
            reason = f"no connection to {host}: {str(error) or type(error).__name__}"
            raise UnavailableError(str(asked), reason) from error
        except (CredentialsError, OSError) as error:
            raise UnavailableError(str(asked), str(error)) from error


def _look_after(response: httpx2.Response, pulse: KeepAlive) -> None:
    """Have the kernel end the response's connection when its other end is gone without a word."""
    stream = response.extensions["network_stream"]
    found: TransportSocket = stream.get_extra_info("socket")
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, pulse.after_s)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, pulse.every_s)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, pulse.times)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


async def _whole(asked: ApiRequest, response: httpx2.Response) -> ApiResponse:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_REPLY:
            raise TooLargeError(str(asked), f"the answer is larger than {MAX_REPLY >> 20} MiB")
    headers = {name.lower(): value for name, value in response.headers.items()}
    return ApiResponse(response.status_code, bytes(body), headers)


async def _lines(asked: ApiRequest, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a watch; what comes after the last end of line is half an event."""
    rest = b""
    async for piece in response.aiter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > MAX_EVENT:
            raise UnavailableError(str(asked), f"an event is larger than {MAX_EVENT >> 20} MiB")
        for line in lines:
            if line.strip():
                yield line
