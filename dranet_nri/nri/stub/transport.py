"""Transport: one socket to the runtime; passes bytes to the session and writes its answers."""

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
MAX_UNDELIVERED: Final = 2048  # events behind a list with an unwritten answer; twice ttrpc.MAX_OPEN

CLOSED: Final = "the runtime closed the connection"
# containerd's setting is plugin_request_timeout, CRI-O's is nri_plugin_request_timeout.
UNREAD_LIST: Final = (
    "; the answer to its list of pods had not reached it: it waits {:g} s for that, and its "
    "configuration has a longer plugin_request_timeout for a busy node"
)

Deliver = Callable[["Transport", SessionEvent, float], None]


class Transport(asyncio.Protocol):
    """One connection.

    Unwritten bytes are buffered up to a bound that no runtime reaches, so that reading does not
    wait for writing. Callers check `is_open` first.

    Attributes:
        timeout_s: the runtime's timeout for an answer; 0 if it reports none.
        reason: why the connection ended; "" before.
        lost: completes at the end of an opened connection.
    """

    def __init__(
        self, session: PluginSession, clock: Callable[[], float], deliver: Deliver
    ) -> None:
        """Feed session; call deliver with each event and its arrival, in order."""
        self._session = session
        self._clock = clock
        self._deliver = deliver
        self._transport: asyncio.Transport | None = None
        self._undelivered: deque[tuple[SessionEvent, float]] = deque()
        self._full = False
        self.timeout_s = 0.0
        self.reason = ""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def opened(self) -> bool:
        """Whether a socket was opened; if so, `lost` completes at its end."""
        return self._transport is not None

    @property
    def is_open(self) -> bool:
        """Whether an answer can still reach the runtime."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def state(self) -> HandshakeState:
        """Return the state of the handshake."""
        return self._session.state

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the registration."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)  # resume_writing when all is written
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Process received bytes."""
        arrival = self._clock()
        try:
            events = self._session.receive_data(data)
        except ProtocolError as error:
            self.abort(str(error))
            return
        self._flush()
        for event in events:
            if isinstance(event, RuntimeConfigured):
                self.timeout_s = event.request.request_timeout_ms / 1000
            self._undelivered.append((event, arrival))
        self._deliver_ready()
        lists = sum(isinstance(event, PodsSynchronized) for event, _ in self._undelivered)
        if lists > 1 or len(self._undelivered) > MAX_UNDELIVERED:
            self.abort("the runtime goes on calling, but has not read the answer to Synchronize")

    def eof_received(self) -> None:
        """End the connection: a runtime that stops sending has ended, even if it still reads."""
        reason = self._closed()
        try:
            self._session.receive_eof()
        except ProtocolError as error:
            self.abort(str(error))
        else:
            self.abort(reason)

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete `lost`, with the reason."""
        if isinstance(exc, OSError):
            self.reason = self.reason or self._closed(f" ({exc.strerror or exc})")
        self.reason = self.reason or str(exc or "closed")
        self._session.close()
        self._undelivered.clear()
        self.lost.set_result(None)

    def pause_writing(self) -> None:
        """Note that the socket is full."""
        self._full = True

    def resume_writing(self) -> None:
        """Note that all is written."""
        self._full = False
        self._deliver_ready()

    def reply(self, call: PendingCall, edits: Edits | None = None) -> None:
        """Answer with success, while the connection is open.

        Raises:
            InvalidValueError: edits cannot be encoded; the call is still open.
        """
        self._session.reply(call, edits)
        self._flush()

    def refuse(self, call: PendingCall, message: str, code: RpcCode = RpcCode.UNKNOWN) -> None:
        """Answer with an error, while the connection is open."""
        self._session.refuse(call, message, code)
        self._flush()

    def finish(self, reason: str) -> None:
        """Close after the buffer is written."""
        self.reason = self.reason or reason
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close now."""
        self.reason = self.reason or reason
        if self._transport is not None:
            self._transport.abort()

    def _closed(self, how: str = "") -> str:
        """Return the reason of a closed connection, and whether the answer to a list was unwritten.

        Args:
            how: text of a failed write, "" otherwise.
        """
        unread = (how and self._session.state is HandshakeState.SYNCHRONIZING) or any(
            isinstance(event, PodsSynchronized) for event, _ in self._undelivered
        )
        waited = UNREAD_LIST.format(self.timeout_s) if unread and self.timeout_s else ""
        return CLOSED + how + waited

    def _flush(self) -> None:
        data = self._session.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)
            unsent = self._transport.get_write_buffer_size()
            if unsent > MAX_UNSENT:
                self.abort(f"the runtime does not read: {unsent} bytes of answers wait for it")

    def _deliver_ready(self) -> None:
        """Deliver events in order; a list only after its answer is written."""
        while self._undelivered:
            event, arrival = self._undelivered[0]
            if isinstance(event, PodsSynchronized):
                if self._full or not self.is_open:
                    return
                if self._is_late(event, arrival):
                    self.abort("the answer to Synchronize left after its deadline")
                    return
            self._undelivered.popleft()
            self._deliver(self, event, arrival)

    def _is_late(self, event: PodsSynchronized, arrival: float) -> bool:
        """Whether the runtime dropped the plugin; up to NRI 0.6.1 it does not close the socket."""
        return event.timeout_nano != 0 and self._clock() > arrival + event.timeout_nano / 1e9
