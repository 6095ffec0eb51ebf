"""Event recorder: posts Events at a limited rate.

Rules:
1. Posting an event delays no other work.
2. A server that does not answer, or rejects the credentials, is retried: a server that has just
   started rejects all requests. A rejected event is dropped, and reported once.
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
    Object,
    RejectedError,
    UnavailableError,
    name_of,
)
from dra_shim.status import notices
from dra_shim.status.correlator import MAX_WAITING, EventCorrelator, PendingEvent
from dra_shim.status.events import counted, new_event
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
        """Prepare; run does the work. Arguments are those of StatusController."""
        self._api = api
        self._node = node
        self._notify = notify
        self._clock = timing.clock
        self._wakeup = Wakeup(timing)
        self._correlator = EventCorrelator(lambda: self._lose(f"{MAX_WAITING} events wait already"))
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, timing.random)
        self._pause_until = -inf
        self._lost: set[str] = set()  # reported reasons, since one was posted

    def add(self, occurrences: Iterable[EventSpec]) -> None:
        """Queue events; a repeated one is not queued again."""
        for event in occurrences:
            if self._correlator.add(event):
                self._wakeup.wake()

    async def run(self) -> NoReturn:
        """Post until cancelled."""
        while True:
            await self._wakeup.until(self._due)
            waiting = self._correlator.take(self._clock())
            if waiting is None:
                continue
            try:
                await self._report(waiting)
            except BaseException:
                self._correlator.put_back(waiting)  # the next run continues with it
                raise

    def _due(self) -> float:
        return max(self._correlator.due(self._clock()), self._pause_until)

    async def _report(self, waiting: PendingEvent) -> None:
        try:
            await self._post(waiting)
        except (UnavailableError, RejectedError, ConflictError) as error:
            self._pause(error)
            self._again(waiting, error)
        except NotFoundError:
            self._backoff.reset()  # the namespace is gone, and with it the readers
        except ApiError as error:
            self._backoff.reset()
            self._lose(str(error))
        except Exception as error:  # noqa: BLE001 - an unexpected error costs one event, not all
            self._lose(f"internal error of dra-shim: {error!r}")
        else:
            self._backoff.reset()
            self._lost.clear()

    def _pause(self, error: ApiError) -> None:
        """Wait before the next request to the server."""
        pause_s = self._backoff.next_s(at_least_s=error.after_s)
        self._pause_until = self._clock() + pause_s
        self._notify(notices.StatusSyncFailed(error, pause_s))

    def _again(self, waiting: PendingEvent, error: ApiError) -> None:
        waiting.tries += 1
        if waiting.tries < MAX_TRIES:
            self._correlator.put_back(waiting)
        else:
            self._lose(f"tried {waiting.tries} times: {error}")

    async def _post(self, waiting: PendingEvent) -> None:
        what, count = waiting.occurrence, waiting.count
        space = what.subject.namespace
        event = new_event(what, count, await self._api_version(what), self._node)
        try:
            await self._api.create(EVENT, event, space)
        except ConflictError:
            posted: Object | None = await self._api.get(EVENT, name_of(event), space)
            posted = counted(posted or {}, what, count)
            if posted is None:
                return
            await self._api.replace(EVENT, posted, space)
        self._notify(notices.EventPosted(name_of(event), what.reason, count))

    async def _api_version(self, what: EventSpec) -> str:
        if what.kind != CLAIM.name:
            return "v1"
        return f"{CLAIM.group}/{await self._api.version(CLAIM)}"

    def _lose(self, reason: str) -> None:
        if reason not in self._lost:
            self._lost.add(reason)
            self._notify(notices.EventLost(reason))
