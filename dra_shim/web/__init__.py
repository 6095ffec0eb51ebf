"""Metrics and health over HTTP, for both processes: the plugin listens on nothing.

metrics.py            the shim's metrics, counted from notifications of its rooms
process_collector.py  metrics of this process
plugin_metrics.py     the plugin's own metrics and its heartbeat, read from its directory
healthz.py            liveness and readiness
pages.py              pages by path
server.py             HTTP
"""

from dra_shim.web.healthz import Checks
from dra_shim.web.metrics import MeteredDriver, Metrics
from dra_shim.web.pages import pages
from dra_shim.web.plugin_metrics import PluginSigns
from dra_shim.web.server import Listening, Notice, PageFailed, WebServer

__all__ = [
    "Checks",
    "Listening",
    "MeteredDriver",
    "Metrics",
    "Notice",
    "PageFailed",
    "PluginSigns",
    "WebServer",
    "pages",
]
