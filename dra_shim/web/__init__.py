"""Metrics and health over HTTP, for both processes: the plugin listens on nothing.

metrics.py  what the shim counts, fed by what its rooms tell
process.py  our process
plugin.py   the plugin's own numbers and its heartbeat, read from its directory
checks.py   whether we are alive, and ready
pages.py    what is served under which path
server.py   HTTP
"""

from dra_shim.web.checks import Checks
from dra_shim.web.metrics import MeteredDriver, Metrics
from dra_shim.web.pages import pages
from dra_shim.web.plugin import PluginSigns
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
