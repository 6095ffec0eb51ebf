"""The verdict of a soak test: flat, or growing."""

from dataclasses import replace

import pytest

from tests.prove.soak import GROWTH_KIB, ProcessResources, is_flat

pytestmark = pytest.mark.process


FIRST = ProcessResources(descriptors=19, threads=1, rss_kib=35000, namespaces=0)
IDLE = ProcessResources(descriptors=21, threads=1, rss_kib=36000, namespaces=0)
BUSY = replace(IDLE, descriptors=22)


def test_temporarily_open_file_is_no_growth() -> None:
    assert is_flat([FIRST, BUSY, IDLE, IDLE, IDLE, IDLE, IDLE, IDLE, IDLE, BUSY])


@pytest.mark.parametrize(
    "grown",
    [
        replace(IDLE, descriptors=22),
        replace(IDLE, threads=5),
        replace(IDLE, namespaces=1),
        replace(IDLE, rss_kib=IDLE.rss_kib + GROWTH_KIB + 1),
    ],
    ids=["descriptors", "threads", "namespaces", "memory"],
)
def test_value_above_the_start_in_all_last_samples_has_grown(grown: ProcessResources) -> None:
    assert not is_flat([FIRST, IDLE, IDLE, IDLE, IDLE, IDLE, IDLE, grown, grown, grown])
    assert is_flat([FIRST, IDLE, IDLE, IDLE, IDLE, IDLE, IDLE, IDLE, grown, grown])


def test_small_memory_changes_are_no_growth() -> None:
    late = replace(IDLE, rss_kib=IDLE.rss_kib + GROWTH_KIB)
    assert is_flat([FIRST, IDLE, IDLE, IDLE, late, late, late])
