"""Schedule of the measured pairs: no pod is in two pairs of one round.

Within a round, pairs of NICs are measured together unless they share a card.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Round = list[tuple[Item, Item]]


def all_pairs(items: Sequence[Item]) -> list[Round[Item]]:
    """Return rounds that together have each pair once, by the circle method.

    Of three or more items, each is the first of a pair and the second of another.
    """
    if len(items) < 2:
        return []
    places: list[Item | None] = [*items] if len(items) % 2 == 0 else [*items, None]
    half = len(places) // 2
    rounds: list[Round[Item]] = []
    for _ in range(len(places) - 1):
        both = zip(places[:half], reversed(places[half:]), strict=True)
        pairs = [(one, other) for one, other in both if one is not None and other is not None]
        if len(rounds) % 2:  # the first place keeps its item
            pairs = [(other, one) if one is places[0] else (one, other) for one, other in pairs]
        rounds.append(pairs)
        places.insert(1, places.pop())
    return rounds


def ring(items: Sequence[Item]) -> list[Round[Item]]:
    """Return rounds in which each item is paired with the next one: as many pairs as items."""
    if len(items) < 3:
        return all_pairs(items)
    pairs = list(zip(items, [*items[1:], items[0]], strict=True))
    last = [pairs.pop()] if len(items) % 2 else []
    return [found for found in (pairs[::2], pairs[1::2], last) if found]


def disjoint(
    pairs: Iterable[tuple[Item, Item]], key: Callable[[Item], Hashable], most: int
) -> list[Round[Item]]:
    """Return the pairs in batches, in which no key occurs in two pairs.

    Args:
        pairs: the pairs in their order.
        key: returns the resource of an item that two pairs of a batch cannot share.
        most: largest number of pairs in a batch.
    """
    batches: list[tuple[Round[Item], set[Hashable]]] = []
    for pair in pairs:
        keys = {key(item) for item in pair}
        for batch, taken in batches:
            if len(batch) < most and not keys & taken:
                batch.append(pair)
                taken |= keys
                break
        else:
            batches.append(([pair], keys))
    return [batch for batch, _ in batches]
