"""Prerequisites of tests on a machine. A laptop skips with the reason, CI fails."""

import os
from typing import NoReturn

import pytest


def lacking(what: str, remedy: str) -> NoReturn:
    """End the test because the machine lacks something: skipped, or failed where CI=true."""
    text = f"{what} is missing: {remedy}"
    if os.environ.get("CI") == "true":
        pytest.fail(text)
    pytest.skip(text)
