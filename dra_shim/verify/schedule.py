"""Schedule of the measured pairs: no pod is in two pairs of one round."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")
Round = list[tuple[Item, Item]]


def all_pairs(items: Sequence[Item]) -> list[Round[Item]]:
    """Return rounds that together have each pair once, by the circle method."""
    if len(items) < 2:
        return []
    places: list[Item | None] = [*items] if len(items) % 2 == 0 else [*items, None]
    half = len(places) // 2
    rounds: list[Round[Item]] = []
    for _ in range(len(places) - 1):
        both = zip(places[:half], reversed(places[half:]), strict=True)
        rounds.append(
            [(one, other) for one, other in both if one is not None and other is not None]
        )
        places.insert(1, places.pop())
    return rounds


def ring(items: Sequence[Item]) -> list[Round[Item]]:
    """Return rounds in which each item meets the next one: as many pairs as items."""
    if len(items) < 3:
        return all_pairs(items)
    pairs = list(zip(items, [*items[1:], items[0]], strict=True))
    last = [pairs.pop()] if len(items) % 2 else []
    return [found for found in (pairs[::2], pairs[1::2], last) if found]
