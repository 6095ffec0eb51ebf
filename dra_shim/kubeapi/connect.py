"""Connection to the API server: REST configuration from the flags, and HTTP client.

Rules:
1. TCP keep-alive detects a broken connection, because a watch can be idle for minutes, and so can
   a connection between two requests.
2. A request that the server refuses for its token is sent once more if there is another token.
3. Connections with the CA of before a rotation are not used for another request.
4. The proxy is that of the environment (HTTPS_PROXY, NO_PROXY).
"""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from dra_shim.kubeapi.requests import JSON, ApiRequest
from dra_shim.kubeapi.rest_config import RestConfig, in_cluster
from dranet_nri.errors import InvalidValueError

CONNECT_S: Final = 10.0
READ_S: Final = 30.0  # seconds without a byte; a watch has its own limit
# The server closes a connection after 90 s without a request (k8s.io/apiserver pkg/server,
# secure_serving.go). A new connection needs a TLS handshake, which would delay the start of a pod.
IDLE_S: Final = 80.0
USER_AGENT: Final = "dra-shim"

_Address = tuple[int, int, int, str, tuple[object, ...]]  # as of getaddrinfo(3)


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """TCP keep-alive of an idle connection (tcp(7)), in seconds.

    Attributes:
        after_s: idle time before the first probe.
        every_s: interval of probes.
        times: number of unanswered probes after which the connection is closed.
    """

    after_s: int
    every_s: int
    times: int

    def socket_of(self, address: _Address) -> socket.socket:
        """Return a socket with keep-alive for an address."""
        family, kind, protocol, *_ = address
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, self.after_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, self.every_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, self.times)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return opened


KEEP_ALIVE: Final = KeepAlive(30, 15, 4)  # detection within 90 s; a watch lasts up to 630 s


class _Response(aiohttp.ClientResponse):
    """Response whose close aborts the connection, unless the response is complete.

    aiohttp closes it as well when a request is cancelled before its answer. An orderly TLS shutdown
    would wait for the server for up to 30 s.
    """

    def close(self) -> None:
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.abort()
        super().close()


class HttpClient:
    """HTTP client of an API server."""

    def __init__(self, config: RestConfig, keep_alive: KeepAlive = KEEP_ALIVE) -> None:
        """Create the client; it connects at the first request.

        Args:
            config: address and credentials of the server.
            keep_alive: TCP keep-alive of each connection.

        Raises:
            InvalidValueError: the server is not a URL.
        """
        try:
            url = urlsplit(config.server)
            self.host = url.hostname or ""
            url.port  # noqa: B018 - raises if it is no number
        except ValueError as error:
            raise InvalidValueError(f"{config.server}: not the URL of a server: {error}") from error
        if not self.host or url.scheme not in ("http", "https"):
            raise InvalidValueError(f"{config.server}: the server must be an http(s):// URL")
        self._proxy = _proxy_of(url)
        self._base = f"{config.server.rstrip('/')}/"
        self._config, self._keep_alive = config, keep_alive
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def send(
        self, request: ApiRequest, read_timeout_s: float = READ_S
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; the response ends with the context.

        Args:
            request: the request.
            read_timeout_s: longest time without a byte.

        Raises:
            CredentialsError: there is no token.
            aiohttp.ClientError: there is no connection, or no HTTP response.
        """
        auth = self._config.auth
        sent = await auth.header() if auth else ""
        response = await self._response(request, read_timeout_s, sent)
        try:
            if auth and response.status == 401 and (again := await auth.renewed(sent)):
                response.close()
                response = await self._response(request, read_timeout_s, again)
            yield response
        finally:
            response.close()

    async def _response(
        self, request: ApiRequest, read_timeout_s: float, authorization: str
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": JSON, "Content-Type": request.content_type}
        if authorization:
            headers["Authorization"] = authorization
        return await self._client_session().request(
            request.method,
            self._base + request.path,
            params=request.query,
            data=request.body,
            headers=headers,
            ssl=self._config.context(),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(connect=CONNECT_S, sock_read=read_timeout_s),
        )

    def _client_session(self) -> aiohttp.ClientSession:
        """Return the session, which belongs to the running event loop."""
        if self._session is None:
            connector = aiohttp.TCPConnector(
                keepalive_timeout=IDLE_S, socket_factory=self._keep_alive.socket_of
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": USER_AGENT},
                proxy=self._proxy,
                middlewares=(_send_once,),
                response_class=_Response,
            )
        return self._session


async def _send_once(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send a request once; aiohttp itself repeats idempotent requests on broken connections.

    The server may have been restored meanwhile, and a repeated watch would continue from a state
    that it no longer has; see informer.py. All callers retry with a back-off.
    """
    try:
        return await send(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(str(error)) from error


def _proxy_of(url: SplitResult) -> str | None:
    """Return the proxy for a server, None to connect directly.

    NO_PROXY may have networks, as for Go programs, for example those of the cluster's Services.
    """
    if proxy_bypass(url.netloc):
        return None
    proxies = getproxies()
    for entry in proxies.get("no", "").split(","):
        with suppress(ValueError):  # a name
            if ip_address(url.hostname or "") in ip_network(entry.strip(), strict=False):
                return None
    return proxies.get(url.scheme)


def rest_config_of(kubeconfig: Path | None, environ: Mapping[str, str]) -> RestConfig:
    """Return the configuration of a kubeconfig, or that of this pod.

    Raises:
        InvalidValueError: there is no configuration, or it cannot be used.
    """
    if kubeconfig is None:
        return in_cluster(environ)
    # Imported here: lightkube, which reads kubeconfigs, takes 4 MiB of memory.
    from dra_shim.kubeapi.kubeconfig import from_kubeconfig

    return from_kubeconfig(kubeconfig)
