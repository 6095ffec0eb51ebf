"""What the daemon's parts tell, as log lines."""

import pytest
from structlog.testing import capture_logs

from dra_shim.daemon.log_sink import MAX_NAMES, LogSink
from dra_shim.discovery import DevicesExcluded
from dra_shim.web import PageFailed

pytestmark = pytest.mark.process


def test_hardware_that_is_left_out_is_named_with_the_reason() -> None:
    with capture_logs() as logs:
        LogSink(float).on_node(
            DevicesExcluded("dropped by --exclude eth*", ("pci-0000-8a-00-0",), 2)
        )

    assert logs == [
        {
            "event": "devices excluded",
            "log_level": "info",
            "room": "node",
            "reason": "dropped by --exclude eth*",
            "devices": ["pci-0000-8a-00-0"],
            "more": 0,
            "virtual": 2,
        }
    ]


def test_a_line_has_an_end_however_many_functions_a_nic_has() -> None:
    names = tuple(f"pci-0000-8a-{number:02x}-{vf}" for number in range(32) for vf in range(8))

    with capture_logs() as logs:
        LogSink(float).on_node(DevicesExcluded("no driver is bound", names))

    (line,) = logs
    assert line["devices"] == list(names[:MAX_NAMES])
    assert line["more"] == len(names) - MAX_NAMES


def test_why_a_page_failed_is_in_the_log() -> None:
    cause = RuntimeError("oops")

    with capture_logs() as logs:
        LogSink(float).on_web(PageFailed("/metrics", cause))

    (line,) = logs
    assert (line["log_level"], line["event"]) == ("error", "page failed")
    assert (line["path"], line["reason"], line["exc_info"]) == ("/metrics", "oops", cause)
