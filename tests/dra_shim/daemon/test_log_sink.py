"""Notices of the daemon's workers, as log lines."""

import pytest
from structlog.testing import capture_logs

from dra_shim.daemon.log_sink import QUIET_S, LogSink
from dra_shim.discovery import ScanFailed
from dra_shim.web import PageFailed

pytestmark = pytest.mark.process


def test_a_notice_is_a_line_of_its_room() -> None:
    cause = RuntimeError("oops")

    with capture_logs() as logs:
        LogSink(float).of("parts")(PageFailed("/metrics", cause))

    facts = {"path": "/metrics", "reason": "oops", "exc_info": cause}
    assert logs == [{"event": "page failed", "log_level": "error", "room": "parts", **facts}]


def test_an_error_that_is_retried_is_logged_once_a_minute() -> None:
    now = 0.0
    write = LogSink(lambda: now).of("node")

    with capture_logs() as logs:
        for at, error, retry_s in ((1, "a", 1), (2, "a", 2), (3, "b", 4), (QUIET_S + 1, "a", 8)):
            now = at
            write(ScanFailed(OSError(error), retry_s))

    assert [(line["reason"], line["retry_s"]) for line in logs] == [("a", 1), ("b", 4), ("a", 8)]
