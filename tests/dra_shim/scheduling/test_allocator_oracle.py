"""The allocator against an oracle: an independent search of every combination.

Satisfiable exactly where the oracle finds an answer, and what is given is one of the oracle's:
its first, since both try claims, requests, alternatives and devices in their order.
"""

from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from hypothesis import event, given
from hypothesis import strategies as st

from dra_shim.resourceapi import (
    Capacity,
    Cel,
    ClaimRequest,
    ClaimSpec,
    Constraint,
    CounterValue,
    DeviceClass,
    DeviceRequest,
    Policy,
    SliceDevice,
    Taint,
    Toleration,
)
from dra_shim.scheduling.allocator import AllocationError, CandidatePools, NamedClaim, Pool, choose

DRIVER, POOLS = "x.y", ("p", "q")
CLASSES = {"any": DeviceClass("any")}
STEP = 2  # capacity is consumed in steps of it


@dataclass(frozen=True)
class Thing:
    """A device, in small numbers."""

    pool: str
    name: str
    p: int | None
    q: int | None
    busy: bool
    tainted: bool
    shared: bool
    room: int
    draws: int


@dataclass(frozen=True)
class Ask:
    """One way to meet a request, in small numbers."""

    number: int
    every: bool
    admin: bool
    p: int | None
    tolerates: bool
    room: int


@dataclass(frozen=True)
class Rule:
    """A constraint: on p or q, of which requests (all if empty), matching or distinct."""

    attribute: str
    requests: tuple[int, ...]
    distinct: bool


@dataclass(frozen=True)
class Case:
    """What one example asks: claims are lists of requests, requests lists of alternatives."""

    things: tuple[Thing, ...]
    claims: tuple[tuple[tuple[Ask, ...], ...], ...]
    rules: tuple[tuple[Rule, ...], ...]
    counters: tuple[int, int]
    incomplete: bool


def few(*, low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


value = st.sampled_from([None, 0, 1])
rarely = st.sampled_from([False, False, False, True])
things = st.builds(
    Thing, st.sampled_from(POOLS), st.just(""), value, value, rarely, rarely, rarely,
    few(low=1, high=5), few(low=0, high=2),
)  # fmt: skip
asks = st.builds(
    Ask, few(low=1, high=3), rarely, rarely, st.sampled_from([None, None, 0, 1]), st.booleans(),
    few(low=0, high=4),
)  # fmt: skip
rules = st.builds(
    Rule, st.sampled_from("pq"), st.sampled_from([(), (0,), (0, 1)]), st.booleans()
)  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> Case:
    found = draw(st.lists(things, max_size=5))
    named = [
        Thing(**{**{k: getattr(t, k) for k in t.__dataclass_fields__}, "name": f"d{i}"})
        for i, t in enumerate(sorted(found, key=lambda t: t.pool))
    ]
    claims = draw(
        st.lists(
            st.lists(st.lists(asks, min_size=1, max_size=2).map(tuple), min_size=1, max_size=2).map(
                tuple
            ),
            min_size=1,
            max_size=2,
        )
    )
    of_claim = tuple(tuple(draw(st.lists(rules, max_size=2))) for _ in claims)
    counters = (draw(few(low=0, high=4)), draw(few(low=0, high=4)))
    return Case(tuple(named), tuple(claims), of_claim, counters, draw(rarely))


@given(cases())
def test_result_equals_the_first_of_the_reference_search(case: Case) -> None:
    expected = next(oracle(case, 0, 0, ()), None)
    event("satisfiable" if expected is not None else "not satisfiable")

    try:
        grants = choose(wanted(case), CLASSES, supply(case), new_uid=str)
    except AllocationError:
        assert expected is None
    else:
        assert [(grant.claim, grant.request, grant.offer.name) for grant in grants] == expected


# --------------------------------------------------------------------------- the oracle

# (claim, request, alternative, thing)
Taken = tuple[int, int, int, Thing]


def oracle(
    case: Case, claim: int, request: int, taken: tuple[Taken, ...]
) -> Iterator[list[tuple[int, str, str]]]:
    """Yield every valid answer, in order; validity is asked of the whole, at the end only."""
    if claim == len(case.claims):
        if is_valid(case, taken):
            yield [(c, title(case, c, r, a), thing.name) for c, r, a, thing in taken]
    elif request == len(case.claims[claim]):
        yield from oracle(case, claim + 1, 0, taken)
    else:
        for index, ask in enumerate(case.claims[claim][request]):
            for chosen in choices(case, ask):
                more = tuple((claim, request, index, thing) for thing in chosen)
                yield from oracle(case, claim, request + 1, taken + more)


def choices(case: Case, ask: Ask) -> Iterator[tuple[Thing, ...]]:
    matching = [thing for thing in case.things if ask.p is None or thing.p == ask.p]
    if not ask.every:
        complete = [thing for thing in matching if not (case.incomplete and thing.pool == "q")]
        yield from combinations(complete, ask.number)
    elif not case.incomplete and (able := [t for t in matching if consumed(ask, t) <= t.room]):
        yield tuple(able)


def is_valid(case: Case, taken: Sequence[Taken]) -> bool:
    asked = [(case.claims[c][r][a], c, r, thing) for c, r, a, thing in taken]
    for ask, _, _, thing in asked:
        if thing.tainted and not ask.tolerates:
            return False
        if thing.busy and not ask.admin:
            return False
        if consumed(ask, thing) > thing.room:
            return False
    return (
        exclusive(asked)
        and within_capacity(asked)
        and within_counters(case, asked)
        and all(
            obeys(rule, [(r, thing) for _, c, r, thing in asked if c == claim])
            for claim, of_claim in enumerate(case.rules)
            for rule in of_claim
        )
    )


def consumed(ask: Ask, thing: Thing) -> int:
    if ask.room == 0:
        return thing.room
    return -(-ask.room // STEP) * STEP if thing.shared else ask.room


def exclusive(asked: Sequence[tuple[Ask, int, int, Thing]]) -> bool:
    for index, (ask, claim, _, thing) in enumerate(asked):
        for _, other_claim, _, other in asked[:index]:
            if other == thing and not thing.shared and (not ask.admin or claim == other_claim):
                return False
    return True


def within_capacity(asked: Sequence[tuple[Ask, int, int, Thing]]) -> bool:
    used: Tally[str] = Tally()
    for ask, _, _, thing in asked:
        if thing.shared:
            used[thing.name] += consumed(ask, thing)
    return all(used[thing.name] <= thing.room for _, _, _, thing in asked)


def within_counters(case: Case, asked: Sequence[tuple[Ask, int, int, Thing]]) -> bool:
    alone = [thing for _, _, _, thing in asked if not thing.shared]
    drawing = [*alone, *{thing for _, _, _, thing in asked if thing.shared}]
    for pool, total in zip(POOLS, case.counters, strict=True):
        mine = sum(thing.draws for thing in drawing if thing.pool == pool)
        before = sum(thing.draws for thing in case.things if thing.busy and thing.pool == pool)
        if mine and mine > total - before:
            return False
    return True


def obeys(rule: Rule, devices: Sequence[tuple[int, Thing]]) -> bool:
    bound = [
        getattr(thing, rule.attribute)
        for request, thing in devices
        if not rule.requests or request in rule.requests
    ]
    if None in bound:
        return False
    return len(set(bound)) == len(bound) if rule.distinct else len(set(bound)) <= 1


# --------------------------------------------------------------------------- the same, as objects


def title(case: Case, claim: int, request: int, index: int) -> str:
    alternatives = len(case.claims[claim][request])
    return f"r{request}" if alternatives == 1 else f"r{request}/a{index}"


def wanted(case: Case) -> list[NamedClaim]:
    return [
        NamedClaim(
            f"ns/c{c}",
            ClaimSpec(
                tuple(
                    ClaimRequest(
                        f"r{r}",
                        tuple(
                            device_request(title(case, c, r, a), way)
                            for a, way in enumerate(ways)
                        ),
                    )
                    for r, ways in enumerate(requests)
                ),
                tuple(constraint(rule, len(requests), i) for i, rule in enumerate(case.rules[c])),
            ),
        )
        for c, requests in enumerate(case.claims)
    ]  # fmt: skip


def constraint(rule: Rule, number: int, index: int) -> Constraint:
    names = tuple(f"r{request}" for request in rule.requests if request < number)
    return Constraint(f"{DRIVER}/{rule.attribute}", names, distinct=rule.distinct, path=str(index))


def device_request(name: str, ask: Ask) -> DeviceRequest:
    selectors = (
        () if ask.p is None else (Cel(f'device.attributes["x.y"].?p.orValue(9) == {ask.p}'),)
    )
    return DeviceRequest(
        name,
        "any",
        selectors,
        ask.number,
        ask.every,
        ask.admin,
        (("room", Fraction(ask.room)),) if ask.room else (),
        (Toleration("bad", exists=True),) if ask.tolerates else (),
    )


def supply(case: Case) -> CandidatePools:
    pools = tuple(
        Pool(
            DRIVER,
            pool,
            tuple(offer(thing) for thing in case.things if thing.pool == pool),
            (CounterValue("set", "c", Fraction(total)),),
            "incomplete" if case.incomplete and pool == "q" else "",
        )
        for pool, total in zip(POOLS, case.counters, strict=True)
    )
    busy = {(DRIVER, thing.pool, thing.name): "someone" for thing in case.things if thing.busy}
    return CandidatePools(pools, busy)


def offer(thing: Thing) -> SliceDevice:
    attributes = (("p", thing.p), ("q", thing.q))
    policy = Policy(None, (), Fraction(STEP), None, Fraction(STEP)) if thing.shared else Policy()
    return SliceDevice(
        DRIVER,
        thing.pool,
        thing.name,
        tuple((name, number) for name, number in attributes if number is not None),
        (Capacity("room", Fraction(thing.room), policy),),
        (CounterValue("set", "c", Fraction(thing.draws)),) if thing.draws else (),
        (Taint("bad", "", "NoExecute"),) if thing.tainted else (),
        thing.shared,
    )
