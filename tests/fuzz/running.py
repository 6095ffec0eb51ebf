"""The run of a fuzz target under Hypothesis: first its corpus, then the inputs of a profile.

DRANET_FUZZ names the profile: dev (50 inputs), ci (500, the same each time; the default where
CI=true) or nightly (20,000 at random). tests/conftest.py reads it for the other properties.
"""

import os
from typing import Final

from hypothesis import HealthCheck, given, settings

from tests.fuzz.inputs import TARGETS, corpus, inputs

_SLOW: Final = (HealthCheck.too_slow, HealthCheck.data_too_large)
PROFILES: Final = {
    "dev": settings(max_examples=50, deadline=None, suppress_health_check=_SLOW),
    "ci": settings(
        max_examples=500,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=_SLOW,
    ),
    "nightly": settings(
        max_examples=20_000, database=None, deadline=None, suppress_health_check=_SLOW
    ),
}


def profile() -> settings:
    """Return the profile that the environment names.

    Raises:
        ValueError: there is none of that name.
    """
    name = os.environ.get("DRANET_FUZZ") or ("ci" if os.environ.get("CI") == "true" else "dev")
    if name not in PROFILES:
        raise ValueError(f"DRANET_FUZZ={name}: use one of {', '.join(PROFILES)}")
    return PROFILES[name]


def check(name: str) -> None:
    """Hold the target's invariant against its corpus and a profile's worth of inputs."""
    for file_name, data in corpus(name).items():
        try:
            TARGETS[name].run(data)
        except Exception as error:
            error.add_note(f"input: tests/fuzz/corpus/{name}/{file_name}")
            raise
    profile()(given(inputs(name))(TARGETS[name].run))()


def fuzz(name: str, count: int) -> int:
    """Hold the target's invariant against about count inputs at random; return how many."""
    runs = 0

    def counted(data: bytes) -> None:
        nonlocal runs
        runs += 1
        TARGETS[name].run(data)

    settings(PROFILES["nightly"], max_examples=count)(given(inputs(name))(counted))()
    return runs
