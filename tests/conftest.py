"""Settings of every test: Hypothesis profiles, the program's log format, and the signal SIGINT.

Properties have no deadline and take 100 inputs, in CI the same ones each time. With
DRANET_FUZZ=nightly they take 500 at random, in CI too. The program logs plain text to
standard output: no test reads the frames and colors that structlog draws without a configuration.
"""

import os
import signal

import pytest
import structlog
from hypothesis import HealthCheck, settings

settings.register_profile(
    "laptop", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "ci", settings.get_profile("laptop"), derandomize=True, database=None, print_blob=True
)
settings.register_profile(
    "nightly", settings.get_profile("ci"), max_examples=500, derandomize=False
)
if os.environ.get("DRANET_FUZZ") == "nightly":
    settings.load_profile("nightly")
else:
    settings.load_profile("ci" if os.environ.get("CI") == "true" else "laptop")

# A shell ignores SIGINT for what it runs in the background, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def plain_log() -> None:
    """Configure structlog anew for each test: a test that runs a program configures it too."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.dev.set_exc_info,
            structlog.dev.ConsoleRenderer(
                colors=False, exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        logger_factory=structlog.PrintLoggerFactory(),
        cache_logger_on_first_use=False,
    )
