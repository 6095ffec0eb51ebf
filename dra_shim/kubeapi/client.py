"""API client: requests to an API server, limited in time and size.

Rules:
1. The client does not retry, except with a new token; the caller decides.
2. Each response is limited in time and in size.
3. The served version of an API group is requested once, and again after an error.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Final

import aiohttp

from dra_shim.kubeapi import requests
from dra_shim.kubeapi.connect import READ_S, HttpClient
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
from dranet_nri.component.replace import replace

ANSWER_S: Final = 60.0  # seconds; the server's own limit (--request-timeout)
WATCH_MARGIN_S: Final = 30.0  # seconds by which a watch may exceed its requested duration
MAX_REPLY: Final = 16 << 20  # bytes; the parsed objects take six to twenty times as much
MAX_EVENT: Final = 8 << 20  # bytes; etcd holds objects of 1.5 MiB

_NO_QUERY: Final[Mapping[str, str]] = {}


class ApiClient:
    """Client of an API server."""

    def __init__(
        self,
        http: HttpClient,
        *,
        answer_s: float = ANSWER_S,
        margin_s: float = WATCH_MARGIN_S,
    ) -> None:
        """Create the client; no connection is opened.

        Args:
            http: HTTP client of the server.
            answer_s: timeout of a request; a watch has its own.
            margin_s: seconds by which a watch may exceed its requested duration.
        """
        self._http = http
        self._answer_s = answer_s
        self._margin_s = margin_s
        self._versions: dict[str, str] = {"": "v1", REVIEW.group: "v1"}

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def version(self, kind: Kind) -> str:
        """Return the API version of documents of a kind, for requests and responses.

        Raises:
            NotServedError: the server has no supported version.
            ApiError: see get.
        """
        versions = self._versions.get(kind.group)
        if versions is None:
            request = requests.discovery(kind.group)
            versions = read_versions(request, await self._reply(request), kind.group)
            self._versions[kind.group] = versions
        return versions

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """Return an object.

        Raises:
            NotFoundError: there is no object of this name.
            UnavailableError: the server does not answer now.
            ApiError: the server refuses.
        """
        path = await self._path(kind, namespace, name)
        return await self._object(kind, requests.getting(path))

    async def list(
        self, kind: Kind, fields: Mapping[str, str] = _NO_QUERY, resource_version: str = ""
    ) -> ObjectList:
        """Return all objects of a kind.

        Args:
            kind: the kind.
            fields: field selector.
            resource_version: "" for the newest state, "0" for any state in the server's cache.

        Raises:
            ApiError: see get.
        """
        path = await self._path(kind)
        return await self._listing(kind, requests.listing(path, fields, resource_version))

    async def pages(self, kind: Kind, limit: int) -> AsyncGenerator[ObjectList, None]:
        """Yield all objects of a kind in the state of the first page, at most limit per request.

        If a page is too large, smaller pages are requested from then on.

        Raises:
            ExpiredError: the server no longer has the state of the first page; list again.
            TooLargeError: one object is too large.
            ApiError: see get.
        """
        continue_token = ""
        while True:
            request = requests.paging(await self._path(kind), limit, continue_token)
            try:
                page = await self._listing(kind, request)
            except TooLargeError:
                if limit == 1:
                    raise
                limit //= 2
                continue
            yield page
            continue_token = page.continue_token
            if not continue_token:
                return

    async def watch(
        self, kind: Kind, fields: Mapping[str, str], resource_version: str, seconds: int
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield changes after a state, until the server ends the watch.

        Close the iterator (contextlib.aclosing) to leave it early.

        Args:
            kind: the kind.
            fields: field selector.
            resource_version: that of a list or an event.
            seconds: requested duration of the watch.

        Raises:
            ExpiredError: the server no longer has this state; list again.
            UnavailableError: the connection broke, or was silent for too long.
            ApiError: see get.
        """
        request = requests.watching(await self._path(kind), fields, resource_version, seconds)
        try:
            async with self._send(request, seconds + self._margin_s) as response:
                if response.status != 200:
                    raise failure(request, await _read_body(request, response))
                async with aclosing(_lines(request, response)) as lines:
                    async for line in lines:
                        yield read_event(request, line)
        except NotServedError:
            self._forget_version(kind)
            raise

    async def create(
        self, kind: Kind, document: Document, namespace: str = "", *, dry_run: bool = False
    ) -> Object:
        """Create an object, or validate it with dry_run; return it as the server stored it.

        Raises:
            ConflictError: an object of this name exists.
            InvalidError: the server rejects the object.
            ApiError: see get.
        """
        path = await self._path(kind, namespace)
        request = requests.creating(path, document, dry_run=dry_run)
        subject = str(replace(path, name=name_of(document)))  # the path has no name
        return await self._object(kind, replace(request, subject=subject))

    async def replace(self, kind: Kind, document: Document, namespace: str = "") -> Object:
        """Replace an object in the state of the document; return it as the server stored it.

        Raises:
            ConflictError: the object has another state.
            NotFoundError: the object does not exist.
            InvalidError: the server rejects the object.
            ApiError: see get.
        """
        path = await self._path(kind, namespace, name_of(document))
        return await self._object(kind, requests.replacing(path, document))

    async def delete(
        self, kind: Kind, name: str, uid: str, version: str = "", namespace: str = ""
    ) -> None:
        """Delete the object with this name, UID and, if given, state.

        Raises:
            ConflictError: the object has another UID or state.
            NotFoundError: the object does not exist.
            ApiError: see get.
        """
        path = await self._path(kind, namespace, name)
        await self._object(kind, requests.deleting(path, uid, version))

    async def apply(
        self,
        kind: Kind,
        document: Document,
        manager: str,
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """Apply a document by server-side apply as one of several managers; return the object.

        Fields that this manager applied before and omits now are removed. A metadata.uid in the
        document must be that of the object.

        Raises:
            ConflictError: the object has another UID.
            NotFoundError: a subresource of an object that does not exist.
            InvalidError: the server rejects the document.
            ApiError: see get.
        """
        path = await self._path(kind, namespace, name_of(document), subresource)
        return await self._object(kind, requests.applying(path, document, manager))

    async def _path(
        self, kind: Kind, namespace: str = "", name: str = "", subresource: str = ""
    ) -> ObjectPath:
        return ObjectPath(kind, await self.version(kind), namespace, name, subresource)

    def _forget_version(self, kind: Kind) -> None:
        if kind.group:
            self._versions.pop(kind.group, None)

    async def _listing(self, kind: Kind, request: ApiRequest) -> ObjectList:
        try:
            return read_listing(request, await self._reply(request))
        except NotServedError:
            self._forget_version(kind)
            raise

    async def _object(self, kind: Kind, request: ApiRequest) -> Object:
        try:
            return read_object(request, await self._reply(request))
        except NotServedError:
            self._forget_version(kind)
            raise

    async def _reply(self, request: ApiRequest) -> ApiResponse:
        try:
            async with asyncio.timeout(self._answer_s), self._send(request) as response:
                return await _read_body(request, response)
        except TimeoutError as error:
            raise UnavailableError(
                str(request), f"no answer within {self._answer_s:g} s"
            ) from error

    @asynccontextmanager
    async def _send(
        self, request: ApiRequest, read_timeout_s: float = READ_S
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; a connection error in the block becomes an UnavailableError."""
        host = self._http.host
        try:
            async with self._http.send(request, read_timeout_s) as response:
                yield response
        except aiohttp.SocketTimeoutError as error:
            raise UnavailableError(str(request), f"{host} sent nothing for too long") from error
        except aiohttp.ClientError as error:
            reason = f"no connection to {host}: {str(error) or type(error).__name__}"
            raise UnavailableError(str(request), reason) from error
        except (CredentialsError, OSError) as error:
            raise UnavailableError(str(request), str(error)) from error


async def _read_body(request: ApiRequest, response: aiohttp.ClientResponse) -> ApiResponse:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_REPLY:
            raise TooLargeError(str(request), f"the answer is larger than {MAX_REPLY >> 20} MiB")
    headers = {name.lower(): value for name, value in response.headers.items()}
    return ApiResponse(response.status, bytes(body), headers)


async def _lines(
    request: ApiRequest, response: aiohttp.ClientResponse
) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a watch; an incomplete last line is dropped."""
    incomplete = b""
    async for piece in response.content.iter_any():
        *lines, incomplete = (incomplete + piece).split(b"\n")
        if len(incomplete) > MAX_EVENT:
            raise UnavailableError(str(request), f"an event is larger than {MAX_EVENT >> 20} MiB")
        for line in lines:
            if line.strip():
                yield line
