"""Transport: one socket to the runtime, bytes to the session and its answers back."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from dranet_nri.errors import ProtocolError
from dranet_nri.model import Edits
from dranet_nri.nri.wire.session import (
    HandshakeState,
    PendingCall,
    PluginSession,
    PodsSynchronized,
    RuntimeConfigured,
    SessionEvent,
)
from dranet_nri.nri.wire.ttrpc import RpcCode

MAX_UNSENT: Final = 16 << 20  # bytes; four of the largest answers
MAX_HELD: Final = 2048  # events behind a list whose answer has not left; twice the calls it can be

CLOSED: Final = "the runtime closed the connection"
# plugin_request_timeout is containerd's name of it, CRI-O's is nri_plugin_request_timeout.
UNREAD_LIST: Final = (
    "; the answer to its list of pods had not reached it: it waits {:g} s for that, and its "
    "configuration has a longer plugin_request_timeout for a busy node"
)

Deliver = Callable[["Transport", SessionEvent, float], None]


class Transport(asyncio.Protocol):
    """One connection from its birth to its one end.

    What cannot be written at once is kept, up to a bound that no runtime reaches; the reader never
    waits for the writer. A caller checks first whether it is alive.
    """

    def __init__(
        self, session: PluginSession, clock: Callable[[], float], deliver: Deliver
    ) -> None:
        """Drive session; give each event with its arrival to deliver, in order."""
        self._session = session
        self._clock = clock
        self._deliver = deliver
        self._transport: asyncio.Transport | None = None
        self._held: deque[tuple[SessionEvent, float]] = deque()
        self._full = False
        self._patience_s = 0.0  # of the runtime, for an answer; 0 if it did not say
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
    def state(self) -> HandshakeState:
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
        for event in events:
            if isinstance(event, RuntimeConfigured):
                self._patience_s = event.request.request_timeout_ms / 1000
            self._held.append((event, arrival))
        self._deliver_held()
        lists = sum(isinstance(event, PodsSynchronized) for event, _ in self._held)
        if lists > 1 or len(self._held) > MAX_HELD:
            self.abort("the runtime goes on calling, but has not read the answer to Synchronize")

    def eof_received(self) -> None:
        """End the connection: a runtime that stops sending has gone, whatever it still reads."""
        reason = self._closed()
        try:
            self._session.receive_eof()
        except ProtocolError as error:
            self.abort(str(error))
        else:
            self.abort(reason)

    def connection_lost(self, exc: Exception | None) -> None:
        """Say once that it is over."""
        if isinstance(exc, OSError):
            self.reason = self.reason or self._closed(f" ({exc.strerror or exc})")
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

    def reply(self, call: PendingCall, edits: Edits | None = None) -> None:
        """Answer with success, while alive.

        Raises:
            InvalidValueError: edits cannot be encoded; the call is still open.
        """
        self._session.reply(call, edits)
        self._flush()

    def refuse(self, call: PendingCall, message: str, code: RpcCode = RpcCode.UNKNOWN) -> None:
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

    def _closed(self, how: str = "") -> str:
        """Say that the runtime has gone, and whether it waited for the answer to its list.

        Args:
            how: a write failed, in words.
        """
        unread = (how and self._session.state is HandshakeState.SYNCHRONIZING) or any(
            isinstance(event, PodsSynchronized) for event, _ in self._held
        )
        waited = UNREAD_LIST.format(self._patience_s) if unread and self._patience_s else ""
        return CLOSED + how + waited

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
            if isinstance(event, PodsSynchronized):
                if self._full or not self.alive:
                    return
                if self._late(event, arrival):
                    self.abort("the answer to Synchronize left after its deadline")
                    return
            self._held.popleft()
            self._deliver(self, event, arrival)

    def _late(self, event: PodsSynchronized, arrival: float) -> bool:
        """Whether the runtime dropped the plugin; up to NRI 0.6.1 it then keeps silent for ever."""
        return event.timeout_nano != 0 and self._clock() > arrival + event.timeout_nano / 1e9
