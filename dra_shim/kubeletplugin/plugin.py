"""Kubelet plugin lifecycle: two sockets and the registration, which are checked and repaired.

Rules:
1. The service starts before the registration, and ends after it.
2. No event reports that a socket was removed, or that a kubelet lost the registration. So both
   sockets are checked at intervals, and a missing registration is requested again by a new
   socket.
3. A socket error is reported once, and retried; it stops nothing else.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dra_shim.kubeletplugin.dra_service import Service
from dra_shim.kubeletplugin.grpc_server import GrpcServer
from dra_shim.kubeletplugin.registration import (
    RegistrationResult,
    plugin_info,
    registration_handler,
)
from dra_shim.kubeletplugin.sockets import SocketError, Sockets, make_data_directory
from dranet_nri.component.backoff import backoff_s
from dranet_nri.component.notice import LogLine, LogNotice
from dranet_nri.component.replace import replace

WATCH_S: Final = 10.0  # seconds between two checks of the sockets
ANSWER_S: Final = 60.0  # seconds for the kubelet's answer, before the socket is recreated; doubles
LONGEST_ANSWER_S: Final = 600.0
GRACE_S: Final = 5.0  # seconds for running calls when a server ends


@dataclass(frozen=True, slots=True)
class SocketReplaced(LogNotice):
    """A socket was created again; reason has the cause.

    Attributes:
        forgotten: whether the kubelet has to register the plugin again. It has not after a loss of
            the service's socket, which it opens by name.
    """

    log = LogLine("warning", "socket recreated")
    path: str
    reason: str
    forgotten: bool = False

    def _facts(self) -> Mapping[str, object]:
        return {"path": self.path, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class SocketFailed(LogNotice):
    """A socket cannot be served now; it is tried again."""

    log = LogLine("error", "socket not served")
    reason: str


Notice = RegistrationResult | SocketReplaced | SocketFailed


@dataclass(frozen=True, slots=True)
class PluginStatus:
    """State of the registration and its sockets.

    Attributes:
        registered: whether the kubelet accepted the last registration.
        reason: the kubelet's error, "" if there is none.
        socket_error: error of a socket, "" if both are served.
    """

    registered: bool = False
    reason: str = ""
    socket_error: str = ""


class KubeletPlugin:
    """Two sockets of a driver and its registration."""

    def __init__(
        self,
        driver: str,
        sockets: Sockets,
        services: Sequence[Service],
        notify: Callable[[Notice], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Create the plugin; nothing is opened before run.

        Args:
            driver: name of the driver.
            sockets: paths of the sockets.
            services: gRPC services, the preferred one first.
            notify: called with notices; must not raise.
            clock: monotonic seconds.
            sleep: waits this number of seconds.
        """
        info = plugin_info(driver, sockets.service, [service.advertised for service in services])
        self._status = PluginStatus()
        self._sockets = sockets
        self._services = tuple(services)
        self._registration_handlers = [registration_handler(info, self._on_registration)]
        self._notify = notify
        self._clock = clock
        self._sleep = sleep
        self._service: GrpcServer | None = None
        self._registration: GrpcServer | None = None
        self._since = 0.0  # when the wait for the kubelet's answer began
        self._unanswered = 0  # sockets in a row that the kubelet did not register
        self._tried = asyncio.Event()

    async def tried(self) -> None:
        """Wait for the first attempt to open the sockets, successful or not."""
        await self._tried.wait()

    @property
    def status(self) -> PluginStatus:
        """Return the current state."""
        return self._status

    async def run(self) -> None:
        """Serve until cancelled, then remove the plugin from the kubelet's registry; may be called
        again.
        """
        try:
            async with asyncio.TaskGroup() as closing:
                while True:
                    await self._check(closing)
                    self._tried.set()
                    await self._sleep(WATCH_S)
        finally:
            await self._end()

    async def _end(self) -> None:
        registration, service = self._registration, self._service
        self._registration = self._service = None
        self._status = PluginStatus()
        if registration is not None:
            await registration.close(0)
        for grpc_service in self._services:
            grpc_service.end()
        if service is not None:
            await service.close(GRACE_S)

    async def _check(self, closing: asyncio.TaskGroup) -> None:
        """Repair the sockets; a replaced service ends in `closing`."""
        try:
            await self._check_service(closing)
            await self._check_registration()
        except SocketError as error:
            if str(error) != self._status.socket_error:
                self._notify(SocketFailed(str(error)))
            self._status = replace(self._status, socket_error=str(error))
        else:
            self._status = replace(self._status, socket_error="")

    async def _check_service(self, closing: asyncio.TaskGroup) -> None:
        old = self._service
        if old is not None and old.exists():
            return
        path = self._sockets.service
        make_data_directory(path.parent)
        handlers = [grpc_service.handler for grpc_service in self._services]
        self._service = await GrpcServer.start(path, handlers, replaces=True)
        if old is not None:
            self._notify(SocketReplaced(str(path), "it was gone"))
            closing.create_task(old.close(GRACE_S))

    async def _check_registration(self) -> None:
        old = self._registration
        exists = old is not None and old.exists()
        waited_s = self._clock() - self._since
        timeout_s = backoff_s(self._unanswered, ANSWER_S, LONGEST_ANSWER_S)
        if exists and (self._status.registered or waited_s < timeout_s):
            return
        if old is not None:
            await old.close(0)
            self._registration = None
            cause = self._status.reason or "no answer; check its --root-dir"
            late = f"not registered by the kubelet for {waited_s:.0f} s: {cause}"
            path = str(self._sockets.registration)
            reason = late if exists else "it was gone"
            self._notify(SocketReplaced(path, reason, forgotten=True))
        if exists:
            self._unanswered += 1
        self._status = replace(self._status, registered=False)
        self._registration = await GrpcServer.start(
            self._sockets.registration, self._registration_handlers, replaces=False
        )
        self._since = self._clock()

    def _on_registration(self, result: RegistrationResult) -> None:
        """Store the result of a registration; a success can follow an error."""
        self._status = replace(self._status, registered=not result.reason, reason=result.reason)
        self._since = self._clock()
        if not result.reason:
            self._unanswered = 0
        self._notify(result)
