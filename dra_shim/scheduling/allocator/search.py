"""Depth-first search, first fit, with back-tracking over combinations and alternatives.

Rules of allocationMode All, which are those of the scheduler:
1. Its selectors are evaluated on all devices before the search, also those of an alternative.
2. A device of it that violates a constraint stops the search: no other devices are tried.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from dra_shim.cel import SelectorError
from dra_shim.resourceapi import MAX_DEVICES
from dra_shim.scheduling.allocator.candidates import Candidate, PendingRequest, RequestAlternative
from dra_shim.scheduling.allocator.errors import AllocationError
from dra_shim.scheduling.allocator.pools import PoolSet
from dra_shim.scheduling.allocator.usage import Usage

# Limit of tried devices. The look-ahead keeps the number low: only requests that compete for the
# same devices without a common constraint come near the limit.
MAX_TRIES: Final = 20_000

Pick = tuple[RequestAlternative, Candidate]


class Search:
    """One search over all requests; call `run` once.

    Attributes:
        usage: current usage.
        chosen: devices of each request; empty before a solution.
    """

    def __init__(self, pending: Sequence[PendingRequest], pool_set: PoolSet) -> None:
        """Start without allocated devices."""
        self._pending = pending
        self._tries = 0
        self.usage = Usage(pool_set)
        self.chosen: list[list[Pick]] = [[] for _ in pending]

    def run(self) -> bool:
        """Search; return whether all requests can be allocated.

        Raises:
            SelectorError: a selector failed on a tried device.
            AllocationError: a request for all devices violates a constraint, or no solution was
                found within MAX_TRIES.
        """
        for failure in _failures_of_all_mode(self._pending):
            raise failure
        return self._allocate_from(0)

    def _allocate_from(self, index: int) -> bool:
        """Allocate the request at index and all later ones, by its first possible alternative."""
        if index == len(self._pending):
            return True
        return any(
            self._try_alternative(index, alternative)
            for alternative in self._pending[index].alternatives
        )

    def _try_alternative(self, index: int, alternative: RequestAlternative) -> bool:
        if (
            alternative.blocked
            or self._allocated_to(alternative.claim) + alternative.count > MAX_DEVICES
        ):
            return False
        if self._can_finish(index, alternative, 0):
            return self._fill(index, alternative, 0)
        if len(self._pending[index].alternatives) > 1:
            self._raise_failure(alternative)
        return False

    def _raise_failure(self, alternative: RequestAlternative) -> None:
        """Raise the failure of a selector that the scheduler evaluates before it gives up."""
        for option in alternative.options:
            if option.failure is not None and self._is_open(alternative, option):
                raise option.failure

    def _fill(self, index: int, alternative: RequestAlternative, start: int) -> bool:
        """Allocate the missing devices of an alternative from option start on, then the later
        requests.
        """
        if len(self.chosen[index]) == alternative.count:
            return self._allocate_from(index + 1)
        for position in range(start, len(alternative.options)):
            option = alternative.options[position]
            if not self._is_open(alternative, option):
                continue
            if option.failure is not None:
                raise option.failure
            if violation := self.usage.violation(alternative, option):
                raise _stopped(alternative, option, violation)
            self._count_try()
            self.usage.reserve(alternative, option)
            self.chosen[index].append((alternative, option))
            if self._can_finish(index, alternative, position + 1) and self._fill(
                index, alternative, position + 1
            ):
                return True
            self.chosen[index].pop()
            self.usage.release(alternative, option)
        return False

    def _allocated_to(self, claim: int) -> int:
        return sum(
            len(picks)
            for request, picks in zip(self._pending, self.chosen, strict=True)
            if request.claim == claim
        )

    def _is_open(self, alternative: RequestAlternative, option: Candidate) -> bool:
        """Return whether an option can be allocated now, or stops the search."""
        if option.failure is not None:
            return not self.usage.taken(alternative, option)
        if self.usage.unavailable(alternative, option):
            return False
        return alternative.request.all_devices or not self.usage.violation(alternative, option)

    def _can_finish(self, index: int, alternative: RequestAlternative, start: int) -> bool:
        """Look ahead: return whether each request alone still has enough options."""
        if not self._has(alternative, start, alternative.count - len(self.chosen[index])):
            return False
        return all(
            any(
                not other.blocked and self._has(other, 0, other.count)
                for other in later.alternatives
            )
            for later in self._pending[index + 1 :]
        )

    def _has(self, alternative: RequestAlternative, start: int, count: int) -> bool:
        """Return whether count options from start on can be allocated now."""
        usable = (
            option for option in alternative.options[start:] if self._is_open(alternative, option)
        )
        return len(tuple(islice(usable, count))) == count

    def _count_try(self) -> None:
        self._tries += 1
        if self._tries > MAX_TRIES:
            names = ", ".join(
                f"{alternative.label} request {alternative.request.name}"
                for request in self._pending
                for alternative in request.alternatives
            )
            raise AllocationError(
                [
                    f"gave up after {MAX_TRIES} tries on: {names}; "
                    "make the selectors of competing requests disjoint, or ask for fewer devices"
                ]
            )


def _failures_of_all_mode(pending: Sequence[PendingRequest]) -> Iterator[SelectorError]:
    for request in pending:
        for alternative in request.alternatives:
            if alternative.request.all_devices:
                yield from (option.failure for option in alternative.options if option.failure)


def _stopped(alternative: RequestAlternative, option: Candidate, violation: str) -> AllocationError:
    return AllocationError(
        [
            f"claim {alternative.label}: request {alternative.request.name}: needs every device "
            f"that its selectors choose ({alternative.count}), but device {option.device.name}: "
            f"{violation}; the scheduler then tries no other devices for earlier requests; list "
            "this request first, or relax the selectors or constraints"
        ]
    )
