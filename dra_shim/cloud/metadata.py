"""Metadata server client: requests are limited in time and size, without proxies and redirects."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

import aiohttp

from dra_shim.cloud.provider import (
    Cloud,
    CloudError,
    Describe,
    MetadataRequest,
    ProviderDeviceId,
    ProviderFacts,
)

ANSWER_S: Final = 5.0  # seconds of a whole request
CACHE_S: Final = 240.0  # seconds for which a response is valid; NICs and addresses can be added
MAX_ANSWER: Final = 1 << 20  # bytes


class MetadataProvider:
    """Provider from a metadata server, with a cache."""

    required = False

    def __init__(
        self, cloud: Cloud, server: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Create the provider; no request is sent.

        Args:
            cloud: the cloud.
            server: address of the server, "" for the default of the cloud.
            clock: monotonic seconds.
        """
        self._cloud, self._server, self._clock = cloud, server or cloud.server, clock
        self._describe: Describe | None = None
        self._due = 0.0

    @property
    def name(self) -> str:
        """Return the name of the cloud."""
        return self._cloud.name

    async def describe(self, devices: Sequence[ProviderDeviceId]) -> ProviderFacts:
        """Implement Provider."""
        if self._describe is None or self._due <= self._clock():
            self._describe = await self._load()
            self._due = self._clock() + CACHE_S
        describe = self._describe
        return ProviderFacts({device: describe(device) for device in devices})

    async def _load(self) -> Describe:
        async with _client(self._server) as client:

            async def get(request: MetadataRequest) -> str:
                return await _answer(client, request, self.name)

            return await self._cloud.load(get)


@asynccontextmanager
async def _client(server: str) -> AsyncIterator[aiohttp.ClientSession]:
    # The address is link-local: a proxy cannot reach it (trust_env is off).
    timeout = aiohttp.ClientTimeout(total=ANSWER_S)  # also of an answer that comes byte by byte
    async with aiohttp.ClientSession(server, timeout=timeout) as client:
        yield client


async def _answer(client: aiohttp.ClientSession, request: MetadataRequest, name: str) -> str:
    what = f"{name} metadata {request.path.partition('?')[0]}"
    try:
        async with client.request(
            request.method,
            request.path,
            headers=dict(request.headers),
            allow_redirects=False,  # other servers are not trusted
        ) as reply:
            if request.optional and reply.status == HTTPStatus.NOT_FOUND:
                return ""
            if reply.status != HTTPStatus.OK:
                raise CloudError(f"{what}: answered {reply.status}")
            return await read_body(reply, what, MAX_ANSWER)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise CloudError(f"{what}: {str(error) or type(error).__name__}") from error


async def read_body(reply: aiohttp.ClientResponse, what: str, limit: int) -> str:
    """Return the body of a response.

    Args:
        reply: the response.
        what: the request, for messages.
        limit: largest size in bytes.

    Raises:
        CloudError: the body is larger.
    """
    body = b""
    async for part in reply.content.iter_any():
        body += part
        if len(body) > limit:
            raise CloudError(f"{what}: answered more than {limit} bytes")
    return body.decode(errors="replace")
