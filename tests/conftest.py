"""What holds for every test: how properties run, how the program logs, and the signal SIGINT.

Properties have no deadline, and in CI the same inputs each time. The program logs plain text to
standard output: no test reads the frames and colors that structlog draws without a configuration.
"""

import os
import signal

import pytest
import structlog
from hypothesis import HealthCheck, settings

settings.register_profile("laptop", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "ci", settings.get_profile("laptop"), derandomize=True, database=None, print_blob=True
)
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
