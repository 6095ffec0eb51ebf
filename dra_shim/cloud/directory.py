"""Cloud directory: facts of all devices from the provider, refreshed in the background.

Rules:
1. A scan never waits for a provider. Only the first publication waits, for a few seconds, so that a
   restart does not remove attributes temporarily.
2. If a provider does not answer, its last facts remain valid.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from dra_shim.cloud.provider import (
    CloudError,
    DeviceFacts,
    Provider,
    ProviderDeviceId,
    enriched,
    identity_of,
    needs_addresses,
)
from dranet_nri.component.backoff import Backoff
from dranet_nri.component.notice import LogLine, LogNotice
from dranet_nri.model import Device, NetworkConfig

FIRST_S: Final = 5.0  # seconds for the first facts
REFRESH_S: Final = 300.0  # seconds; NICs and addresses are added while a machine runs
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_NO_FACTS: Final = DeviceFacts()

SelectProvider = Callable[[], Awaitable[Provider | None]]


@dataclass(frozen=True, slots=True)
class CloudFound(LogNotice):
    """A provider was selected; name is "" if there is none."""

    name: str

    def line(self) -> LogLine:
        """Return the log line."""
        if not self.name:
            return LogLine("info", "no cloud provider")
        return LogLine("info", "cloud provider", {"cloud": self.name})


@dataclass(frozen=True, slots=True)
class CloudFailed(LogNotice):
    """The provider does not answer; its last answer remains valid."""

    log = LogLine(
        "warning", "cloud provider does not answer; its last answer remains valid", limited=True
    )
    error: CloudError
    retry_s: float


CloudNotice = CloudFound | CloudFailed


class CloudDirectory:
    """Facts of the node's devices from one provider."""

    def __init__(
        self,
        select: SelectProvider,
        changed: Callable[[], None],
        notify: Callable[[CloudNotice], None],
        *,
        required: bool = False,
    ) -> None:
        """Create the directory; `run` sends requests.

        Args:
            select: returns the provider, None outside a cloud.
            changed: called when facts changed; must not raise.
            notify: called with notices; must not raise.
            required: Prepare waits for facts until a provider is selected.
        """
        self._select, self._changed, self._notify = select, changed, notify
        self._provider: Provider | None = None
        self._required = required
        self._facts: Mapping[ProviderDeviceId, DeviceFacts] = {}
        self._devices: frozenset[ProviderDeviceId] = frozenset()
        self._devices_changed = asyncio.Event()
        self._answered = asyncio.Event()
        self._waited = False

    def enriched(self, device: Device) -> Device:
        """Return a device with the known attributes."""
        facts = self._facts.get(identity_of(device), _NO_FACTS)
        return enriched(device, facts) if facts.attributes else device

    def parameters(self, device: Device, own: NetworkConfig) -> tuple[str, Mapping[str, object]]:
        """Return the name of the provider and its parameters for a device.

        Args:
            device: the device.
            own: parameters of class and claim.

        Raises:
            CloudError: Prepare must wait, because they are not known yet.
        """
        identity = identity_of(device)
        facts = self._facts.get(identity)
        waits = self._required or (self._provider is not None and needs_addresses(own))
        if facts is None and waits and identity in self._devices:
            raise CloudError(
                f"device {device.name}: the cloud provider has no facts about it yet; see its log, "
                "and that of dra-shim"
            )
        name = self._provider.name if self._provider else ""
        return name, (facts or _NO_FACTS).parameters_for(own)

    async def update_devices(self, devices: Iterable[Device]) -> bool:
        """Set the devices, and return whether new facts arrived since the last call.

        Only the first call waits, for a short time.
        """
        previous = self._facts
        identities = frozenset(map(identity_of, devices))
        if identities != self._devices:
            self._devices = identities
            self._devices_changed.set()
        if not self._waited:
            self._waited = True
            await _wait_up_to(FIRST_S, self._answered)
        return self._facts is not previous

    async def run(self) -> None:
        """Refresh the facts until cancelled."""
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            self._devices_changed.clear()
            try:
                provider = await self._selected()
                if provider is None:
                    break
                await self._refresh(provider)
            except CloudError as error:
                pause_s = backoff.next_s()
                self._notify(CloudFailed(error, pause_s))
                await asyncio.sleep(pause_s)
                continue
            backoff.reset()
            await _wait_up_to(REFRESH_S, self._devices_changed)
        await asyncio.Event().wait()  # a worker never returns

    async def _selected(self) -> Provider | None:
        if self._provider is None:
            self._provider = await self._select()
            self._required = self._provider is not None and self._provider.required
            self._notify(CloudFound(self._provider.name if self._provider else ""))
            if self._provider is None:
                self._answered.set()
        return self._provider

    async def _refresh(self, provider: Provider) -> None:
        requested = self._devices
        found = await provider.describe(sorted(requested, key=lambda device: device.name))
        if found.facts != self._facts:
            self._facts = found.facts
            self._changed()
        if found.failure:
            raise CloudError(found.failure)
        if requested:
            self._answered.set()


async def _wait_up_to(seconds: float, event: asyncio.Event) -> None:
    """Wait for an event for a limited time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
