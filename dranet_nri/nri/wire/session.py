"""NRI session: the plugin's side of one connection, bytes to events and answers to bytes.

    CONNECTING ──▶ REGISTERED ──▶ CONFIGURED ──▶ SYNCHRONIZING ──▶ SYNCHRONIZED ──▶ SERVING

Rules:
1. Any message may arrive before the answer to RegisterPlugin; only SERVING requires the answer.
2. The session has no clock. The runtime may synchronize minutes later.
3. Synchronize is answered before it is handled; events keep the order of the wire.
4. Both rpcs of an event return the same value.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dranet_nri.errors import ProtocolError
from dranet_nri.model import Container, Edits, Pod
from dranet_nri.nri.wire import messages, mux, ttrpc
from dranet_nri.nri.wire.messages import MAX_ENTRIES, PodEventKind
from dranet_nri.nri.wire.ttrpc import RpcCode

# A runtime registers plugins one at a time, so the answer to RegisterPlugin may be late.
REGISTER_TIMEOUT_S: Final = 120

# Serialized bytes of the pods in all pieces of one list; a full node has a hundredth of it. A
# truncated list would read as the end of its pods, so a longer one ends the connection.
MAX_LIST: Final = 64 << 20


class HandshakeState(StrEnum):
    """Progress of the handshake."""

    CONNECTING = "connecting"
    REGISTERED = "registered"
    CONFIGURED = "configured"
    SYNCHRONIZING = "synchronizing"  # a piece of the list was received, more follow
    SYNCHRONIZED = "synchronized"  # the list is complete, RegisterPlugin may be unanswered
    SERVING = "serving"
    CLOSED = "closed"


class _Input(StrEnum):
    REGISTERED = "registered"
    CONFIGURE = "Configure"
    PIECE = "Synchronize, more follows"
    LAST_PIECE = "Synchronize"


# Transitions that are not in the table change nothing; Synchronize before Configure is refused.
_NEXT: Final[dict[tuple[HandshakeState, _Input], HandshakeState]] = {
    (HandshakeState.CONNECTING, _Input.REGISTERED): HandshakeState.REGISTERED,
    (HandshakeState.CONNECTING, _Input.CONFIGURE): HandshakeState.CONFIGURED,
    (HandshakeState.REGISTERED, _Input.CONFIGURE): HandshakeState.CONFIGURED,
    (HandshakeState.CONFIGURED, _Input.PIECE): HandshakeState.SYNCHRONIZING,
    (HandshakeState.CONFIGURED, _Input.LAST_PIECE): HandshakeState.SYNCHRONIZED,
    (HandshakeState.SYNCHRONIZING, _Input.PIECE): HandshakeState.SYNCHRONIZING,
    (HandshakeState.SYNCHRONIZING, _Input.LAST_PIECE): HandshakeState.SYNCHRONIZED,
    (HandshakeState.SYNCHRONIZED, _Input.PIECE): HandshakeState.SYNCHRONIZING,
    (HandshakeState.SYNCHRONIZED, _Input.LAST_PIECE): HandshakeState.SYNCHRONIZED,
}


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A request to answer once, with reply or refuse of its session.

    Attributes:
        timeout_nano: remaining time when it was sent; 0 no limit, negative expired.
    """

    stream: int
    timeout_nano: int


@dataclass(frozen=True, slots=True)
class RegistrationAccepted:
    """The runtime accepted the registration. Calls may have arrived before."""


@dataclass(frozen=True, slots=True)
class RegistrationRefused:
    """The runtime refused the plugin, which must close the socket."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class RuntimeConfigured:
    """Configure, with the runtime's name and version; answered with the event mask."""

    request: messages.ConfigureRequest


@dataclass(frozen=True, slots=True)
class PodsSynchronized:
    """The complete list of pods; already answered.

    Attributes:
        timeout_nano: see PendingCall; the runtime ignores a later answer.
    """

    pods: tuple[Pod, ...]
    timeout_nano: int


@dataclass(frozen=True, slots=True)
class PodEvent:
    """A sandbox runs, stops or is removed."""

    kind: PodEventKind
    pod: Pod
    call: PendingCall


@dataclass(frozen=True, slots=True)
class ContainerEvent:
    """A container is about to be created."""

    pod: Pod
    container: Container
    call: PendingCall


HookEvent = PodEvent | ContainerEvent
SessionEvent = (
    RegistrationAccepted | RegistrationRefused | RuntimeConfigured | PodsSynchronized | HookEvent
)


class PluginSession:
    """State of one connection: bytes to events, answers to bytes."""

    def __init__(
        self,
        name: str,
        idx: str,
        register_timeout_s: float = REGISTER_TIMEOUT_S,
        *,
        max_list: int = MAX_LIST,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        """Queue the registration.

        Args:
            name: plugin name; letters, digits and "_.+-".
            idx: two digits, the plugin's order among plugins.
            register_timeout_s: the plugin's timeout, as announced to the runtime.
            max_list: maximum bytes of the pods in all pieces of one list.
            max_entries: maximum of pods and containers in a list, or of nested messages elsewhere.
        """
        self._max_list = max_list
        self._max_entries = max_entries
        self._state = HandshakeState.CONNECTING
        self._registered = False
        self._pods: list[Pod] = []
        self._listed = 0  # bytes of the pods in the pieces so far
        self._entries = 0  # pods and containers in them
        self._mux = mux.MuxDecoder()
        self._client = ttrpc.TtrpcClient()
        self._server = ttrpc.TtrpcServer(
            messages.PLUGIN_SERVICE, messages.PLUGIN_METHODS, messages.LARGE_METHODS
        )
        self._client.call(
            messages.RUNTIME_SERVICE,
            "RegisterPlugin",
            messages.encode_register(name, idx, messages.NRI_VERSION),
            int(register_timeout_s * 1e9),
        )

    @property
    def state(self) -> HandshakeState:
        """Return the state of the handshake."""
        if self._state is HandshakeState.SYNCHRONIZED and self._registered:
            return HandshakeState.SERVING
        return self._state

    def receive_data(self, data: bytes) -> list[SessionEvent]:
        """Process received bytes; return the events, in order.

        Raises:
            ProtocolError: the peer violates the protocol; close the socket.
        """
        events: list[SessionEvent] = []
        if self._state is not HandshakeState.CLOSED:
            self._mux.feed(data)
        while (
            chunk := self._mux.next_chunk()
        ) is not None and self._state is not HandshakeState.CLOSED:
            if chunk.conn == mux.PLUGIN_CONN:
                for call in self._server.receive(chunk.data):
                    events.extend(self._serve(call))
            else:
                events.extend(map(self._registration, self._client.receive(chunk.data)))
        return events

    def receive_eof(self) -> None:
        """Process the end of the stream; closes the session.

        Raises:
            ProtocolError: the stream ended inside a frame or message.
        """
        self.close()
        self._mux.close()
        self._server.close()
        self._client.close()

    def close(self) -> None:
        """Drop pieces of a list and the unanswered registration."""
        self._state = HandshakeState.CLOSED
        self._client.abandon()
        self._pods.clear()

    def data_to_send(self) -> bytes:
        """Return the bytes to write next, whole frames; empty if there are none."""
        parts = [
            mux.encode_message(mux.RUNTIME_CONN, message)
            for message in self._client.messages_to_send()
        ]
        parts += [
            mux.encode_message(mux.PLUGIN_CONN, message)
            for message in self._server.messages_to_send()
        ]
        return b"".join(parts)

    def reply(self, call: PendingCall, edits: Edits | None = None) -> None:
        """Answer an event with success; only a container has edits.

        Raises:
            InvalidValueError: edits cannot be encoded; the call is still open.
        """
        payload = b"" if edits is None else messages.encode_create_container(edits)
        self._server.reply(call.stream, payload)

    def refuse(self, call: PendingCall, message: str, code: RpcCode = RpcCode.UNKNOWN) -> None:
        """Answer an event with an error; the pod or container fails with message.

        Raises:
            ValueError: code is UNIMPLEMENTED, which would change how the runtime sends events.
        """
        if code is RpcCode.UNIMPLEMENTED:
            raise ValueError(f"refuse {message!r}: code {code} means that the rpc does not exist")
        self._server.fail(call.stream, code, message)

    def _registration(
        self, answer: ttrpc.TtrpcResponse
    ) -> RegistrationAccepted | RegistrationRefused:
        if answer.status is not None:
            self.close()
            return RegistrationRefused(answer.status.code, answer.status.message)
        self._registered = True
        self._advance(_Input.REGISTERED)
        return RegistrationAccepted()

    def _advance(self, what: _Input) -> None:
        self._state = _NEXT.get((self._state, what), self._state)

    def _serve(self, call: ttrpc.TtrpcCall) -> tuple[SessionEvent, ...]:
        try:
            request = messages.decode_request(call.method, call.payload, self._max_entries)
        except messages.TooManyError:
            raise
        except ProtocolError as error:
            self._server.fail(call.stream, RpcCode.INTERNAL, str(error))
            return ()
        opened = PendingCall(call.stream, call.timeout_nano)
        match request:
            case messages.PodRequest(kind, pod):
                return (PodEvent(kind, pod, opened),)
            case messages.CreateContainerRequest(pod, container):
                return (ContainerEvent(pod, container, opened),)
            case messages.ConfigureRequest():
                self._advance(_Input.CONFIGURE)
                self._server.reply(call.stream, messages.encode_configure(messages.EVENT_MASK))
                return (RuntimeConfigured(request),)
            case messages.SynchronizeRequest():
                return self._synchronize(opened, request)
            case _:
                return self._succeed(opened, request)

    def _succeed(
        self, call: PendingCall, _request: messages.IdleRequest
    ) -> tuple[SessionEvent, ...]:
        self._server.reply(call.stream, b"")
        return ()

    def _synchronize(
        self, call: PendingCall, piece: messages.SynchronizeRequest
    ) -> tuple[SessionEvent, ...]:
        if self._state in (HandshakeState.CONNECTING, HandshakeState.REGISTERED):
            text = "Synchronize came before Configure"
            self._server.fail(call.stream, RpcCode.FAILED_PRECONDITION, text)
            return ()
        self._bound(piece)
        self._pods.extend(piece.pods)
        self._server.reply(call.stream, messages.encode_synchronize(more=piece.more))
        if piece.more:
            self._advance(_Input.PIECE)
            return ()
        self._advance(_Input.LAST_PIECE)
        self._listed = self._entries = 0
        pods = tuple(self._pods)
        self._pods.clear()
        return (PodsSynchronized(pods, call.timeout_nano),)

    def _bound(self, piece: messages.SynchronizeRequest) -> None:
        """Raise ProtocolError if the piece makes the list larger than the limits."""
        self._listed += piece.size
        self._entries += piece.entries
        if self._listed > self._max_list:
            raise ProtocolError(
                f"Synchronize: {self._listed} bytes of pods, limit {self._max_list}"
            )
        if self._entries > self._max_entries:
            raise ProtocolError(f"Synchronize: more than {self._max_entries} pods and containers")
