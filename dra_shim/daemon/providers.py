"""Construction of the providers: facts from the cloud, and profiles of the webhook."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from dra_shim.checkpoint.profiles import ProfileStore
from dra_shim.cloud.detect import Detection, Machine
from dra_shim.cloud.directory import CloudDirectory, CloudNotice
from dra_shim.cloud.provider import Provider
from dra_shim.cloud.webhook import Webhook, WebhookProvider
from dra_shim.prepare import (
    ClaimUnprepared,
    Notice,
    Notify,
    OrphanRemoved,
    ProfileReleaser,
    Providers,
    RunLocked,
)
from dra_shim.settings.common import StatePaths
from dra_shim.settings.providers import ProviderSettings

SYSFS = Path("/sys")


class NodeProviders:
    """Cloud and profile providers of one node.

    Attributes:
        clouds: facts of devices from the cloud.
        providers: parameters for Prepare.
    """

    def __init__(
        self,
        settings: ProviderSettings,
        state: StatePaths,
        labels: Callable[[], Awaitable[Mapping[str, str]]],
        changed: Callable[[], None],
        notify: Callable[[CloudNotice], None],
        sysfs: Path = SYSFS,
    ) -> None:
        """Create the providers; no request is sent before a worker runs.

        Args:
            settings: the selected providers.
            state: locations of the records.
            labels: returns the labels of the Node; raises CloudError.
            changed: called when facts of devices changed.
            notify: called with notices of the cloud provider.
            sysfs: mount point of sysfs.
        """
        self._webhook = Webhook(settings.webhook) if settings.webhook else None
        provider: Provider | None = WebhookProvider(self._webhook) if self._webhook else None
        detection = Detection(Machine(sysfs, labels), settings.hint, provider)
        self.clouds = CloudDirectory(
            detection.provider, changed, notify, required=provider is not None
        )
        self._profiles = self._webhook if settings.webhook_has_profiles else None
        self._store = ProfileStore(state.profiles)
        self.providers = Providers(self._store, self.clouds, self._profiles)
        self._releaser: ProfileReleaser | None = None

    async def release(self, run_locked: RunLocked, notify: Notify) -> None:
        """Release profiles until cancelled."""
        self._releaser = ProfileReleaser(self._store, self._profiles, run_locked, notify)
        await self._releaser.run()

    def on_prepare(self, notice: Notice) -> None:
        """Schedule the release of an ended claim's profiles."""
        if isinstance(notice, ClaimUnprepared | OrphanRemoved) and self._releaser is not None:
            self._releaser.wake()

    async def close(self) -> None:
        """Close connections."""
        if self._webhook is not None:
            await self._webhook.close()
