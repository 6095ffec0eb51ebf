"""Informer: the objects of a kind on the server, listed once and then watched.

A watch that the server ends continues where it was. After an error, or a watch without any message
(not even a bookmark), all objects are listed again: the server may have been restored to an earlier
state (etcd from a backup), and a watch from a later one gets no events then, and no error.
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

WATCH_S: Final = 300  # a watch's least length; up to twice that, so that not all end together
FIRST_PAUSE_S: Final = 0.5  # after trouble, or a watch without a word; doubles
LONGEST_PAUSE_S: Final = 60.0
_ANY: Final = "0"  # state will do for a list: the watch goes on from it
_NEWEST: Final = ""


class Informer:
    """A copy of what the server has.

    Attributes:
        objects: by name; empty until the first list is there.
        complete: whether a list is there.
    """

    def __init__(
        self,
        api: ApiClient,
        kind: Kind,
        fields: Mapping[str, str],
        changed: Callable[[], None],
        trouble: Callable[[ApiError, float], None],
        timing: LoopClock = REAL,
    ) -> None:
        """Prepare; run does the work.

        Args:
            api: the server.
            kind: without namespaces.
            fields: field selector.
            changed: called when objects is another than before, or may be.
            trouble: called with the error, and the seconds until the retry.
            timing: what it goes by.
        """
        self.objects: dict[str, Object] = {}
        self.complete = False
        self._api = api
        self._kind = kind
        self._fields = fields
        self._changed = changed
        self._trouble = trouble
        self._sleep = timing.sleep
        self._random = timing.random
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, timing.random)
        self._since = ""  # the state we have, "" for none

    async def run(self) -> NoReturn:
        """Follow the server until cancelled."""
        state = _ANY
        while True:
            pause_s = 0.0
            try:
                if not self._since:
                    await self._list(state)
                    state = _ANY
                if not await self._watch():
                    self._since, pause_s = "", self._backoff.next_s()
            except ExpiredError:
                self._since, state, pause_s = "", _NEWEST, self._backoff.next_s()
            except ApiError as error:
                self._since = ""
                pause_s = self._backoff.next_s(at_least_s=error.after_s)
                self._trouble(error, pause_s)
            if pause_s:
                await self._sleep(pause_s)

    async def _list(self, since: str) -> None:
        listing = await self._api.list(self._kind, self._fields, since)
        self.objects = {name_of(item): item for item in listing.items}
        self.complete = True
        self._since = listing.version
        self._changed()

    async def _watch(self) -> bool:
        """Apply events until the server ends the watch; say whether there were any."""
        told = False
        seconds = WATCH_S + int(WATCH_S * self._random())
        watched = self._api.watch(self._kind, self._fields, self._since, seconds)
        async with aclosing(watched) as events:
            async for event in events:
                told = True
                self._backoff.reset()
                self._take(event)
        return told

    def _take(self, event: WatchEvent) -> None:
        self._since = version_of(event.object) or self._since
        match event.change:
            case WatchEventType.BOOKMARK:
                return
            case WatchEventType.DELETED:
                self.objects.pop(name_of(event.object), None)
            case WatchEventType.ADDED | WatchEventType.MODIFIED:
                self.objects[name_of(event.object)] = event.object
        self._changed()
