"""The verdict of a soak test: flat, or growing."""

from dataclasses import replace

import pytest

from tests.prove.soak import GROWTH_KIB, Held, is_flat

pytestmark = pytest.mark.process


FIRST = Held(descriptors=19, threads=1, rss_kib=35000, namespaces=0)
HELD = Held(descriptors=21, threads=1, rss_kib=36000, namespaces=0)
BUSY = replace(HELD, descriptors=22)


def test_temporarily_open_file_is_no_growth() -> None:
    assert is_flat([FIRST, BUSY, HELD, HELD, HELD, HELD, HELD, HELD, HELD, BUSY])


@pytest.mark.parametrize(
    "grown",
    [
        replace(HELD, descriptors=22),
        replace(HELD, threads=5),
        replace(HELD, namespaces=1),
        replace(HELD, rss_kib=HELD.rss_kib + GROWTH_KIB + 1),
    ],
    ids=["descriptors", "threads", "namespaces", "memory"],
)
def test_value_above_the_start_in_all_last_samples_has_grown(grown: Held) -> None:
    assert not is_flat([FIRST, HELD, HELD, HELD, HELD, HELD, HELD, grown, grown, grown])
    assert is_flat([FIRST, HELD, HELD, HELD, HELD, HELD, HELD, HELD, grown, grown])


def test_small_memory_changes_are_no_growth() -> None:
    late = replace(HELD, rss_kib=HELD.rss_kib + GROWTH_KIB)
    assert is_flat([FIRST, HELD, HELD, HELD, late, late, late])
