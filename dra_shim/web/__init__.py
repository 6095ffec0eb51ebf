"""Metrics and health over HTTP, for both processes: the plugin listens on nothing.

metrics.py            the shim's metrics, counted from notices of its rooms
process_collector.py  metrics of this process
plugin_metrics.py     metrics and heartbeat of the plugin, read from its directory
healthz.py            liveness and readiness
pages.py              pages by path
server.py             HTTP
"""

from dra_shim.web.healthz import HealthChecks
from dra_shim.web.metrics import MeteredDriver, Metrics
from dra_shim.web.pages import pages
from dra_shim.web.plugin_metrics import PluginTelemetry
from dra_shim.web.server import Notice, PageFailed, ServerListening, WebServer

__all__ = [
    "HealthChecks",
    "MeteredDriver",
    "Metrics",
    "Notice",
    "PageFailed",
    "PluginTelemetry",
    "ServerListening",
    "WebServer",
    "pages",
]
