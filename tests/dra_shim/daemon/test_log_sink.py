"""Notices of the daemon's workers, as log lines."""

import pytest
from structlog.testing import capture_logs

from dra_shim.daemon.log_sink import QUIET_S, LogSink
from dra_shim.discovery import ScanFailed
from dra_shim.web import PageFailed

pytestmark = pytest.mark.process


def test_notice_is_logged_with_its_room() -> None:
    cause = RuntimeError("oops")

    with capture_logs() as logs:
        LogSink(float).of("web")(PageFailed("/metrics", cause))

    facts = {"path": "/metrics", "reason": "oops", "exc_info": cause}
    assert logs == [{"event": "page failed", "log_level": "error", "room": "web", **facts}]


def test_retried_error_is_logged_once_per_minute() -> None:
    now = 0.0
    write = LogSink(lambda: now).of("node")

    with capture_logs() as logs:
        for at, error, retry_s in ((1, "a", 1), (2, "a", 2), (3, "b", 4), (QUIET_S + 1, "a", 8)):
            now = at
            write(ScanFailed(OSError(error), retry_s))

    assert [(line["reason"], line["retry_s"]) for line in logs] == [("a", 1), ("b", 4), ("a", 8)]
