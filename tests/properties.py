"""Pytest plugin of hack/cover: properties run without coverage.

A property runs its function a hundred times, and coverage makes each time half as slow again. The
other tests cover all branches of the pure rooms.
"""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Remove the trace function, which is that of coverage, for the time of a property."""
    tracer = sys.gettrace()
    if item.get_closest_marker("hypothesis"):
        sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
