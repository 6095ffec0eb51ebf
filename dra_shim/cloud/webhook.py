"""Webhook provider: a server of the administrator that provides device facts and profiles.

Rules:
1. Requests have the fields of both dranet releases: `claim_uid`, and `claim` with the whole claim,
   so that servers for either release work.
2. Each response is limited in time and size. The caller retries.

Origin: kubernetes-sigs/dranet, "Custom Webhook Providers" (paths, fields, status codes).
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from dra_shim.cel.values import is_semver
from dra_shim.cloud.metadata import read_body
from dra_shim.cloud.provider import (
    CloudError,
    DeviceFacts,
    ProviderDeviceId,
    ProviderFacts,
    read_json,
)
from dranet_nri.errors import InvalidValueError
from dranet_nri.inventory.attributes import MAX_STRING_BYTES
from dranet_nri.model import AttributeValue, ObjectRef, Version
from dranet_nri.model.api_names import parse_qualified

ANSWER_S: Final = 10.0  # seconds, as in dranet
MAX_ANSWER: Final = 256 << 10  # bytes
CACHE_S: Final = 60.0  # seconds for which the facts of a device are valid
MAX_CONCURRENT: Final = 8  # requests at a time
# a retry of the same request would fail again
_DENIED: Final = frozenset({400, 401, 403, 404, 405, 410, 413, 422})
_MAX_INTEGER: Final = 2**63


class DeniedError(CloudError):
    """The webhook refuses the request; a retry would be refused again."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Features that a webhook provides: facts of devices, profiles, runtime hooks of profiles."""

    cloud: bool
    profiles: bool
    hooks: bool = False


class Webhook:
    """Client of one webhook server; call `close` at the end."""

    def __init__(self, url: str, *, answer_s: float = ANSWER_S) -> None:
        """Create the client; no connection is opened.

        Args:
            url: see parse_url; not "".
            answer_s: timeout of a request, in seconds.
        """
        parts = urlsplit(url)
        self._url = url
        self._answer_s = answer_s
        self._socket = parts.path if parts.scheme == "unix" else ""
        self._base = "http://webhook" if self._socket else url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def capabilities(self) -> Capabilities:
        """Return the features of the server.

        Raises:
            CloudError: the server does not answer.
        """
        found = await self._answer("GET", "/health", None)
        names = ("cloudProvider", "profileProvider", "runtimeHook")
        return Capabilities(*(found.get(name) is True for name in names))

    async def facts(self, device: ProviderDeviceId) -> DeviceFacts:
        """Return the attributes and parameters of a device.

        Raises:
            CloudError: the server does not answer, or returns an invalid attribute.
        """
        named = _device_document(device, device.interface or device.name)
        attributes = await self._answer("POST", "/GetDeviceAttributes", named)
        parameters = await self._answer(
            "POST", "/GetDeviceConfig", _device_document(device, device.name)
        )
        return DeviceFacts(tuple(map(_attribute, attributes.items())), parameters)

    async def profile(
        self,
        device: ProviderDeviceId,
        claim: Mapping[str, object],
        uid: str,
        config: Mapping[str, object],
    ) -> Mapping[str, object]:
        """Return the parameters of a profile for a device. Idempotent.

        Args:
            device: the device.
            claim: the ResourceClaim.
            uid: UID of the claim.
            config: parameters of class, claim and cloud, with the name of the profile.

        Raises:
            DeniedError: the profile does not exist, or the claim may not have it.
            CloudError: the server does not answer.
        """
        document = _profile_document(device, claim, uid, config)
        return await self._answer("POST", "/GetProfileConfig", document)

    async def runtime_hook(
        self,
        device: ProviderDeviceId,
        claim: Mapping[str, object],
        uid: str,
        config: Mapping[str, object],
    ) -> Mapping[str, object]:
        """Return the program that dranet would run for a device of the pod; empty if none.

        Args:
            device: the device.
            claim: the ResourceClaim.
            uid: UID of the claim.
            config: parameters with those of the profile.

        Raises:
            CloudError: see `profile`.
        """
        document = _profile_document(device, claim, uid, config)
        return await self._answer("POST", "/GetRuntimeHook", document)

    async def release(
        self, device: ProviderDeviceId, claim: ObjectRef, config: Mapping[str, object]
    ) -> None:
        """Release a profile.

        Raises:
            DeniedError: the webhook refuses the request.
            CloudError: the result is unknown; call again.
        """
        document = {
            "device": _device_document(device, device.name),
            "claim_uid": claim.uid,
            "config": config,
        }
        await self._answer("POST", "/ReleaseProfileConfig", document, ignored=True)

    async def _answer(
        self, method: str, path: str, body: object, *, ignored: bool = False
    ) -> Mapping[str, object]:
        what = f"webhook {self._url} {path}"
        try:
            async with asyncio.timeout(self._answer_s):
                async with self._client_session().request(
                    method, self._base + path, json=body, allow_redirects=False
                ) as reply:
                    text = await read_body(reply, what, MAX_ANSWER)
        except (TimeoutError, aiohttp.ClientError) as error:
            raise CloudError(f"{what}: {str(error) or 'no answer in time'}") from error
        if reply.status != HTTPStatus.OK:
            kind = DeniedError if reply.status in _DENIED else CloudError
            raise kind(f"{what}: answered {reply.status}: {' '.join(text[:300].split())}")
        if ignored:
            return {}
        found = read_json(text, what)
        if found is None:  # Go's encoding of an empty map
            return {}
        if not isinstance(found, Mapping):
            raise CloudError(f"{what}: answered {text[:60]!r}, must be a JSON object")
        return found

    def _client_session(self) -> aiohttp.ClientSession:
        """Return the session, which belongs to the running event loop."""
        if self._session is None:
            connector = aiohttp.UnixConnector(self._socket) if self._socket else None
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session


def _device_document(device: ProviderDeviceId, name: str) -> dict[str, str]:
    addresses = {"mac_address": device.mac, "pci_address": device.pci}
    return {key: text for key, text in addresses.items() if text} | {"name": name}


def _profile_document(
    device: ProviderDeviceId, claim: Mapping[str, object], uid: str, config: Mapping[str, object]
) -> Mapping[str, object]:
    return {
        "device": _device_document(device, device.name),
        "claim": claim,
        "claim_uid": uid,
        "config": config,
    }


def _attribute(entry: tuple[str, object]) -> tuple[str, AttributeValue]:
    name, value = entry
    try:
        parse_qualified(name)
    except InvalidValueError as error:
        raise CloudError(f"webhook attribute {name[:80]!r}: {error}") from None
    match value:
        case {"string": str(text)}:
            return name, text
        case {"bool": bool(flag)}:
            return name, flag
        case {"int": bool()}:
            pass
        case {"int": int(number)} if -_MAX_INTEGER <= number < _MAX_INTEGER:
            return name, number
        case {"version": str(text)} if is_semver(text) and len(text) <= MAX_STRING_BYTES:
            return name, Version(text)
    raise CloudError(
        f'webhook attribute {name}: {value!r}: must be {{"string": …}}, {{"int": …}}, '
        '{"bool": …} or {"version": …}, a semantic version such as 1.2.3 of at most '
        f"{MAX_STRING_BYTES} bytes"
    )


class WebhookProvider:
    """Provider from a webhook, with a cache for each device."""

    name = "webhook"
    required = True

    def __init__(self, webhook: Webhook) -> None:
        """Create the provider; no request is sent."""
        self._webhook = webhook
        self._cached: dict[ProviderDeviceId, tuple[float, DeviceFacts]] = {}
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def describe(self, devices: Sequence[ProviderDeviceId]) -> ProviderFacts:
        """Implement Provider."""
        if not (await self._webhook.capabilities()).cloud:
            return ProviderFacts({device: DeviceFacts() for device in devices})
        now = asyncio.get_running_loop().time()
        self._cached = {
            device: self._cached[device] for device in devices if device in self._cached
        }
        due = [
            device
            for device in devices
            if device not in self._cached or self._cached[device][0] <= now
        ]
        failures = await asyncio.gather(*map(self._request_facts, due))
        return ProviderFacts(
            {device: facts for device, (_, facts) in self._cached.items()},
            next(filter(None, failures), ""),
        )

    async def _request_facts(self, device: ProviderDeviceId) -> str:
        """Request the facts of a device; return the error, "" after success."""
        async with self._slots:
            try:
                facts = await self._webhook.facts(device)
            except CloudError as error:
                return f"device {device.name}: {error}"
        self._cached[device] = (asyncio.get_running_loop().time() + CACHE_S, facts)
        return ""
