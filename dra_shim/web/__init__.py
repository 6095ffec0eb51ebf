"""Metrics and health over HTTP, for both processes: the plugin listens on nothing.

metrics.py            what the shim counts, fed by what its rooms tell
process_collector.py  our process
plugin_metrics.py     the plugin's own numbers and its heartbeat, read from its directory
healthz.py            whether we are alive, and ready
pages.py              what is served under which path
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
