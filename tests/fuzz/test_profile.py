"""The profile of tests/conftest.py is the one in force."""

import os

from hypothesis import HealthCheck, settings


def test_ci_uses_the_same_inputs_without_a_deadline() -> None:
    nightly = os.environ.get("DRANET_FUZZ") == "nightly"
    in_ci = os.environ.get("CI") == "true"
    used = settings()

    assert used.deadline is None
    assert HealthCheck.too_slow in used.suppress_health_check
    assert used.max_examples == (500 if nightly else 100)
    assert used.derandomize is (in_ci and not nightly)
    assert (used.database is None) is (in_ci or nightly)
