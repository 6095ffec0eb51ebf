"""Fuzz target nri; its invariant is the docstring of its function."""

import pytest

from tests.fuzz.running import check


@pytest.mark.timeout(0)
def test_payloads_of_any_bytes_are_accepted_or_refused() -> None:
    check("nri")
