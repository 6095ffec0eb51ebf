"""One socket to the runtime: bytes to the session, its answers back."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from dranet_nri.errors import ProtocolError
from dranet_nri.model import Edits
from dranet_nri.wire.session import Call, Event, PluginSession, State, Synchronized
from dranet_nri.wire.ttrpc import Code

MAX_UNSENT: Final = 16 << 20  # bytes; four of the largest answers
MAX_HELD: Final = 2048  # events behind a list whose answer has not left; twice the calls it can be

Deliver = Callable[["Link", Event, float], None]


class Link(asyncio.Protocol):
    """One connection from its birth to its one end.

    What cannot be written at once is kept, up to a bound that no runtime reaches; the reader never
    waits for the writer. Who answers asks first whether it is alive.
    """

    def __init__(
        self, session: PluginSession, clock: Callable[[], float], deliver: Deliver
    ) -> None:
        """Drive session; give each event with its arrival to deliver, in order."""
        self._session = session
        self._clock = clock
        self._deliver = deliver
        self._transport: asyncio.Transport | None = None
        self._held: deque[tuple[Event, float]] = deque()
        self._full = False
        self.reason = ""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def opened(self) -> bool:
        """Whether there was a socket; if so, lost is set in the end."""
        return self._transport is not None

    @property
    def alive(self) -> bool:
        """Whether an answer can still reach the runtime."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def state(self) -> State:
        """How far the handshake is."""
        return self._session.state

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the registration."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)  # to be told when all is written
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Take what the socket gave."""
        arrival = self._clock()
        try:
            events = self._session.receive_data(data)
        except ProtocolError as error:
            self.abort(str(error))
            return
        self._flush()
        self._held.extend((event, arrival) for event in events)
        self._deliver_held()
        lists = sum(isinstance(event, Synchronized) for event, _ in self._held)
        if lists > 1 or len(self._held) > MAX_HELD:
            self.abort("the runtime goes on calling, but has not read the answer to Synchronize")

    def eof_received(self) -> None:
        """End the connection: a runtime that stops sending has gone, whatever it still reads."""
        try:
            self._session.receive_eof()
        except ProtocolError as error:
            self.abort(str(error))
        else:
            self.abort("the runtime closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        """Say once that it is over."""
        self.reason = self.reason or str(exc or "closed")
        self._session.close()
        self._held.clear()
        self.lost.set_result(None)

    def pause_writing(self) -> None:
        """Note that the socket is full."""
        self._full = True

    def resume_writing(self) -> None:
        """Note that all is written."""
        self._full = False
        self._deliver_held()

    def reply(self, call: Call, edits: Edits | None = None) -> None:
        """Answer with success, while alive.

        Raises:
            InvalidValueError: edits cannot be encoded; the call is still open.
        """
        self._session.reply(call, edits)
        self._flush()

    def refuse(self, call: Call, message: str, code: Code = Code.UNKNOWN) -> None:
        """Answer with an error, while alive."""
        self._session.refuse(call, message, code)
        self._flush()

    def finish(self, reason: str) -> None:
        """Close once what waits is written."""
        self.reason = self.reason or reason
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close now."""
        self.reason = self.reason or reason
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        data = self._session.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)
            unsent = self._transport.get_write_buffer_size()
            if unsent > MAX_UNSENT:
                self.abort(f"the runtime does not read: {unsent} bytes of answers wait for it")

    def _deliver_held(self) -> None:
        """Deliver events; a list only when its answer has left, what follows it after it."""
        while self._held:
            event, arrival = self._held[0]
            if isinstance(event, Synchronized):
                if self._full or not self.alive:
                    return
                if self._late(event, arrival):
                    self.abort("the answer to Synchronize left after its deadline")
                    return
            self._held.popleft()
            self._deliver(self, event, arrival)

    def _late(self, event: Synchronized, arrival: float) -> bool:
        """Whether the runtime gave up on us; up to NRI 0.6.1 it then keeps silent for ever."""
        return event.timeout_nano != 0 and self._clock() > arrival + event.timeout_nano / 1e9
