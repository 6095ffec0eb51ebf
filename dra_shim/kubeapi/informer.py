"""Informer: the objects of a kind on the server, by list and watch.

After the server ends a watch, the next watch continues from the last state; watches that end too
early are retried with back-off. After an error, or after a watch without any event (not even a
bookmark), all objects are listed again: the server may have been restored to an earlier state (etcd
backup), and a watch from a later state then gets neither events nor an error.
"""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Final, NoReturn

from dra_shim.kubeapi.client import ApiClient
from dra_shim.kubeapi.errors import ApiError, ExpiredError
from dra_shim.kubeapi.requests import Kind
from dra_shim.kubeapi.responses import Object, WatchEvent, WatchEventType, name_of, version_of
from dranet_nri.component.backoff import Backoff
from dranet_nri.component.clock import REAL, LoopClock

# seconds of a watch; up to twice as long, so that watches do not end at the same time
WATCH_S: Final = 300
STEADY_S: Final = 10.0  # seconds; after a watch of this length the back-off starts again
FIRST_PAUSE_S: Final = 0.5  # seconds after an error, or a watch without an event; doubles
LONGEST_PAUSE_S: Final = 60.0
_ANY: Final = "0"  # resourceVersion of a list in any state; the watch continues from it
_NEWEST: Final = ""


class Informer:
    """Cache of the objects of one kind.

    Attributes:
        objects: by name; empty before the first list.
        complete: whether the first list is complete.
    """

    def __init__(
        self,
        api: ApiClient,
        kind: Kind,
        fields: Mapping[str, str],
        changed: Callable[[], None],
        failed: Callable[[ApiError, float], None],
        timing: LoopClock = REAL,
    ) -> None:
        """Create the informer; `run` sends requests.

        Args:
            api: the API client.
            kind: a kind without namespaces.
            fields: field selector.
            changed: called when objects changed, or may have changed.
            failed: called with an error, and the seconds until the retry.
            timing: clock and timers.
        """
        self.objects: dict[str, Object] = {}
        self.complete = False
        self._api = api
        self._kind = kind
        self._fields = fields
        self._changed = changed
        self._failed = failed
        self._clock = timing.clock
        self._sleep = timing.sleep
        self._random = timing.random
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, timing.random)
        self._resource_version = ""  # current resourceVersion, "" for none

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        state = _ANY
        while True:
            try:
                if not self._resource_version:
                    await self._list(state)
                    state = _ANY
                pause_s = await self._watch()
            except ExpiredError:
                self._resource_version, state, pause_s = "", _NEWEST, self._backoff.next_s()
            except ApiError as error:
                self._resource_version = ""
                pause_s = self._backoff.next_s(at_least_s=error.after_s)
                self._failed(error, pause_s)
            if pause_s:
                await self._sleep(pause_s)

    async def _list(self, resource_version: str) -> None:
        listing = await self._api.list(self._kind, self._fields, resource_version)
        self.objects = {name_of(item): item for item in listing.items}
        self.complete = True
        self._resource_version = listing.version
        self._changed()

    async def _watch(self) -> float:
        """Apply events until the server ends the watch; return the seconds until the next one."""
        received, begun = False, self._clock()
        seconds = WATCH_S + int(WATCH_S * self._random())
        watched = self._api.watch(self._kind, self._fields, self._resource_version, seconds)
        try:
            async with aclosing(watched) as events:
                async for event in events:
                    received = True
                    self._apply(event)
        finally:
            steady = self._clock() - begun >= STEADY_S
            if steady:
                self._backoff.reset()
        if not received:
            self._resource_version = ""
        return 0.0 if received and steady else self._backoff.next_s()

    def _apply(self, event: WatchEvent) -> None:
        self._resource_version = version_of(event.object) or self._resource_version
        match event.change:
            case WatchEventType.BOOKMARK:
                return
            case WatchEventType.DELETED:
                self.objects.pop(name_of(event.object), None)
            case WatchEventType.ADDED | WatchEventType.MODIFIED:
                self.objects[name_of(event.object)] = event.object
        self._changed()
