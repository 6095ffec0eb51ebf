"""What is served under which path."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from dra_shim.web.checks import Checks
from dra_shim.web.metrics import Metrics
from dra_shim.web.plugin import PluginSigns
from dra_shim.web.server import MakePage, Page
from dranet_nri.prometheus import CONTENT_TYPE


def pages(metrics: Metrics, plugin: PluginSigns, checks: Checks) -> Mapping[str, MakePage]:
    """Return path → what makes the page."""
    return {
        "/metrics": partial(_numbers, metrics, plugin),
        "/healthz": partial(_verdict, checks.alive),
        "/readyz": partial(_verdict, checks.ready),
    }


async def _numbers(metrics: Metrics, plugin: PluginSigns) -> Page:
    return Page(metrics.text() + plugin.text(), content_type=CONTENT_TYPE)


async def _verdict(check: Callable[[], Awaitable[tuple[str, ...]]]) -> Page:
    wrong = await check()
    return Page("".join(f"{line}\n" for line in wrong), 503) if wrong else Page("ok\n")
