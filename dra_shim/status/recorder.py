"""Event recorder: posts Events at a limited rate.

Rules:
1. Posting an event delays no other work.
2. A server that does not answer, rejects the credentials or does not serve the API is retried: a
   server that has just started rejects all requests. So is a conflict: without an existing event
   its cause is a quota that changed. A rejected event is dropped, and reported once.
3. A failed event is retried after the others, with a limit: the cause may be a webhook for one
   namespace that does not answer.
"""

from collections.abc import Iterable
from math import inf
from typing import Final, NoReturn

from dra_shim.kubeapi import (
    CLAIM,
    EVENT,
    ApiClient,
    ApiError,
    ConflictError,
    NotFoundError,
    NotServedError,
    RejectedError,
    UnavailableError,
    name_of,
)
from dra_shim.status import notices
from dra_shim.status.correlator import MAX_PENDING, EventCorrelator, PendingEvent
from dra_shim.status.events import new_event, with_count
from dra_shim.status.reasons import EventSpec
from dranet_nri.component.backoff import Backoff
from dranet_nri.component.clock import LoopClock, Wakeup

FIRST_PAUSE_S: Final = 1.0  # seconds after a failure; doubles with each
LONGEST_PAUSE_S: Final = 60.0
# retries of an event, 7 minutes if it is the only one; client-go: maxTriesPerEvent
MAX_TRIES: Final = 12


class EventRecorder:
    """Poster of Events."""

    def __init__(
        self, api: ApiClient, node: str, notify: notices.Notify, timing: LoopClock
    ) -> None:
        """Create the recorder; `run` posts. Arguments are those of StatusController."""
        self._api = api
        self._node = node
        self._notify = notify
        self._clock = timing.clock
        self._wakeup = Wakeup(timing)
        self._correlator = EventCorrelator(lambda: self._drop(f"{MAX_PENDING} events wait already"))
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, timing.random)
        self._pause_until = -inf
        self._lost: set[str] = set()  # reasons reported since the last posted event

    def add(self, events: Iterable[EventSpec]) -> None:
        """Queue events; a repeated one is not queued again."""
        for event in events:
            if self._correlator.add(event):
                self._wakeup.wake()

    async def run(self) -> NoReturn:
        """Post until cancelled."""
        while True:
            await self._wakeup.until(self._due)
            pending = self._correlator.take(self._clock())
            if pending is None:
                continue
            try:
                await self._deliver(pending)
            except BaseException:
                self._correlator.put_back(pending)  # the next run continues with it
                raise

    def _due(self) -> float:
        return max(self._correlator.due(self._clock()), self._pause_until)

    async def _deliver(self, pending: PendingEvent) -> None:
        try:
            await self._post(pending)
        except (UnavailableError, RejectedError, NotServedError, ConflictError) as error:
            self._pause(error)
            self._retry(pending, error)
        except NotFoundError:
            self._backoff.reset()  # the namespace was deleted
        except ApiError as error:
            self._backoff.reset()
            self._drop(str(error))
        except Exception as error:  # noqa: BLE001 - an unexpected error drops one event, not all
            self._drop(f"internal error of dra-shim: {error!r}")
        else:
            self._backoff.reset()
            self._lost.clear()

    def _pause(self, error: ApiError) -> None:
        """Wait before the next request to the server."""
        pause_s = self._backoff.next_s(at_least_s=error.after_s)
        self._pause_until = self._clock() + pause_s
        self._notify(notices.StatusSyncFailed(error, pause_s))

    def _retry(self, pending: PendingEvent, error: ApiError) -> None:
        pending.tries += 1
        if pending.tries < MAX_TRIES:
            self._correlator.put_back(pending)
        else:
            self._drop(f"tried {pending.tries} times: {error}")

    async def _post(self, pending: PendingEvent) -> None:
        spec, count = pending.spec, pending.count
        namespace = spec.subject.namespace
        event = new_event(spec, count, await self._api_version(spec), self._node)
        try:
            await self._api.create(EVENT, event, namespace)
        except ConflictError as error:
            try:
                existing = await self._api.get(EVENT, name_of(event), namespace)
            except NotFoundError:
                raise error from None
            posted = with_count(existing, spec, count)
            if posted is None:
                return
            await self._api.replace(EVENT, posted, namespace)
        self._notify(notices.EventPosted(name_of(event), spec.reason, count))

    async def _api_version(self, spec: EventSpec) -> str:
        if spec.kind != CLAIM.name:
            return "v1"
        return f"{CLAIM.group}/{await self._api.version(CLAIM)}"

    def _drop(self, reason: str) -> None:
        if reason not in self._lost:
            self._lost.add(reason)
            self._notify(notices.EventLost(reason))
