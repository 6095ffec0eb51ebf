"""Fuzz target netlink; its invariant is the docstring of its function."""

import pytest

from tests.fuzz.running import check


@pytest.mark.timeout(0)
def test_answers_of_any_bytes_are_accepted_or_refused() -> None:
    check("netlink")
