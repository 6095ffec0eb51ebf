"""Text is one line of bounded length, whatever it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_shim.status.text import one_line, reason_of, seconds_of, stamp_of


def test_lines_are_joined() -> None:
    assert one_line("  a\n\tb\x85c  ", 100) == "a b c"


@pytest.mark.parametrize(
    ("text", "limit", "line"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abc..."),
        ("äöü", 6, "äöü"),
        ("äöüx", 6, "ä..."),
        ("a\ud800b", 6, "a?b"),
    ],
)
def test_long_text_is_truncated_between_characters(text: str, limit: int, line: str) -> None:
    assert one_line(text, limit) == line


@given(st.text(), st.integers(3, 40))
def test_line_does_not_exceed_the_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)

    assert len(line.encode()) <= limit
    assert "\n" not in line


@pytest.mark.parametrize("text", ["NetworkReady", "A", "A_1", "a" * 128])
def test_word_is_a_valid_reason(text: str) -> None:
    assert reason_of(text) == text


@pytest.mark.parametrize("text", ["", "no such device", "1st", "A-b", "Not:", "a" * 129, "Ä"])
def test_other_text_is_no_reason(text: str) -> None:
    assert reason_of(text) == "Unknown"


def test_times_are_whole_utc_seconds() -> None:
    assert stamp_of(1_790_000_000.9) == "2026-09-21T14:13:20Z"
    assert seconds_of("2026-09-21T14:13:20Z") == 1_790_000_000


@pytest.mark.parametrize("stamp", [None, "", "yesterday", 7, {}])
def test_invalid_time_is_none(stamp: object) -> None:
    assert seconds_of(stamp) is None
