"""Work queue of claim status: the claims to update, and the time of each.

Rules:
1. The last state wins: a claim is queued once, and its turn reads the current records.
2. A write starts a delay of its claim, so that records that change all the time are a write in 5 s.
3. An error of one claim delays that claim; a server that does not answer delays all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from dra_shim.status.conditions import DeviceStatus
from dranet_nri.component.backoff import backoff_s
from dranet_nri.model import ObjectRef

REST_S: Final = 5.0
FIRST_PAUSE_S: Final = 0.5  # after trouble that may pass; doubles with each
LONGEST_PAUSE_S: Final = 30.0
FIRST_LASTING_S: Final = 5.0  # after a refusal, which somebody must do something about
LONGEST_LASTING_S: Final = 300.0

Devices = tuple[DeviceStatus, ...]


@dataclass(slots=True)
class ClaimItem:
    """One claim.

    Attributes:
        devices: what its status shall say.
        due: when to see to that; inf while or once it was seen to.
        not_before: rests until then, whatever changes.
        failures: in a row, of this claim alone.
    """

    claim: ObjectRef
    devices: Devices
    due: float = inf
    not_before: float = -inf
    failures: int = 0


class ClaimQueue:
    """All claims. Times are seconds of any one clock."""

    def __init__(self, random: Callable[[], float]) -> None:
        """Start empty; random gives 0 to 1."""
        self._random = random
        self._jobs: dict[str, ClaimItem] = {}
        self._silences = 0
        self._silent_until = -inf

    @property
    def due(self) -> float:
        """Return when the next claim is due, inf for none."""
        first = min((job.due for job in self._jobs.values()), default=inf)
        return max(first, self._silent_until)

    def want(self, claim: ObjectRef, devices: Devices, now: float, patience_s: float) -> None:
        """Queue the status of a claim, to be written after this delay."""
        job = self._jobs.get(claim.uid)
        if job is None:
            job = self._jobs[claim.uid] = ClaimItem(claim, devices)
        elif job.devices == devices:
            return
        job.devices = devices
        job.due = max(now + patience_s, job.not_before)

    def begin(self) -> ClaimItem:
        """Return the claim that is due first; it is being seen to from now on."""
        job = min(self._jobs.values(), key=lambda job: job.due)
        job.due = inf
        return job

    def done(self, job: ClaimItem, now: float, *, wrote: bool) -> None:
        """End with a claim whose status was brought up to date, or was so."""
        job.failures = 0
        job.not_before = now + REST_S if wrote else -inf
        if job.due < inf:
            job.due = max(job.due, job.not_before)
        elif not job.devices:
            self.forget(job)

    def put_off(self, job: ClaimItem, until: float) -> None:
        """Postpone a claim until then, also if it changes."""
        job.due = job.not_before = until

    def forget(self, job: ClaimItem) -> None:
        """End with a claim that is gone."""
        self._jobs.pop(job.claim.uid, None)

    def hindered(self, job: ClaimItem, now: float, *, lasting: bool) -> float:
        """End with a claim that could not be written; return how many seconds it is left alone.

        Args:
            job: the claim.
            now: the time.
            lasting: whether an operator has to act.
        """
        first, longest = (
            (FIRST_LASTING_S, LONGEST_LASTING_S) if lasting else (FIRST_PAUSE_S, LONGEST_PAUSE_S)
        )
        pause_s = backoff_s(job.failures, first, longest, self._random())
        job.failures += 1
        self.put_off(job, now + pause_s)
        return pause_s

    def answered(self) -> None:
        """Note that the server answers."""
        self._silences = 0

    def silenced(self, job: ClaimItem, now: float, *, after_s: float = 0.0) -> float:
        """End with a claim, and leave the server alone; return for how many seconds.

        Args:
            job: the claim, whose turn comes again.
            now: the time.
            after_s: how long the server asked to be left alone.
        """
        wanted_s = backoff_s(self._silences, FIRST_PAUSE_S, LONGEST_PAUSE_S, self._random())
        pause_s = max(after_s, wanted_s)
        self._silences += 1
        self._silent_until = now + pause_s
        job.due = min(job.due, now)
        return pause_s
