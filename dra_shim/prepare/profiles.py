"""Parameters from providers at Prepare, and their release after Unprepare.

Rules:
1. A profile is on disk before it is requested, so that it is released after any crash.
2. A provider that does not answer delays only the first Prepare of a claim: a recorded response
   is used again, and a claim with an allocation record needs no provider.
3. A release is retried until the provider answers. It runs under the lock of the claim, so that it
   never releases what a new Prepare requested, and after the restore of the devices.
4. A write is complete before a cancelled call returns the lock of its claim.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from dra_shim.checkpoint.profiles import ProfileRecord, ProfileStore, ProfileUse
from dra_shim.cloud.provider import CloudError, ProviderDeviceId, identity_of
from dra_shim.cloud.webhook import Capabilities, DeniedError
from dra_shim.prepare.errors import NotYetError
from dra_shim.prepare.notices import Notify, ProfileReleased, ProfileReleaseFailed
from dra_shim.prepare.parameters import ClaimParameters
from dra_shim.resourceapi import AllocatedClaim
from dranet_nri.component.backoff import Backoff
from dranet_nri.component.clock import REAL, LoopClock, Wakeup
from dranet_nri.component.replace import replace
from dranet_nri.component.threads import in_thread, in_thread_to_the_end
from dranet_nri.config import (
    Provided,
    SelectedParameters,
    network_config_to_object,
    parse_network_config,
    with_provided,
)
from dranet_nri.errors import ConfigError, DranetError, RefusedError
from dranet_nri.model import Device, NetworkConfig, ObjectRef

SEARCH_INTERVAL_S: Final = 60.0  # seconds between two searches for due releases
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 300.0

Layers = Mapping[tuple[str, str], tuple[Provided, ...]]  # (request, device)


class CloudParameters(Protocol):
    """Source of parameters from the cloud."""

    def parameters(self, device: Device, own: NetworkConfig) -> tuple[str, Mapping[str, object]]:
        """Return the name of the cloud and its parameters for a device of a claim.

        Raises:
            CloudError: the parameters are not known yet.
        """


class ProfileSource(Protocol):
    """Profile provider; see cloud.webhook.Webhook for arguments and errors."""

    async def capabilities(self) -> Capabilities: ...
    async def profile(
        self,
        device: ProviderDeviceId,
        claim: Mapping[str, object],
        uid: str,
        config: Mapping[str, object],
    ) -> Mapping[str, object]: ...
    async def runtime_hook(
        self,
        device: ProviderDeviceId,
        claim: Mapping[str, object],
        uid: str,
        config: Mapping[str, object],
    ) -> Mapping[str, object]: ...
    async def release(
        self, device: ProviderDeviceId, claim: ObjectRef, config: Mapping[str, object]
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Providers:
    """Sources of parameters besides class and claim.

    Attributes:
        profiles: None without a profile provider.
    """

    store: ProfileStore
    clouds: CloudParameters
    profiles: ProfileSource | None = None

    async def provided(
        self,
        claim: AllocatedClaim,
        document: Mapping[str, object],
        devices: Mapping[str, Device],
        parameters: ClaimParameters,
    ) -> Layers:
        """Return the parameters of providers for each request and device, lowest precedence first.

        Args:
            claim: the claim.
            document: its document.
            devices: devices of the node, by name; missing ones are ignored.
            parameters: parameters of class and claim; allocation_of reports their violations.

        Raises:
            NotYetError: a provider does not answer now.
            RefusedError: a profile is denied or needs a runtime hook, or there is no provider.
            ConfigError: the parameters of a provider are invalid.
            OSError: the profile record cannot be written.
        """
        layers: dict[tuple[str, str], tuple[Provided, ...]] = {}
        for result in claim.results:
            device = devices.get(result.device[2])
            own = parameters.valid.get(result.request)
            if device is None or own is None or result.admin_access:
                continue
            layers[result.request, device.name] = await self._of_device(
                claim.ref, document, device, own
            )
        return layers

    async def _of_device(
        self,
        claim: ObjectRef,
        document: Mapping[str, object],
        device: Device,
        own: SelectedParameters,
    ) -> tuple[Provided, ...]:
        try:
            name, parameters = self.clouds.parameters(device, own.config)
        except CloudError as error:
            raise NotYetError(str(error)) from error
        cloud = (Provided(f"cloud {name}, device {device.name}", parameters),) if parameters else ()
        try:
            config = with_provided(cloud, own)
        except ConfigError:
            return cloud  # allocation_of reports the violations of all devices
        if not config.profile:
            return cloud
        answer = await self._profile(
            claim, document, identity_of(device), config.profile, network_config_to_object(config)
        )
        return (Provided(f'profile "{config.profile}", device {device.name}', answer), *cloud)

    async def _profile(
        self,
        claim: ObjectRef,
        document: Mapping[str, object],
        device: ProviderDeviceId,
        profile: str,
        config: Mapping[str, object],
    ) -> Mapping[str, object]:
        if self.profiles is None:
            raise RefusedError(
                f'profile: "{profile}": this node has no profile provider; start dra-shim with '
                "--profile-provider=webhook and --webhook-url, or remove profile"
            )
        record = await in_thread(lambda: self.store.get(claim.uid)) or ProfileRecord(claim)
        recorded = record.use(device.name, profile)
        text = json.dumps(config, sort_keys=True)
        use = recorded or ProfileUse(device, profile, text)
        if recorded is None:
            record = record.with_use(use)
            await in_thread_to_the_end(lambda: self.store.put(record))
        try:
            answer = await _requested(self.profiles, replace(use, config=text), document, claim.uid)
        except DeniedError as error:
            raise RefusedError(f'profile: "{profile}": device {device.name}: {error}') from error
        except CloudError as error:
            if use.answer and use.config == text:  # a pod keeps its address
                return dict(json.loads(use.answer))
            raise NotYetError(f'profile "{profile}": device {device.name}: {error}') from error
        given = replace(use, config=text, answer=json.dumps(answer))
        if given != use:
            await in_thread_to_the_end(lambda: self.store.put(record.with_use(given)))
        return answer


async def _requested(
    profiles: ProfileSource, use: ProfileUse, document: Mapping[str, object], uid: str
) -> Mapping[str, object]:
    """Return the parameters of a profile; a profile with a runtime hook is refused.

    The runtime would run the hook, which a response names, as root on the node.

    Raises:
        CloudError: from the provider.
        RefusedError: the provider has no profiles, or this one needs a runtime hook.
    """
    found = await profiles.capabilities()
    if not found.profiles:
        raise RefusedError(
            f'profile: "{use.profile}": the webhook provides no profiles '
            "(profileProvider of /health); correct --webhook-url, or remove profile"
        )
    answer = await profiles.profile(use.device, document, uid, json.loads(use.config))
    if found.hooks:
        resolved = _with_answer(replace(use, answer=json.dumps(answer)))
        hook = await profiles.runtime_hook(use.device, document, uid, resolved)
        if hook:
            raise RefusedError(
                f'profile: "{use.profile}": device {use.device.name}: needs the runtime hook '
                f"{hook.get('path')!r}, and this driver runs none; return null from "
                "/GetRuntimeHook, or remove profile"
            )
    return answer


def _with_answer(use: ProfileUse) -> Mapping[str, object]:
    """Return the parameters of a release: with those of the profile, such as addresses."""
    requested: dict[str, object] = json.loads(use.config)
    if not use.answer:
        return requested
    answer = Provided(f'profile "{use.profile}"', json.loads(use.answer))
    try:
        own = SelectedParameters(parse_network_config(requested), requested)
        return network_config_to_object(with_provided((answer,), own))
    except ConfigError:
        return requested  # no pod had them


RunLocked = Callable[[str, Callable[[], Awaitable[None]]], Awaitable[bool]]


class ProfileReleaser:
    """Releases profiles of claims that no pod has any more."""

    def __init__(
        self,
        store: ProfileStore,
        profiles: ProfileSource | None,
        run_locked: RunLocked,
        notify: Notify,
        *,
        timing: LoopClock = REAL,
    ) -> None:
        """Create the releaser; `run` sends requests.

        Args:
            store: the profile records.
            profiles: the provider, None for none; then due releases wait for one.
            run_locked: runs work under the lock of a claim UID unless a pod has the claim, and
                returns whether it ran.
            notify: called with each release; must not raise.
            timing: clock and timers.
        """
        self._store, self._profiles = store, profiles
        self._run_locked, self._notify, self._sleep = run_locked, notify, timing.sleep
        self._wakeup = Wakeup(timing)

    def wake(self) -> None:
        """Search for due releases soon."""
        self._wakeup.wake()

    async def run(self) -> None:
        """Release profiles until cancelled."""
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            if await self.release_due():
                backoff.reset()
                await self._wakeup.wait(SEARCH_INTERVAL_S)
            else:
                await self._sleep(backoff.next_s())

    async def release_due(self) -> bool:
        """Release due profiles; return whether all requests succeeded."""
        failed = False
        for uid in await in_thread(self._store.claims):
            try:
                await self._run_locked(uid, lambda uid=uid: self._release(uid))  # type: ignore[misc]
            except (DranetError, OSError) as error:
                failed = True
                self._notify(ProfileReleaseFailed(uid, str(error)))
        return not failed

    async def _release(self, uid: str) -> None:
        record = await in_thread(lambda: self._store.get(uid))
        if record is None:
            return
        if self._profiles is None:
            raise CloudError(
                "profiles are not released: this node has no profile provider any more; start "
                "dra-shim with the previous --webhook-url until they are released"
            )
        for use in record.uses:
            try:
                await self._profiles.release(use.device, record.claim, _with_answer(use))
            except DeniedError as error:
                # A retry of the same request would be denied again.
                self._notify(ProfileReleaseFailed(uid, f"{error}; given up"))
        await in_thread_to_the_end(lambda: self._store.remove(uid))
        self._notify(ProfileReleased(record.claim))
