"""Fuzz target objects; its invariant is the docstring of its function."""

import pytest

from tests.fuzz.running import check


@pytest.mark.timeout(0)
def test_objects_of_a_server_are_accepted_or_refused() -> None:
    check("objects")
