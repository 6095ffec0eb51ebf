"""Migration controller: claims that a previous driver, such as dranet, prepared on this node.

A kubelet does not prepare claims of running pods again. Without a record, their NICs would have no
owner: not published, not restored when the pods end, and refused to restarted containers.

Rules:
1. The previous driver's slices can be the only description of a device in a pod. So they are read
   before the shim publishes the node's devices, and cached.
2. Publishing waits for a limited time only. Until a claim has its record, its devices are not
   published, because they are not on the host, and the scheduler respects the claim's allocation.
3. The search runs when the shim first serves a node, when slices exist that it did not write, and
   when no slices exist: a kubelet deletes the slices of a driver that does not run.
4. The claims of a cluster are too many for one list. They are read in pages, and only those of this
   node are stored.
5. A refusal can be temporary: a permission is granted later, or an orphaned record is collected. A
   claim without a record is retried with its cached facts, without another list.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from math import inf
from typing import Final, Self

from dra_shim.kubeapi import (
    CLAIM,
    SLICE,
    ApiClient,
    ApiError,
    Document,
    ExpiredError,
    NotFoundError,
    UnavailableError,
    name_of,
)
from dra_shim.migration.devices import PreviousClaim, claims_of_node, previous_devices
from dra_shim.prepare import PrepareResult
from dra_shim.resourceslice.layout import is_own
from dra_shim.settings.common import StatePaths
from dranet_nri.component.backoff import Backoff
from dranet_nri.component.clock import REAL, LoopClock, Wakeup
from dranet_nri.component.notice import LogLine, LogNotice
from dranet_nri.component.replace import replace
from dranet_nri.model import DRIVER_NAME, Device, ObjectRef

PAGE: Final = 100  # claims per page; one takes some 15 KB, and six times that when it is parsed
PUBLISH_DELAY_S: Final = 60.0  # after the previous slices are known
FIRST_PAUSE_S: Final = 1.0  # seconds before a retry; doubles
LONGEST_PAUSE_S: Final = 30.0
FIRST_LASTING_S: Final = 30.0  # seconds after a refusal, which an operator must resolve
LONGEST_LASTING_S: Final = 300.0
REFUSED_S: Final = 300.0  # seconds before refused claims are retried

Prepare = Callable[
    [Sequence[ObjectRef], Mapping[str, Device]], Awaitable[Mapping[str, PrepareResult]]
]


@dataclass(frozen=True, slots=True)
class MigrationFinished(LogNotice):
    """The search for migrated claims ended; refused lists those without a record."""

    claims: int
    refused: tuple[str, ...] = ()

    def line(self) -> LogLine:
        """Return the log line; each refusal has one of its own."""
        if not self.claims and not self.refused:
            return LogLine("debug", "no claims to migrate")
        return LogLine("info", "claims migrated", {"claims": self.claims})


@dataclass(frozen=True, slots=True)
class ClaimNotMigrated(LogNotice):
    """A claim has no record; the reason names it."""

    log = LogLine("error", "claim not migrated")
    reason: str


@dataclass(frozen=True, slots=True)
class MigrationFailed(LogNotice):
    """The search for migrated claims failed; retried after retry_s seconds, None for never."""

    log = LogLine("warning", "migration failed")
    error: ApiError | OSError
    retry_s: float | None


Notice = MigrationFinished | ClaimNotMigrated | MigrationFailed


class MigrationController:
    """One search for migrated claims."""

    def __init__(
        self,
        api: ApiClient,
        node: str,
        state: StatePaths,
        prepare: Prepare,
        notify: Callable[[Notice], None],
        timing: LoopClock = REAL,
    ) -> None:
        """Create the controller; `run` searches.

        Args:
            api: the API client.
            node: name of this node.
            state: location of the marker that the search is complete.
            prepare: records claims with these devices, which may be known only from slices; returns
                results for claims that a pod still uses.
            notify: called with the result, and with refusals when they change; must not raise.
            timing: clock and timers.
        """
        self._api = api
        self._node = node
        self._state = state
        self._prepare = prepare
        self._notify = notify
        self._timing = timing
        self._wakeup = Wakeup(timing)
        # slices of the previous driver, before they are replaced
        self._slices: Sequence[Document] | None = None
        self._unmigrated: _Unmigrated | None = None
        self._publish_at = inf
        lasting_s = FIRST_LASTING_S, LONGEST_LASTING_S
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, timing.random, lasting_s)
        self._lasting = False  # whether the last failure was a refusal

    async def run(self) -> None:
        """Search until the result is complete, not needed, or cannot be recorded."""
        self._backoff.reset()
        while True:
            try:
                if await self._migrate():
                    break
            except ApiError as error:
                wait_s = self._pause_s(error)
                self._notify(MigrationFailed(error, wait_s))
            except OSError as error:
                self._notify(MigrationFailed(error, None))
                break
            else:
                self._backoff.reset()
                wait_s = REFUSED_S
            await self._timing.sleep(wait_s)
        self._slices = self._unmigrated = None
        self._allow_publish(-inf)

    def _pause_s(self, error: ApiError) -> float:
        """Return the seconds to wait; the back-off starts again when failures become refusals.

        A server that starts does not answer, and then refuses.
        """
        lasting = not isinstance(error, UnavailableError | ExpiredError)
        if lasting is not self._lasting:
            self._lasting = lasting
            self._backoff.reset()
        return self._backoff.next_s(lasting=lasting, at_least_s=error.after_s)

    async def until_publishable(self) -> None:
        """Wait until publishing may begin: records exist, or the time limit is over."""
        await self._wakeup.until(lambda: self._publish_at)

    def _allow_publish(self, at: float) -> None:
        self._publish_at = min(self._publish_at, at)
        self._wakeup.wake()

    async def _migrate(self) -> bool:
        """Record the claims that have no record; return whether all have one then."""
        if self._unmigrated is None:
            previous = await self._previous_slices()
            own = [is_own(self._node, name_of(document)) for document in previous]
            if self._state.adopted.exists() and own and all(own):
                return True
            # Soon all slices are those of the shim again.
            self._state.adopted.unlink(missing_ok=True)
            unmigrated = _Unmigrated.of(await self._claims(), previous)
        else:
            unmigrated = replace(
                self._unmigrated, claims=await self._in_use(self._unmigrated.claims)
            )
        claims = unmigrated.claims
        answers = await self._prepare(claims, unmigrated.devices) if claims else {}
        errors = {claim: answers[claim.uid].error for claim in claims if claim.uid in answers}
        refused = {claim: error for claim, error in errors.items() if error}
        reported = tuple(f"claim {claim}: {error}" for claim, error in refused.items())
        recorded = len(errors) - len(refused)
        if recorded or reported != unmigrated.reported:
            self._notify(MigrationFinished(recorded, reported))
            for reason in reported:
                self._notify(ClaimNotMigrated(reason))
        self._slices = None
        self._unmigrated = _Unmigrated(tuple(refused), unmigrated.devices, reported)
        self._allow_publish(-inf)
        if not refused:  # otherwise the next start searches again
            self._state.adopted.touch()
        return not refused

    async def _previous_slices(self) -> Sequence[Document]:
        """Return the node's slices before the first publication."""
        if self._slices is None:
            fields = {"spec.nodeName": self._node, "spec.driver": DRIVER_NAME}
            self._slices = (await self._api.list(SLICE, fields)).items
            self._allow_publish(self._timing.clock() + PUBLISH_DELAY_S)
        return self._slices

    async def _claims(self) -> Sequence[PreviousClaim]:
        """Return the claims of this node, all in one state of the server."""
        found: list[PreviousClaim] = []
        async with aclosing(self._api.pages(CLAIM, PAGE)) as pages:
            async for page in pages:
                found += claims_of_node(page.items, self._node)
        return found

    async def _in_use(self, claims: Sequence[ObjectRef]) -> tuple[ObjectRef, ...]:
        """Return the claims that pods of this node still have."""
        found: list[ObjectRef] = []
        for claim in claims:
            with suppress(NotFoundError):
                document = await self._api.get(CLAIM, claim.name, claim.namespace)
                found += (
                    claim_in_use.ref for claim_in_use in claims_of_node([document], self._node)
                )
        return tuple(ref for ref in found if ref in claims)


@dataclass(frozen=True, slots=True)
class _Unmigrated:
    """Migrated claims without a record.

    Attributes:
        claims: the claims.
        devices: their devices by name, with facts from slices and claims.
        reported: reported refusals; None before the first report.
    """

    claims: tuple[ObjectRef, ...]
    devices: Mapping[str, Device]
    reported: tuple[str, ...] | None = None

    @classmethod
    def of(cls, claims: Sequence[PreviousClaim], previous: Sequence[Document]) -> Self:
        """Return the claims with their devices, from the claims and the previous slices."""
        return cls(tuple(claim.ref for claim in claims), previous_devices(claims, previous))
