"""Lifecycle of the plugin's connection to the runtime: connect, serve, reconnect, stop."""

import asyncio
import random as random_module
import socket
import time
from collections.abc import Callable
from typing import Final, assert_never

from dranet_nri.component.backoff import Backoff
from dranet_nri.component.replace import replace
from dranet_nri.nri.stub.dispatcher import Dispatcher, Sleep
from dranet_nri.nri.stub.endpoint import Endpoint
from dranet_nri.nri.stub.handler import (
    Answered,
    ConnectionStatus,
    Disconnected,
    Handler,
    Notify,
    Serving,
    Unsynchronized,
)
from dranet_nri.nri.stub.transport import Transport
from dranet_nri.nri.wire.session import (
    REGISTER_TIMEOUT_S,
    ContainerEvent,
    HandshakeState,
    PluginSession,
    PodEvent,
    PodsSynchronized,
    RegistrationAccepted,
    RegistrationRefused,
    RuntimeConfigured,
    SessionEvent,
)

FIRST_PAUSE_S: Final = 0.2  # before the second try to connect; doubles with each
LONGEST_PAUSE_S: Final = 10.0
CLOSE_WAIT_S: Final = 1.0  # for the last answers to be written
FIRST_REPORT_S: Final = 10.0  # of the handshake, before its delay is reported; doubles
# The runtime registers plugins one at a time. containerd, since 1.7.26 and 2.0.3, registers none
# while it works on a container or a sandbox, and starts no such work while a plugin waits
# (containerd#14083).
UNREGISTERED: Final = (
    "the runtime has not answered RegisterPlugin for {:.0f} s: another NRI plugin may keep it "
    "waiting; if none does, it hangs: restart it"
)
UNSYNCHRONIZED: Final = (
    "the runtime has not sent its list of pods for {:.0f} s, and may start no pod meanwhile: a "
    "container that takes its terminationGracePeriodSeconds to stop delays it; if none does, it "
    "hangs: restart it"
)


class Connection:
    """Keeps one plugin registered while it runs."""

    def __init__(
        self,
        endpoint: Endpoint,
        handler: Handler,
        notify: Notify,
        *,
        answered: Answered = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = random_module.random,
        grace_s: float = 5.0,
    ) -> None:
        """Prepare; `run` connects.

        Args:
            endpoint: the plugin's name and index, and the runtime's socket.
            handler: handles the hooks.
            notify: called with events for an operator, on the event loop; must not raise.
            answered: called with each answer, on the event loop; must not raise.
            clock: monotonic seconds; deadlines use it.
            sleep: waits that many seconds of `clock`.
            random: 0 to 1, the jitter of the back-off.
            grace_s: seconds that running hooks get after close.
        """
        self._endpoint = endpoint
        self._notify = notify
        self._clock = clock
        self._sleep = sleep
        self._grace_s = grace_s
        self._dispatcher = Dispatcher(handler, clock, sleep, notify, answered)
        self._closing = asyncio.Event()
        self._transport: Transport | None = None
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, random)
        self._status = ConnectionStatus()

    @property
    def status(self) -> ConnectionStatus:
        """Return the current status."""
        transport = self._transport
        return replace(
            self._status,
            connected=transport is not None and transport.is_open,
            synchronized=transport is not None and transport.state is HandshakeState.SERVING,
        )

    def close(self) -> None:
        """End `run`: running hooks get grace_s; then unfinished ones are refused or succeed."""
        self._closing.set()

    async def run(self) -> None:
        """Serve until close is called, or until the runtime that launched the plugin exits."""
        try:
            async with asyncio.TaskGroup() as tasks:
                connected = tasks.create_task(self._stay_connected())
                closing = tasks.create_task(self._closing.wait())
                await asyncio.wait({connected, closing}, return_when=asyncio.FIRST_COMPLETED)
                await self._stop()
                connected.cancel()
                closing.cancel()
        finally:
            await self._dispatcher.cancel()

    async def _stop(self) -> None:
        self._closing.set()
        await self._dispatcher.settle(self._grace_s)
        if self._transport is not None and self._transport.is_open:
            self._transport.finish("the plugin stops")
            await self._wait_closed(self._transport, CLOSE_WAIT_S)

    async def _stay_connected(self) -> None:
        while not self._closing.is_set():
            reason = await self._connect_once()
            self._status = replace(self._status, last_error=reason)
            if self._closing.is_set():
                return
            if self._endpoint.fd is not None:
                self._notify(Disconnected(reason, None))
                return
            pause = self._backoff.next_s()
            self._notify(Disconnected(reason, pause))
            await self._sleep(pause)

    async def _connect_once(self) -> str:
        """Serve one connection; return the reason of its end."""
        session = PluginSession(self._endpoint.name, self._endpoint.idx)
        transport = Transport(session, self._clock, self._deliver)
        self._transport = transport
        delay_report: asyncio.Future[None] | None = None
        try:
            await self._dial(transport)
            delay_report = asyncio.ensure_future(self._report_delay(transport))
            await self._wait_closed(transport, REGISTER_TIMEOUT_S)
            if transport.state is HandshakeState.CONNECTING:
                transport.abort(f"no answer to RegisterPlugin within {REGISTER_TIMEOUT_S} s")
            await asyncio.wait({transport.lost})
        except OSError as error:
            return f"{self._endpoint.path}: {error.strerror or error}"
        finally:
            if delay_report is not None:
                delay_report.cancel()
            await self._end(transport)
        return transport.reason

    async def _report_delay(self, transport: Transport) -> None:
        """Report why the transport does not serve, each time the wait has doubled."""
        waited_s = FIRST_REPORT_S
        await self._sleep(waited_s)
        while transport.is_open and transport.state is not HandshakeState.SERVING:
            text = UNREGISTERED if transport.state is HandshakeState.CONNECTING else UNSYNCHRONIZED
            reason = text.format(waited_s)
            self._status = replace(self._status, last_error=reason)
            self._notify(Unsynchronized(waited_s, reason))
            await self._sleep(waited_s)
            waited_s *= 2

    async def _end(self, transport: Transport) -> None:
        if transport.opened and not transport.lost.done():
            transport.abort("the plugin was cancelled")
            await asyncio.wait({transport.lost})
        self._dispatcher.disconnected()
        self._transport = None

    async def _dial(self, transport: Transport) -> None:
        loop = asyncio.get_running_loop()
        if self._endpoint.fd is None:
            await loop.create_unix_connection(lambda: transport, self._endpoint.path)
        else:
            inherited = socket.socket(fileno=self._endpoint.fd)
            await loop.create_unix_connection(lambda: transport, sock=inherited)

    async def _wait_closed(self, transport: Transport, seconds: float) -> None:
        timer = asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait({timer, transport.lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    def _deliver(self, transport: Transport, event: SessionEvent, arrival: float) -> None:
        match event:
            case PodEvent() | ContainerEvent():
                self._dispatcher.submit(event, transport, arrival)
            case PodsSynchronized():
                self._dispatcher.synchronize(event)
                self._note_serving(transport)
            case RegistrationAccepted():
                self._note_serving(transport)
            case RuntimeConfigured(request):
                self._status = replace(
                    self._status,
                    runtime_name=request.runtime_name,
                    runtime_version=request.runtime_version,
                    nri_version=request.nri_version,
                )
            case RegistrationRefused(code, message):
                transport.abort(f"the runtime refused the registration: {message} (code {code})")
            case _:
                assert_never(event)

    def _note_serving(self, transport: Transport) -> None:
        if transport.state is HandshakeState.SERVING:
            self._backoff.reset()
            status = self._status
            names = (status.runtime_name, status.runtime_version, status.nri_version)
            self._notify(Serving(*names, transport.timeout_s))
