"""Fuzz target config; its invariant is the docstring of its function."""

import pytest

from tests.fuzz.running import check


@pytest.mark.timeout(0)
def test_parameters_of_any_text_are_accepted_or_refused() -> None:
    check("config")
