"""Metrics and health of both processes, as Prometheus and probes get them."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from httpx2 import AsyncClient

from dra_shim import discovery, kubeletplugin, prepare, resourceslice, status
from dra_shim.kubeapi import ConflictError, UnavailableError
from dra_shim.kubeletplugin import RegistrationResult, sockets_of
from dra_shim.pool import Feature
from dra_shim.prepare import PrepareResult
from dra_shim.settings.listen_address import ListenAddress
from dra_shim.web import (
    HealthChecks,
    MeteredDriver,
    Metrics,
    PluginTelemetry,
    WebServer,
    pages,
)
from dranet_nri.attach.metrics import PluginMetrics
from dranet_nri.component.files import FileSystem
from dranet_nri.component.supervisor import WorkerFailed
from dranet_nri.model import ObjectRef
from dranet_nri.state import heartbeat
from dranet_nri.state.heartbeat import Heartbeat
from tests.dra_shim.kubeletplugin.kubelet_bench import Node, short_directory
from tests.dra_shim.web.web_bench import WebNotices
from tests.fakes.scrape import Scrape, counted

pytestmark = pytest.mark.process


__all__ = ["short_directory"]

CLAIM = ObjectRef("default", "nics", "claim-nics")
POD = ObjectRef("default", "web", "pod-web")
NOW = 5000.0


@dataclass
class Site:
    """A shim's pages, beside a plugin's directory."""

    run: Path
    checks: HealthChecks
    metrics: Metrics = field(default_factory=lambda: Metrics(wall=lambda: 1.8e9))

    def get(self, path: str) -> tuple[int, str]:
        """Ask for a page over HTTP; return status and text."""
        return asyncio.run(self.got(path))

    async def got(self, path: str) -> tuple[int, str]:
        """See get."""
        notices = WebNotices()
        served = pages(self.metrics, PluginTelemetry(self.run, lambda: NOW), self.checks)
        server = WebServer(ListenAddress("127.0.0.1", 0), served, notices)
        task = asyncio.create_task(server.run())
        either: set[asyncio.Future[Any]] = {task, notices.listening}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        port = notices.listening.result().address.port
        async with AsyncClient() as client:
            answer = await client.get(f"http://127.0.0.1:{port}{path}")
        task.cancel()
        await asyncio.wait({task})
        return answer.status_code, answer.text

    def scrape(self) -> Scrape:
        """Return the metrics."""
        code, text = self.get("/metrics")
        assert code == 200
        return Scrape(text)


async def fine() -> str:
    """Say that a kubelet is answered."""
    return ""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return one whose checks pass."""
    return Site(tmp_path, HealthChecks(fine, lambda: "", lambda: True))


# ----------------------------------------------------------------------- metrics

# kubernetes-sigs/dranet, pkg/driver/metrics.go at v1.4.0, then the added ones of October 2026.
DRANET_METRICS: Final = (
    *("dra_plugin_requests_total", "dra_plugin_requests_latency_seconds"),
    *("nri_plugin_requests_total", "nri_plugin_requests_latency_seconds"),
    *("published_devices_total", "last_published_time_seconds"),
    *("nri_request_timeout_seconds", "sandbox_attach_total"),
    *("pod_attach_duration_seconds", "attach_jobs_running"),
)


def test_metrics_of_dranet_have_its_names(site: Site) -> None:
    site.metrics.on_node(discovery.DevicesChanged(9, 4, (), ()))
    site.metrics.server.on_slices(resourceslice.SlicesPublished(8, 1, 2))

    scrape = site.scrape()

    for method in ("PrepareResourceClaims", "UnprepareResourceClaims"):
        for result in ("success", "failed"):
            labels = {"method": method, "status": result}
            assert scrape.value("dranet_driver_dra_plugin_requests_total", **labels) == 0
        latency = "dranet_driver_dra_plugin_requests_latency_seconds_count"
        assert scrape.value(latency, method=method) == 0
    assert scrape.value("dranet_driver_published_devices_total", feature="total") == 8
    assert scrape.value("dranet_driver_published_devices_total", feature="rdma") == 4
    assert scrape.value("dranet_driver_last_published_time_seconds") == 1.8e9
    assert scrape.value("process_start_time_seconds") > 1.6e9
    assert scrape.value("process_resident_memory_bytes") > 1 << 20
    assert scrape.value("process_cpu_seconds_total") > 0
    assert scrape.value("process_open_fds") > 2


def test_all_metrics_of_dranet_exist(site: Site) -> None:
    (site.run / "metrics.prom").write_text(PluginMetrics().text())

    found = {name for name in site.scrape().families if name.startswith("dranet_driver_")}

    assert found == {f"dranet_driver_{name}" for name in DRANET_METRICS}


def test_metrics_of_the_plugin_are_served(site: Site) -> None:
    metrics = PluginMetrics()
    metrics.hooks.answered("RunPodSandbox", "noop", 0.0001)
    (site.run / "metrics.prom").write_text(metrics.text())
    heartbeat.store(FileSystem(), site.run, Heartbeat(7, NOW - 12.5, serving=True))

    scrape = site.scrape()

    hooks = "dranet_driver_nri_plugin_requests_total"
    assert scrape.value(hooks, method="RunPodSandbox", status="noop") == 1
    assert scrape.value("dra_shim_plugin_heartbeat_age_seconds") == 12.5
    assert scrape.value("dra_shim_plugin_alive") == 1
    assert scrape.value("dra_shim_plugin_metrics_readable") == 1


def test_stale_metrics_of_the_plugin_are_marked(site: Site) -> None:
    (site.run / "metrics.prom").write_text(PluginMetrics().text())
    heartbeat.store(FileSystem(), site.run, Heartbeat(7, NOW - 3600, serving=True))

    scrape = site.scrape()

    assert scrape.value("dra_shim_plugin_heartbeat_age_seconds") == 3600
    assert scrape.value("dra_shim_plugin_alive") == 0
    assert scrape.value("dranet_nri_connects_total") == 0


def test_metrics_are_served_without_a_plugin(site: Site) -> None:
    scrape = site.scrape()

    assert scrape.value("dra_shim_plugin_alive") == 0
    assert scrape.value("dra_shim_plugin_metrics_readable") == 0
    assert counted("dra_shim_plugin_heartbeat_age_seconds") not in scrape.values


@pytest.mark.parametrize(
    "content",
    [
        b"dranet_nri_serving 1",  # cut
        b"process_cpu_seconds_total 1\n",
        b"dra_shim_registered 1\n",
        b"# TYPE dranet_nri_x gauge\n\n",
        b"dranet_nri_\xff 1\n",
        b"dranet_nri_x 1\n" * 100_000,
    ],
    ids=["cut", "ours", "shim", "blank", "bytes", "huge"],
)
def test_invalid_metrics_file_is_ignored(site: Site, content: bytes) -> None:
    (site.run / "metrics.prom").write_bytes(content)

    scrape = site.scrape()

    assert scrape.value("dra_shim_plugin_metrics_readable") == 0
    assert not any(name.startswith("dranet_nri_") for name in scrape.families)


ERROR = UnavailableError("get Node n", "timed out")
TOLD = [
    (
        prepare.ClaimPrepared(CLAIM, POD, gated=True),
        "dra_shim_claims_total",
        {"result": "prepared"},
        1,
    ),
    (
        prepare.ClaimPrepared(CLAIM, POD, gated=False),
        "dra_shim_claims_total",
        {"result": "prepared_ungated"},
        1,
    ),
    (prepare.ClaimUnprepared(CLAIM), "dra_shim_claims_total", {"result": "unprepared"}, 1),
    (
        prepare.OrphanRemoved(CLAIM, POD, "gone"),
        "dra_shim_claims_total",
        {"result": "orphan_dropped"},
        1,
    ),
    (prepare.PodSuperseded(CLAIM, POD, (POD,)), "dra_shim_claims_total", {"result": "stranded"}, 1),
    (prepare.PodSuperseded(CLAIM, POD, ()), "dra_shim_claims_total", {"result": "stranded"}, 0),
    (
        prepare.PrepareFailed(CLAIM, "no", kind="late"),
        "dra_shim_claim_failures_total",
        {"method": "PrepareResourceClaims", "kind": "late"},
        1,
    ),
    (
        prepare.UnprepareFailed(CLAIM, "no", kind="io"),
        "dra_shim_claim_failures_total",
        {"method": "UnprepareResourceClaims", "kind": "io"},
        1,
    ),
    (
        prepare.OrphanSearchFailed(OSError()),
        "dra_shim_claim_failures_total",
        {"method": "CollectOrphans", "kind": "internal"},
        1,
    ),
    (RegistrationResult(), "dra_shim_registered", {}, 1),
    (RegistrationResult("no"), "dra_shim_registered", {}, 0),
    (
        kubeletplugin.SocketReplaced("/x", "gone"),
        "dra_shim_sockets_total",
        {"result": "replaced"},
        1,
    ),
    (kubeletplugin.SocketFailed("no"), "dra_shim_sockets_total", {"result": "failed"}, 1),
    (resourceslice.SlicesPublished(8, 3, 2), "dra_shim_slices", {}, 3),
    (resourceslice.SlicesPublished(8, 3, 2), "dra_shim_slice_writes_total", {}, 2),
    (resourceslice.DeviceRefused("nic", "no"), "dra_shim_devices_refused_total", {}, 1),
    (
        resourceslice.FeaturesMissing(frozenset({Feature.TAINTS})),
        "dra_shim_missing_feature_gate",
        {"gate": "DRADeviceTaints"},
        1,
    ),
    (
        resourceslice.SliceSyncFailed(ERROR, 1.0),
        "dra_shim_api_errors_total",
        {"worker": "slices", "kind": "unavailable"},
        1,
    ),
    (resourceslice.FieldsDropped("s", frozenset()), "dra_shim_devices_refused_total", {}, 0),
    (status.StatusApplied(CLAIM, 2), "dra_shim_status_applies_total", {"result": "applied"}, 1),
    (status.ClaimRefused(CLAIM, "no"), "dra_shim_status_applies_total", {"result": "refused"}, 1),
    (status.ClaimGone(CLAIM), "dra_shim_status_applies_total", {"result": "gone"}, 1),
    (status.StatusNotKept(), "dra_shim_status_applies_total", {"result": "dropped"}, 1),
    (status.EventPosted("e", "Failed", 3), "dra_shim_events_total", {"result": "posted"}, 3),
    (status.EventLost("no"), "dra_shim_events_total", {"result": "lost"}, 1),
    (
        status.StatusSyncFailed(ConflictError("apply", "other"), 1.0),
        "dra_shim_api_errors_total",
        {"worker": "status", "kind": "conflict"},
        1,
    ),
    (discovery.DevicesChanged(4, 2, (), ()), "dra_shim_devices", {"health": "healthy"}, 4),
    (discovery.DeviceUnhealthy("nic", "NoCarrier"), "dra_shim_devices", {"health": "unhealthy"}, 1),
    (discovery.ScanFailed(OSError(), 1.0), "dra_shim_scan_failures_total", {"reason": "error"}, 1),
    (discovery.ScanHung("x", 9.0), "dra_shim_scan_failures_total", {"reason": "hung"}, 1),
    (
        discovery.PrivilegedFactsUnreadable(OSError()),
        "dra_shim_scan_failures_total",
        {"reason": "facts"},
        1,
    ),
    (
        discovery.EventSourceLost("udev", OSError()),
        "dra_shim_event_sources_lost_total",
        {"source": "udev"},
        1,
    ),
    (
        WorkerFailed("slices", OSError(), 1.0),
        "dra_shim_worker_failures_total",
        {"worker": "slices"},
        1,
    ),
]


def test_registration_is_valid_as_long_as_its_socket(site: Site) -> None:
    replaced = [
        kubeletplugin.SocketReplaced("/x", "gone", forgotten) for forgotten in (False, True)
    ]
    results: list[kubeletplugin.Notice] = [RegistrationResult(), *replaced]
    states = []
    for notice in results:
        site.metrics.calls.on_kubelet(notice)
        states.append(Scrape(site.metrics.text()).value("dra_shim_registered"))

    assert states == [1, 1, 0]


def test_available_feature_is_removed_from_missing_features(site: Site) -> None:
    for missing in (Feature.TAINTS, Feature.COUNTERS):
        site.metrics.server.on_slices(resourceslice.FeaturesMissing(frozenset({missing})))

    shown = Scrape(site.metrics.text()).values
    gates = [dict(labels) for name, labels in shown if name == "dra_shim_missing_feature_gate"]
    assert gates == [{"gate": "DRAPartitionableDevices"}]


@pytest.mark.parametrize(
    ("notice", "name", "labels", "value"), TOLD, ids=lambda entry: type(entry).__name__
)
def test_notices_are_counted(
    site: Site, notice: object, name: str, labels: dict[str, str], value: float
) -> None:
    metrics = site.metrics
    match type(notice).__module__.split("."):
        case ["dra_shim", "prepare", _]:
            metrics.calls.on_prepare(notice)  # type: ignore[arg-type]
        case ["dra_shim", "kubeletplugin", _]:
            metrics.calls.on_kubelet(notice)  # type: ignore[arg-type]
        case ["dra_shim", "resourceslice", _]:
            metrics.server.on_slices(notice)  # type: ignore[arg-type]
        case ["dra_shim", "status", _]:
            metrics.status.on_status(notice)  # type: ignore[arg-type]
        case ["dra_shim", "discovery", _]:
            metrics.on_node(notice)  # type: ignore[arg-type]
        case _:
            metrics.node.on_worker_failure(notice)  # type: ignore[arg-type]

    assert Scrape(metrics.text()).value(name, **labels) == value


def test_device_is_unhealthy_until_it_recovers_or_disappears(site: Site) -> None:
    tell = site.metrics.on_node
    tell(discovery.DevicesChanged(3, 0, ("a", "b", "c"), ()))
    tell(discovery.DeviceUnhealthy("a", "NoCarrier"))
    tell(discovery.DeviceUnhealthy("b", "NoCarrier"))
    assert Scrape(site.metrics.text()).value("dra_shim_devices", health="healthy") == 1

    tell(discovery.DeviceRecovered("a"))
    tell(discovery.DevicesChanged(2, 0, (), (("b", "unplugged"),)))

    scrape = Scrape(site.metrics.text())
    assert scrape.value("dra_shim_devices", health="healthy") == 2
    assert scrape.value("dra_shim_devices", health="unhealthy") == 0


class Driver:
    """Answers as it is told."""

    def __init__(self, error: str) -> None:
        self.error = error

    async def prepare(
        self, claims: object, limit_s: float | None = None
    ) -> dict[str, PrepareResult]:
        """See Driver."""
        return {"one": PrepareResult(), "two": PrepareResult(error=self.error)}

    async def unprepare(self, claims: object) -> dict[str, str]:
        """See Driver."""
        return {"one": "", "two": self.error}


@pytest.mark.parametrize(("error", "result"), [("", "success"), ("no", "failed")])
def test_call_is_failed_if_one_claim_fails(site: Site, error: str, result: str) -> None:
    ticks = iter((10.0, 10.3, 20.0, 20.7))
    driver = MeteredDriver(Driver(error), site.metrics.calls, lambda: next(ticks))

    async def scenario() -> None:
        assert len(await driver.prepare([CLAIM], 45.0)) == 2
        assert len(await driver.unprepare([CLAIM])) == 2

    asyncio.run(scenario())

    scrape = Scrape(site.metrics.text())
    for method, seconds in (("PrepareResourceClaims", 0.3), ("UnprepareResourceClaims", 0.7)):
        labels = {"method": method, "status": result}
        assert scrape.value("dranet_driver_dra_plugin_requests_total", **labels) == 1
        latency = "dranet_driver_dra_plugin_requests_latency_seconds"
        assert scrape.value(f"{latency}_sum", method=method) == pytest.approx(seconds)


def test_call_without_claims_is_not_counted(site: Site) -> None:
    asyncio.run(MeteredDriver(Driver(""), site.metrics.calls).prepare([]))

    labels = {"method": "PrepareResourceClaims", "status": "success"}
    scrape = Scrape(site.metrics.text())
    assert scrape.value("dranet_driver_dra_plugin_requests_total", **labels) == 0


# ----------------------------------------------------------------------- health


def test_health_check_uses_own_sockets(short_directory: Path) -> None:
    at_kubelet = Node(short_directory)
    metrics = Metrics()
    checks = HealthChecks.of(
        at_kubelet.sockets, at_kubelet.plugin, lambda: metrics.server.published
    )
    site = Site(short_directory, checks, metrics)

    async def scenario() -> list[tuple[int, str]]:
        async with at_kubelet.registered():
            well = await site.got("/healthz")
            unpublished = await site.got("/readyz")
            metrics.server.on_slices(resourceslice.SlicesPublished(0, 0, 0))
            ready = await site.got("/readyz")
            at_kubelet.sockets.service.unlink()
            return [well, unpublished, ready, await site.got("/healthz")]

    well, unpublished, ready, ill = asyncio.run(scenario())
    at_kubelet.close()

    assert well == (200, "ok\n")
    assert unpublished == (503, "devices not published yet\n")
    assert ready == (200, "ok\n")
    assert ill[0] == 503
    assert ill[1].startswith("a kubelet would not be answered: UNAVAILABLE")


def test_unregistered_shim_is_not_ready_with_a_reason(short_directory: Path) -> None:
    at_kubelet = Node(short_directory)
    site = Site(
        short_directory, HealthChecks.of(at_kubelet.sockets, at_kubelet.plugin, lambda: True)
    )

    async def scenario() -> list[tuple[int, str]]:
        unregistered = await site.got("/readyz")
        async with at_kubelet.running():
            return [unregistered, await site.got("/readyz")]

    unregistered, failing = asyncio.run(scenario())
    at_kubelet.close()

    assert unregistered[0] == 503
    registry = at_kubelet.sockets.registration.parent
    assert unregistered[1].startswith(
        f"not registered at the kubelet: no answer yet; if the kubelet does not watch {registry}, "
    )
    assert "as --kubelet-root-dir (k0s: /var/lib/k0s/kubelet, microk8s: " in unregistered[1]
    assert failing[0] == 503
    assert "is the kubelet's directory right" in failing[1]


def test_shim_without_sockets_is_not_alive(short_directory: Path) -> None:
    at_kubelet = Node(short_directory)
    checks = HealthChecks.of(
        sockets_of(short_directory / "x", "dra.net"), at_kubelet.plugin, lambda: True
    )

    code, text = Site(short_directory, checks).get("/healthz")
    at_kubelet.close()

    assert code == 503
    assert "UNAVAILABLE" in text
