"""Construction of the shim: its components, and the delivery of their notices.

This module imports all rooms of the daemon. `process.py` loads it when the kubelet's sockets are
open.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from dra_shim.cel import SelectorError, filter_devices, unknown_in_filter
from dra_shim.daemon.delayed_notices import DelayedNotices
from dra_shim.daemon.log_sink import LogSink
from dra_shim.daemon.providers import NodeProviders
from dra_shim.daemon.sources import ServerSource
from dra_shim.discovery import DeviceSelection, NodeDevices, NodeOptions
from dra_shim.kubeapi import ApiClient, HttpClient, rest_config_of
from dra_shim.kubeletplugin import KubeletPlugin, Sockets
from dra_shim.kubeletplugin import Notice as KubeletNotice
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
from dra_shim.web import HealthChecks, MeteredDriver, Metrics, PluginTelemetry, WebServer, pages
from dranet_nri.component.log import logger
from dranet_nri.component.supervisor import Worker, WorkerFailed
from dranet_nri.errors import InvalidValueError
from dranet_nri.facts.host import boot_id
from dranet_nri.inventory import parse_vm_size
from dranet_nri.model import Device, ObjectRef

N = TypeVar("N")

CHECKPOINT: Final = "dra_manager_state"  # of the kubelet, in its directory


class Shim:
    """Components of one node's shim; call `close` when its workers have ended."""

    def __init__(
        self,
        settings: RunSettings,
        environ: Mapping[str, str],
        sockets: Sockets,
        plugin: KubeletPlugin,
    ) -> None:
        """Create the components; nothing is opened before a worker runs.

        Args:
            settings: settings of the daemon.
            environ: environment variables with the API server, for a process in a pod.
            sockets: sockets of the kubelet plugin.
            plugin: the kubelet plugin, which already serves.

        Raises:
            InvalidValueError: a setting is not usable, or there is no access to an API server.
        """
        rest_config = rest_config_of(settings.kubeconfig, environ)
        selection = DeviceSelection(
            settings.filter, settings.shared, settings.include, settings.exclude,
            settings.numa_lists, settings.uplinks, settings.move_ipoib, settings.parents,
        )  # fmt: skip
        _check_expressions(settings)
        parse_vm_size(settings.azure_size)
        self._api = api = ApiClient(HttpClient(rest_config))
        log_sink = LogSink(time.monotonic)
        metrics = Metrics()
        self._settings = settings
        self._log_sink = log_sink
        self._log_prepare = log_sink.of("prepare")
        self._prepare_notices = DelayedNotices(self._on_prepare)
        self._metrics = metrics
        on_status = _notify_both(log_sink.of("status"), metrics.status.on_status)
        self._status = StatusController(api, settings.state, settings.node, on_status)
        on_slices = _notify_both(log_sink.of("slices"), metrics.server.on_slices)
        self._slices = ResourceSliceController(api, settings.node, on_slices)
        self._server = ServerSource(api)
        self._providers = NodeProviders(
            settings.providers,
            settings.state,
            lambda: self._server.labels(settings.node),
            lambda: self.devices.request_scan(),
            log_sink.of("node"),
        )
        self.devices = NodeDevices(
            NodeOptions(selection, settings.azure_size, rescan_s=settings.rescan_s),
            settings.state,
            settings.node,
            self._server,
            self._slices.publish,
            _notify_both(log_sink.of("node"), metrics.on_node),
            clouds=self._providers.clouds,
        )
        self._preparer = self._new_preparer()
        self.driver = MeteredDriver(self._preparer, metrics.calls)
        self._web = self._web_server(sockets, plugin)
        checkpoint = settings.kubelet_root / CHECKPOINT
        self._orphan_collector = OrphanCollector(
            self._server, self._preparer, checkpoint, self._prepare_notices.add
        )
        self._migration = MigrationController(
            api, settings.node, settings.state, self._adopt_claims, log_sink.of("node")
        )

    def close(self) -> None:
        """Close the records, and report the delayed notices."""
        self._preparer.close()
        self._prepare_notices.flush()

    async def disconnect(self) -> None:
        """Close the connections to the API server and to providers."""
        await self._providers.close()
        await self._api.close()

    def workers(self) -> tuple[Worker, ...]:
        """Return the workers, for the supervisor."""
        return (
            Worker("devices", self.devices.run),
            Worker("adoption", self._adopt),
            Worker("slices", self._publish),
            Worker("status", self._status.run),
            Worker("orphans", self._orphan_collector.run),
            Worker("cloud", self._providers.clouds.run),
            Worker("profiles", self._release_profiles),
            Worker("web", self._web.run),
        )

    def failed(self, notice: WorkerFailed) -> None:
        """Report a worker that failed."""
        self._log_sink.of("parts")(notice)
        self._metrics.node.on_worker_failure(notice)

    def on_kubelet(self, notice: KubeletNotice) -> None:
        """Report the state of the sockets and the registration."""
        self._log_sink.of("kubelet")(notice)
        self._metrics.calls.on_kubelet(notice)

    def _web_server(self, sockets: Sockets, plugin: KubeletPlugin) -> WebServer:
        settings, metrics = self._settings, self._metrics
        checks = HealthChecks.of(sockets, plugin, lambda: metrics.server.published)
        page_by_path = pages(metrics, PluginTelemetry(settings.state.run), checks)
        return WebServer(settings.bind_address, page_by_path, self._log_sink.of("parts"))

    async def _adopt(self) -> None:
        """Migrate claims, then wait for ever, because a worker does not return."""
        with self._preparer.adopting():
            await self._migration.run()
        await asyncio.Event().wait()

    async def _publish(self) -> None:
        await self._migration.until_publishable()
        await self._slices.run()

    async def _release_profiles(self) -> None:
        await self._providers.release(self._preparer.when_released, self._prepare_notices.add)

    def _new_preparer(self) -> Preparer:
        settings = self._settings
        return Preparer(
            Sources(self._server, self._server, self.devices),
            settings.state,
            PrepareSettings(settings.node, boot_id(), settings.first_valid_config),
            self._prepare_notices.add,
            providers=self._providers.providers,
        )

    async def _adopt_claims(
        self, claims: Sequence[ObjectRef], previous: Mapping[str, Device]
    ) -> Mapping[str, PrepareResult]:
        """Record claims of a previous driver, whose devices may be in pods."""
        return await self._preparer.adopt(claims, PreviousDevices(self.devices, previous))

    def _on_prepare(self, notice: Notice) -> None:
        self._log_prepare(notice)
        self._metrics.calls.on_prepare(notice)
        self._status.notify(notice)
        self._providers.on_prepare(notice)


def _check_expressions(settings: RunSettings) -> None:
    for flag, expression in (("--filter", settings.filter), ("--shared", settings.shared)):
        try:
            filter_devices(expression, ())
        except SelectorError as error:
            raise InvalidValueError(f"{flag}: {error}") from error
        for line in unknown_in_filter(expression):
            logger("node").warning("unknown attribute in a flag", flag=flag, reason=line)


def _notify_both(one: Callable[[N], None], other: Callable[[N], None]) -> Callable[[N], None]:
    def notify(notice: N) -> None:
        one(notice)
        other(notice)

    return notify
