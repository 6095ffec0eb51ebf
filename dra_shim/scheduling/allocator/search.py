"""Depth-first search, first fit, with back-tracking over combinations and alternatives."""

from collections.abc import Sequence
from typing import Final

from dra_shim.resourceapi import MAX_DEVICES
from dra_shim.scheduling.allocator.candidates import Candidate, PendingRequest, RequestAlternative
from dra_shim.scheduling.allocator.errors import AllocationError
from dra_shim.scheduling.allocator.pools import CandidatePools
from dra_shim.scheduling.allocator.usage import Usage

# Limit of tried devices. The look-ahead keeps the number low; only requests that compete for the
# same
# devices without a common constraint come near the limit.
MAX_TRIES: Final = 20_000

Pick = tuple[RequestAlternative, Candidate]


class Search:
    """One search; call `run` once.

    Attributes:
        usage: current usage.
        chosen: devices of each request; empty before a solution.
    """

    def __init__(self, wants: Sequence[PendingRequest], supply: CandidatePools) -> None:
        """Start without allocated devices."""
        self._wants = wants
        self._tries = 0
        self.usage = Usage(supply)
        self.chosen: list[list[Pick]] = [[] for _ in wants]

    def run(self) -> bool:
        """Search; return whether all requests can be allocated.

        Raises:
            SelectorError: a selector failed on a tried device.
            AllocationError: no solution was found within MAX_TRIES.
        """
        return self._place(0)

    def _place(self, index: int) -> bool:
        """Allocate the request at index and all later ones, by its first possible alternative."""
        if index == len(self._wants):
            return True
        return any(self._begin(index, part) for part in self._wants[index].parts)

    def _begin(self, index: int, part: RequestAlternative) -> bool:
        if part.request.every:
            for option in part.options:
                if option.failure is not None:
                    raise option.failure
        if part.blocked or self._given_to(part.claim) + part.count > MAX_DEVICES:
            return False
        return self._can_finish(index, part, 0) and self._fill(index, part, 0)

    def _fill(self, index: int, part: RequestAlternative, start: int) -> bool:
        """Allocate the missing devices of an alternative from option start on, then the later
        requests.
        """
        if len(self.chosen[index]) == part.count:
            return self._place(index + 1)
        for position in range(start, len(part.options)):
            option = part.options[position]
            if not self._is_open(part, option):
                continue
            if option.failure is not None:
                raise option.failure
            self._count_try()
            self.usage.reserve(part, option)
            self.chosen[index].append((part, option))
            if self._can_finish(index, part, position + 1) and self._fill(
                index, part, position + 1
            ):
                return True
            self.chosen[index].pop()
            self.usage.release(part, option)
        return False

    def _given_to(self, claim: int) -> int:
        return sum(
            len(picks)
            for want, picks in zip(self._wants, self.chosen, strict=True)
            if want.claim == claim
        )

    def _is_open(self, part: RequestAlternative, option: Candidate) -> bool:
        """Return whether an option can be allocated now; one with a failed selector counts."""
        if option.failure is not None:
            return not self.usage.taken(part, option)
        return not self.usage.conflicts_with(part, option)

    def _can_finish(self, index: int, part: RequestAlternative, start: int) -> bool:
        """Look ahead: return whether each request alone still has enough options."""
        if not self._has(part, start, part.count - len(self.chosen[index])):
            return False
        return all(
            any(not part.blocked and self._has(part, 0, part.count) for part in later.parts)
            for later in self._wants[index + 1 :]
        )

    def _has(self, part: RequestAlternative, start: int, wanting: int) -> bool:
        position = start
        while wanting > 0 and position < len(part.options):
            wanting -= self._is_open(part, part.options[position])
            position += 1
        return wanting == 0

    def _count_try(self) -> None:
        self._tries += 1
        if self._tries > MAX_TRIES:
            names = ", ".join(
                f"{part.label} request {part.request.name}"
                for want in self._wants
                for part in want.parts
            )
            raise AllocationError(
                [
                    f"gave up after {MAX_TRIES} tries on: {names}; "
                    "make the selectors of competing requests disjoint, or ask for fewer devices"
                ]
            )
