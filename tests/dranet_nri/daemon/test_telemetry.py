"""Heartbeat and metrics of the daemon, read by another process."""

import asyncio
from pathlib import Path

import pytest

from dranet_nri.cli import main
from dranet_nri.nri.wire.messages import PodEventKind
from tests.box.waiting import wait_until
from tests.dranet_nri.daemon.daemon_bench import Site, connected, daemon, run_scenario
from tests.fakes.called import called
from tests.fakes.runtime import RuntimeServer, pod_message
from tests.fakes.scrape import Scrape

pytestmark = pytest.mark.process


HOOKS = "dranet_driver_nri_plugin_requests"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return fresh directories."""
    return Site(tmp_path)


def probed(site: Site, *flags: str) -> tuple[int, str]:
    """Run the probe; return its status and output."""
    done = called(main, "healthz", "--run-dir", str(site.run), *flags, cwd=site.root)
    return done.returncode, done.stdout


def numbers(site: Site) -> Scrape:
    """Return the metrics that the daemon wrote last."""
    return Scrape((site.run / "metrics.prom").read_text())


async def until_ready(site: Site, *, ready: bool) -> str:
    """Wait until the probe and then the metrics have the given readiness.

    Returns:
        The output of the probe.
    """
    message = ""

    def is_reached() -> bool:
        nonlocal message
        status, message = probed(site, "--ready")
        return (status == 0) is ready and numbers(site).value("dranet_nri_serving") == ready

    await asyncio.to_thread(wait_until, f"ready={ready}", is_reached)
    return message


def test_probe_follows_the_connection_to_the_runtime(site: Site) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(site.socket)) as server:
            with daemon(site) as process:
                runtime = await connected(server, process)
                assert await until_ready(site, ready=True) == "ok\n"
                runtime.abort()
                assert "not served by the runtime" in await until_ready(site, ready=False)
                assert probed(site) == (0, "ok\n")

    run_scenario(scenario())
    scrape = numbers(site)
    assert scrape.value("dranet_nri_connects_total") == 1
    assert scrape.value("dranet_nri_disconnects_total") >= 1
    assert scrape.value("dranet_nri_serving") == 0
    assert scrape.value("dranet_nri_reconcile_rounds_total", result="settled") >= 1
    assert scrape.value("dranet_nri_process_start_time_seconds") > 1.6e9


def test_hooks_are_counted_by_result(site: Site) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(site.socket)) as server:
            with daemon(site) as process:
                runtime = await connected(server, process)
                await until_ready(site, ready=True)
                for sandbox in ("plain", "s1", "beside"):
                    call = runtime.runtime.pod_event(PodEventKind.RUN, pod_message(sandbox))
                    await runtime.answer(call)
                    if sandbox == "plain":
                        site.allocate("uid-s1")
                runtime.abort()
                await until_ready(site, ready=False)

    run_scenario(scenario())
    scrape = numbers(site)
    answers = {
        status: scrape.value(f"{HOOKS}_total", method="RunPodSandbox", status=status)
        for status in ("success", "failed", "noop")
    }
    assert answers == {"success": 0, "failed": 1, "noop": 2}
    latency = {"method": "RunPodSandbox", "status": "noop"}
    assert scrape.value(f"{HOOKS}_latency_seconds_count", **latency) == 2
    assert scrape.value("dranet_nri_refusals_total", reason="no_namespace") == 1
    assert scrape.value("dranet_driver_nri_request_timeout_seconds") == 2


def test_sandboxes_are_counted_under_the_name_of_dranet(site: Site) -> None:
    site.allocate("uid-s1")

    async def scenario() -> None:
        async with RuntimeServer(str(site.socket)) as server:
            with daemon(site) as process:
                runtime = await connected(server, process)
                await until_ready(site, ready=True)
                past_deadline = {"timeout_nano": 1}
                for sandbox, timeout in (
                    ("plain", {}), ("s1", past_deadline), ("s1", {}), ("s1", {}), ("s1", {})
                ):  # fmt: skip
                    message = pod_message(sandbox)
                    await runtime.answer(
                        runtime.runtime.pod_event(PodEventKind.RUN, message, **timeout)
                    )
                runtime.abort()
                await until_ready(site, ready=False)

    run_scenario(scenario())
    scrape = numbers(site)
    # The last sandbox is accepted, because its pod was rejected three times.
    accepted = scrape.value(f"{HOOKS}_total", method="RunPodSandbox", status="success")
    sandboxes = {
        result: scrape.value("dranet_driver_sandbox_attach_total", result=result)
        for result in ("attached", "deferred", "rejected", "failed")
    }
    assert accepted == 2
    assert sandboxes == {"attached": 0, "deferred": 1, "rejected": 0, "failed": 3}
