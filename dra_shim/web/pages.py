"""Pages by path.

Clients that request a check while it runs share its result, so that they cannot multiply its cost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from dra_shim.web.healthz import HealthChecks
from dra_shim.web.metrics import Metrics
from dra_shim.web.plugin_metrics import PluginSigns
from dra_shim.web.server import MakePage, Page
from dranet_nri.component.metrics import CONTENT_TYPE


def pages(metrics: Metrics, plugin: PluginSigns, checks: HealthChecks) -> Mapping[str, MakePage]:
    """Return path → function that returns the page."""
    return {
        "/metrics": partial(_numbers, metrics, plugin),
        "/healthz": _Verdict(checks.alive),
        "/readyz": _Verdict(checks.ready),
    }


async def _numbers(metrics: Metrics, plugin: PluginSigns) -> Page:
    return Page(metrics.text() + plugin.text(), content_type=CONTENT_TYPE)


class _Verdict:
    """The page of a check."""

    def __init__(self, check: Callable[[], Awaitable[tuple[str, ...]]]) -> None:
        self._check = check
        self._reaching: asyncio.Task[Page] | None = None

    async def __call__(self) -> Page:
        if self._reaching is None or self._reaching.done():
            self._reaching = asyncio.create_task(self._reach())
        return await asyncio.shield(self._reaching)

    async def _reach(self) -> Page:
        wrong = await self._check()
        return Page("".join(f"{line}\n" for line in wrong), 503) if wrong else Page("ok\n")
