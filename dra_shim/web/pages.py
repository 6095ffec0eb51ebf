"""Pages by path.

Clients that request a check while it runs share its result, so that they cannot multiply its cost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from dra_shim.web.healthz import HealthChecks
from dra_shim.web.metrics import Metrics
from dra_shim.web.plugin_metrics import PluginTelemetry
from dra_shim.web.server import MakePage, Page
from dranet_nri.component.metrics import CONTENT_TYPE


def pages(
    metrics: Metrics, plugin: PluginTelemetry, checks: HealthChecks
) -> Mapping[str, MakePage]:
    """Return path → function that returns the page."""
    return {
        "/metrics": partial(_metrics_page, metrics, plugin),
        "/healthz": _CheckPage(checks.alive),
        "/readyz": _CheckPage(checks.ready),
    }


async def _metrics_page(metrics: Metrics, plugin: PluginTelemetry) -> Page:
    return Page(metrics.text() + plugin.text(), content_type=CONTENT_TYPE)


class _CheckPage:
    """Page of a check, shared by clients that request it at the same time."""

    def __init__(self, check: Callable[[], Awaitable[tuple[str, ...]]]) -> None:
        self._check = check
        self._running: asyncio.Task[Page] | None = None

    async def __call__(self) -> Page:
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await asyncio.shield(self._running)

    async def _run(self) -> Page:
        errors = await self._check()
        return Page("".join(f"{line}\n" for line in errors), 503) if errors else Page("ok\n")
