"""Construction of the shim: its components, and the notices among them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from dra_shim.daemon.log_sink import LogSink
from dra_shim.daemon.providers import ProviderParts
from dra_shim.daemon.sources import ServerSource
from dra_shim.discovery import DeviceSelection, NodeDevices, NodeOptions
from dra_shim.kubeapi import ApiClient
from dra_shim.kubeletplugin import KubeletPlugin, Sockets, dra_services, health_services
from dra_shim.migration.controller import MigrationController
from dra_shim.migration.devices import PreviousDevices
from dra_shim.prepare import (
    Notice,
    OrphanCollector,
    Preparer,
    PrepareResult,
    PrepareSettings,
    Sources,
)
from dra_shim.resourceslice import ResourceSliceController
from dra_shim.settings.run import RunSettings
from dra_shim.status import StatusController
from dra_shim.web import HealthChecks, MeteredDriver, Metrics, PluginSigns, WebServer, pages
from dranet_nri.component.supervisor import Worker, WorkerFailed
from dranet_nri.facts.host import boot_id
from dranet_nri.model import DRIVER_NAME, Device, ObjectRef

N = TypeVar("N")

CHECKPOINT: Final = "dra_manager_state"  # of the kubelet, in its directory


class Shim:
    """Shim of one node; call `close` when its workers have ended."""

    def __init__(
        self,
        settings: RunSettings,
        choice: DeviceSelection,
        sockets: Sockets,
        api: ApiClient,
        log_sink: LogSink,
    ) -> None:
        """Create the components; nothing is opened before a worker runs.

        Args:
            settings: settings of the daemon.
            choice: the selection of published devices.
            sockets: sockets of the kubelet plugin.
            api: client of the API server.
            log_sink: logs all notices.
        """
        metrics = Metrics()
        self._settings = settings
        self._log_sink = log_sink
        self._metrics = metrics
        on_status = _both(log_sink.on_status, metrics.status.on_status)
        self._reporter = StatusController(api, settings.state, settings.node, on_status)
        on_slices = _both(log_sink.on_slices, metrics.server.on_slices)
        self._publisher = ResourceSliceController(api, settings.node, on_slices)
        self._source = ServerSource(api)
        self._providers = ProviderParts(
            settings.providers,
            settings.state,
            lambda: self._source.labels(settings.node),
            lambda: self._devices.rescan(),
            log_sink.on_cloud,
        )
        self._devices = NodeDevices(
            NodeOptions(choice, settings.azure_size, rescan_s=settings.rescan_s),
            settings.state,
            settings.node,
            self._source,
            self._publisher.offer,
            _both(log_sink.on_node, metrics.on_node),
            clouds=self._providers.clouds,
        )
        self._preparer = self._new_preparer()
        driver = MeteredDriver(self._preparer, metrics.calls)
        services = (*dra_services(driver), *health_services(self._devices))
        on_kubelet = _both(log_sink.on_kubelet, metrics.calls.on_kubelet)
        self._plugin = KubeletPlugin(DRIVER_NAME, sockets, services, on_kubelet)
        self._web = self._web_at(sockets)
        checkpoint = settings.kubelet_root / CHECKPOINT
        self._orphan_collector = OrphanCollector(
            self._source, self._preparer, checkpoint, self._on_prepare
        )
        self._adoption = MigrationController(
            api, settings.node, settings.state, self._prepare_before, log_sink.on_adoption
        )

    def close(self) -> None:
        """Close the records."""
        self._preparer.close()

    async def disconnect(self) -> None:
        """Close connections to providers."""
        await self._providers.close()

    def parts(self) -> tuple[Worker, ...]:
        """Return the workers, for the supervisor."""
        return (
            Worker("devices", self._devices.run),
            Worker("kubelet", self._plugin.run),
            Worker("adoption", self._adopt),
            Worker("slices", self._publish),
            Worker("status", self._reporter.run),
            Worker("sweep", self._orphan_collector.run),
            Worker("cloud", self._providers.clouds.run),
            Worker("profiles", self._release_profiles),
            Worker("web", self._web.run),
        )

    def failed(self, notice: WorkerFailed) -> None:
        """Report a worker that failed."""
        self._log_sink.on_part(notice)
        self._metrics.node.on_part(notice)

    def _web_at(self, sockets: Sockets) -> WebServer:
        settings, metrics = self._settings, self._metrics
        checks = HealthChecks.of(sockets, self._plugin, lambda: metrics.server.published)
        shown = pages(metrics, PluginSigns(settings.state.run), checks)
        return WebServer(settings.bind_address, shown, self._log_sink.on_web)

    async def _adopt(self) -> None:
        """Migrate claims, then wait, because a worker does not return."""
        with self._preparer.adopting():
            await self._adoption.run()
        await asyncio.Event().wait()

    async def _publish(self) -> None:
        await self._adoption.awaited()
        await self._publisher.run()

    async def _release_profiles(self) -> None:
        await self._providers.release(self._preparer.without_record, self._on_prepare)

    def _new_preparer(self) -> Preparer:
        settings = self._settings
        return Preparer(
            Sources(self._source, self._source, self._devices),
            settings.state,
            PrepareSettings(settings.node, boot_id(), settings.first_valid_config),
            self._on_prepare,
            providers=self._providers.providers,
        )

    async def _prepare_before(
        self, claims: Sequence[ObjectRef], before: Mapping[str, Device]
    ) -> Mapping[str, PrepareResult]:
        """Record claims whose devices another driver may have moved into pods."""
        return await self._preparer.adopt(claims, PreviousDevices(self._devices, before))

    def _on_prepare(self, notice: Notice) -> None:
        self._log_sink.on_prepare(notice)
        self._metrics.calls.on_prepare(notice)
        self._reporter.tell(notice)
        self._providers.on_prepare(notice)


def _both(one: Callable[[N], None], other: Callable[[N], None]) -> Callable[[N], None]:
    def hear(notice: N) -> None:
        one(notice)
        other(notice)

    return hear
