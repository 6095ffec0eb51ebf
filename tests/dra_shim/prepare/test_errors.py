"""Kinds and texts of failures, as metrics and Events show them."""

import pytest

from dra_shim.prepare.errors import MAX_MESSAGE, NotYetError, kind_of, one_line


def test_errors_are_counted_by_kind() -> None:
    assert kind_of(OSError(5, "EIO")) == "io"
    assert kind_of(NotYetError("later")) == NotYetError("later").kind


@pytest.mark.parametrize(
    ("text", "line"),
    [("two\nlines", "two lines"), ("x" * MAX_MESSAGE, "x" * MAX_MESSAGE)],
    ids=["lines", "longest"],
)
def test_message_is_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


def test_long_message_is_truncated() -> None:
    line = one_line("x" * (MAX_MESSAGE + 1))

    assert len(line) == MAX_MESSAGE
    assert line.endswith("x...")
