"""A container runtime as a plugin sees it, built from the same mux and ttrpc in the other role.

Our own classes on both sides would agree on the same mistake, so the golden bytes of
tests/golden/wire, which a Go runtime made and took, hold both to the real thing.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from dranet_nri._gen import nri_pb2
from dranet_nri.errors import ProtocolError
from dranet_nri.nri.wire import mux, ttrpc
from dranet_nri.nri.wire.messages import PLUGIN_SERVICE, RUNTIME_SERVICE, PodEventKind
from dranet_nri.nri.wire.ttrpc import RpcCode, TtrpcResponse

REQUEST_TIMEOUT_NANO = 2_000_000_000
ACCEPTING = 10  # turns of the loop; asyncio takes five from a connection to its callback

_EVENTS = {
    PodEventKind.RUN: nri_pb2.RUN_POD_SANDBOX,
    PodEventKind.STOP: nri_pb2.STOP_POD_SANDBOX,
    PodEventKind.REMOVE: nri_pb2.REMOVE_POD_SANDBOX,
}
_REQUESTS = {
    PodEventKind.RUN: nri_pb2.RunPodSandboxRequest,
    PodEventKind.STOP: nri_pb2.StopPodSandboxRequest,
    PodEventKind.REMOVE: nri_pb2.RemovePodSandboxRequest,
}


class Message(Protocol):
    """Any protobuf message."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
        """Return its bytes."""


def pod_message(sandbox_id: str, *, uid: str = "", netns: str = "") -> nri_pb2.PodSandbox:
    """Return a sandbox as a runtime describes it; without netns like a host-network pod."""
    pod = nri_pb2.PodSandbox(
        id=sandbox_id, name=f"pod-{sandbox_id}", uid=uid or f"uid-{sandbox_id}", namespace="default"
    )
    pod.linux.namespaces.add(type="ipc")
    if netns:
        pod.linux.namespaces.add(type="network", path=netns)
    return pod


class FakeRuntime:
    """One connection, bytes in and bytes out.

    Attributes:
        dedicated: send events by their own rpcs (NRI 0.12 and later), else by StateChange.
        registrations: what RegisterPlugin said, in order.
        answers: what came back, by stream id.
        unanswered: stream ids whose answer is lost for good.
    """

    def __init__(self, *, dedicated: bool = True) -> None:
        """Wait for a plugin."""
        self.dedicated = dedicated
        self.registrations: list[nri_pb2.RegisterPluginRequest] = []
        self.answers: dict[int, TtrpcResponse] = {}
        self.unanswered: tuple[int, ...] = ()
        self._mux = mux.MuxDecoder()
        self._client = ttrpc.TtrpcClient()
        self._server = ttrpc.TtrpcServer(RUNTIME_SERVICE, {"RegisterPlugin"}, set())
        self._registering: list[int] = []

    def receive(self, data: bytes) -> None:
        """Take what the plugin wrote."""
        self._mux.feed(data)
        while (chunk := self._mux.next_chunk()) is not None:
            if chunk.conn == mux.PLUGIN_CONN:
                for answer in self._client.receive(chunk.data):
                    self.answers[answer.stream] = answer
            else:
                for call in self._server.receive(chunk.data):
                    request = nri_pb2.RegisterPluginRequest.FromString(call.payload)
                    self.registrations.append(request)
                    self._registering.append(call.stream)

    def data_to_send(self) -> bytes:
        """Return what the plugin reads next."""
        return b"".join(
            mux.encode_message(conn, message)
            for conn, side in ((mux.RUNTIME_CONN, self._server), (mux.PLUGIN_CONN, self._client))
            for message in side.messages_to_send()
        )

    def lose(self) -> None:
        """Note that the connection is gone."""
        self.unanswered += self._client.abandon()

    def accept(self) -> None:
        """Answer RegisterPlugin."""
        self._server.reply(self._registering.pop(0), b"")

    def refuse(self, text: str) -> None:
        """Refuse RegisterPlugin as the reference does: code 2, and the socket stays open."""
        self._server.fail(self._registering.pop(0), RpcCode.UNKNOWN, text)

    def call(self, method: str, message: Message, timeout_nano: int = REQUEST_TIMEOUT_NANO) -> int:
        """Call the plugin; return the stream id."""
        return self._client.call(PLUGIN_SERVICE, method, message.SerializeToString(), timeout_nano)

    def configure(self, name: str = "containerd", version: str = "v2.2.6") -> int:
        """Call Configure."""
        request = nri_pb2.ConfigureRequest(
            runtime_name=name,
            runtime_version=version,
            registration_timeout=5000,
            request_timeout=2000,
            NRI_version="v0.12.2",
        )
        return self.call("Configure", request)

    def synchronize(
        self,
        pods: Iterable[nri_pb2.PodSandbox] = (),
        containers: Iterable[nri_pb2.Container] = (),
        *,
        more: bool = False,
        timeout_nano: int = REQUEST_TIMEOUT_NANO,
    ) -> int:
        """Call Synchronize with one piece."""
        request = nri_pb2.SynchronizeRequest(pods=pods, containers=containers, more=more)
        return self.call("Synchronize", request, timeout_nano)

    def pod_event(
        self,
        kind: PodEventKind,
        pod: nri_pb2.PodSandbox,
        timeout_nano: int = REQUEST_TIMEOUT_NANO,
    ) -> int:
        """Tell that a sandbox runs, stops or goes."""
        if self.dedicated:
            return self.call(kind, _REQUESTS[kind](pod=pod), timeout_nano)
        event = nri_pb2.StateChangeEvent(event=_EVENTS[kind], pod=pod)
        return self.call("StateChange", event, timeout_nano)

    def create_container(
        self,
        pod: nri_pb2.PodSandbox,
        container: nri_pb2.Container,
        timeout_nano: int = REQUEST_TIMEOUT_NANO,
    ) -> int:
        """Tell that a container is about to be created."""
        request = nri_pb2.CreateContainerRequest(pod=pod, container=container)
        return self.call("CreateContainer", request, timeout_nano)


class RuntimeConnection:
    """A FakeRuntime with a socket.

    Attributes:
        runtime: what to call; send() writes it.
        lost: whether the plugin closed.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, runtime: FakeRuntime
    ) -> None:
        """Start to read."""
        self.runtime = runtime
        self.lost = False
        self._reader = reader
        self._writer = writer
        self._changed = asyncio.Condition()
        self._pump = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(1 << 16):
                self.runtime.receive(data)
                await self._wake()
        except (ConnectionError, ProtocolError):
            pass
        self.lost = True
        self.runtime.lose()
        await self._wake()

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until true() or the end of the connection.

        Raises:
            ConnectionError: the connection ended first.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: true() or self.lost)
        if not true():
            raise ConnectionError("the plugin closed the connection")

    async def answer(self, stream: int) -> TtrpcResponse:
        """Send what is queued and wait for the answer to stream.

        Raises:
            ConnectionError: the connection ended first.
        """
        self.send()
        await self.until(lambda: stream in self.runtime.answers)
        return self.runtime.answers[stream]

    async def ended(self) -> None:
        """Wait until the plugin closed."""
        await self.until(lambda: self.lost)

    def send(self) -> None:
        """Write what is queued."""
        self._writer.write(self.runtime.data_to_send())

    def write(self, data: bytes) -> None:
        """Write bytes of your own."""
        self._writer.write(data)

    def send_eof(self) -> None:
        """Close our direction only."""
        self._writer.write_eof()

    def stop_reading(self) -> None:
        """Read no more, as a stopped process does; what the plugin writes piles up."""
        self._pump.cancel()
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def abort(self) -> None:
        """Close at once; with bytes unread the plugin sees a reset."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close and release everything."""
        self._pump.cancel()
        await asyncio.wait({self._pump})
        self._writer.transport.abort()

    async def register(self) -> nri_pb2.RegisterPluginRequest:
        """Wait for RegisterPlugin and accept it."""
        await self.until(lambda: len(self.runtime.registrations) > 0)
        self.runtime.accept()
        self.send()
        return self.runtime.registrations[-1]

    async def handshake(
        self,
        pods: Sequence[nri_pb2.PodSandbox] = (),
        containers: Sequence[nri_pb2.Container] = (),
        *,
        version: str = "v2.2.6",
    ) -> None:
        """Register, configure as a containerd of that version, and synchronise."""
        await self.register()
        await self.answer(self.runtime.configure(version=version))
        await self.answer(self.runtime.synchronize(pods, containers))


class RuntimeServer:
    """A listening socket; each plugin that connects becomes a RuntimeConnection."""

    def __init__(self, path: str, *, dedicated: bool = True) -> None:
        """Listen at path once entered."""
        self._path = path
        self._dedicated = dedicated
        self._arrived: asyncio.Queue[RuntimeConnection] = asyncio.Queue()
        self._all: list[RuntimeConnection] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "RuntimeServer":
        """Start to listen."""
        self._server = await asyncio.start_unix_server(self._accept, self._path)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Close everything. Up to Python 3.12 the socket file stays, as after a crash."""
        assert self._server is not None
        for listening in self._server.sockets:  # what is half accepted is to be closed as well
            asyncio.get_running_loop().remove_reader(listening)
        for _ in range(ACCEPTING):
            await asyncio.sleep(0)
        self._server.close()
        for connection in self._all:
            await connection.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = RuntimeConnection(reader, writer, FakeRuntime(dedicated=self._dedicated))
        self._all.append(connection)
        self._arrived.put_nowait(connection)

    async def connection(self) -> RuntimeConnection:
        """Wait for the next plugin."""
        return await self._arrived.get()
