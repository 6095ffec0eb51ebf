"""How properties are held, and what a shell that runs the tests in the background must not change.

Properties have no deadline, and in CI the same inputs each time.
"""

import os
import signal

from hypothesis import HealthCheck, settings

settings.register_profile("laptop", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "ci", settings.get_profile("laptop"), derandomize=True, database=None, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "laptop")

# A shell ignores SIGINT for what it runs in the background, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
