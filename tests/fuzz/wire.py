"""Targets of the wire room: what a runtime, or something that claims to be one, may send."""

from contextlib import suppress
from dataclasses import dataclass, field

from dranet_nri._gen import nri_pb2, ttrpc_pb2
from dranet_nri.errors import ProtocolError
from dranet_nri.model import Container, Edits
from dranet_nri.nri.wire import messages, mux
from dranet_nri.nri.wire import ttrpc as rpc
from dranet_nri.nri.wire.session import (
    ContainerEvent,
    HandshakeState,
    PluginSession,
    PodEvent,
    SessionEvent,
)
from tests.fuzz.target import Target, pieces

_SERVICE = "a.Service"
# The smallest message is a header; what refuses one is a header and a status of two fields.
_MOST_SENT = 16  # bytes for each byte that came
_GREETING = 512  # our registration


# --------------------------------------------------------------------------- mux


@dataclass
class _Streams:
    """What the logical connections got, and whether the end was refused."""

    got: dict[int, bytearray] = field(
        default_factory=lambda: {mux.PLUGIN_CONN: bytearray(), mux.RUNTIME_CONN: bytearray()}
    )
    refused: bool = False


def _demultiplexed(cuts: list[bytes]) -> _Streams:
    decoder, streams = mux.MuxDecoder(), _Streams()
    try:
        for piece in cuts:
            decoder.feed(piece)
            while (chunk := decoder.next_chunk()) is not None:
                assert chunk.data
                streams.got[chunk.conn] += chunk.data
            assert len(decoder._buffer) < mux.HEADER.size, "more than a header is held"
        decoder.close()
    except ProtocolError:
        streams.refused = True
    return streams


def demultiplex(data: bytes) -> None:
    """Any bytes in any cuts are the same streams or a ProtocolError; only a header is held."""
    assert _demultiplexed(list(pieces(data))) == _demultiplexed([data[1:]])


# --------------------------------------------------------------------------- ttrpc


def _served(cuts: list[bytes]) -> tuple[list[rpc.TtrpcCall], bytes, bool]:
    server, calls, fed = rpc.TtrpcServer(_SERVICE, {"Do", "Bulk"}, {"Bulk"}), [], 0
    for piece in cuts:
        calls += server.receive(piece)
        fed += len(piece)
        assert len(server._decoder._buffer) <= min(fed, rpc.MAX_RECEIVE + rpc.HEADER.size)
    for call in calls:
        server.reply(call.stream, call.payload)
    sent = b"".join(server.messages_to_send())
    assert len(sent) <= fed * _MOST_SENT
    try:
        server.close()
    except ProtocolError:
        return calls, sent, True
    return calls, sent, False


def _answered(cuts: list[bytes]) -> list[rpc.TtrpcResponse]:
    client, answers = rpc.TtrpcClient(), []
    for _ in range(3):
        client.call(_SERVICE, "Do", b"")
    with suppress(ProtocolError):
        for piece in cuts:
            answers += client.receive(piece)
        client.close()
    streams = [answer.stream for answer in answers]
    assert len(set(streams)) == len(streams)
    assert set(streams) <= {1, 3, 5}
    return answers


def exchange(data: bytes) -> None:
    """Any bytes are calls and answers or a ProtocolError, whatever the cuts; none comes twice."""
    cuts = list(pieces(data))
    assert _served(cuts) == _served([data[1:]])
    _answered(cuts)


# --------------------------------------------------------------------------- session


def _held(session: PluginSession) -> int:
    buffers = (session._mux._buffer, session._server._decoder._buffer)
    return sum(map(len, (*buffers, session._client._decoder._buffer)))


def _sent(session: PluginSession) -> int:
    """Return how many bytes leave, all of them whole frames of whole messages."""
    data = session.data_to_send()
    streams = _demultiplexed([data])
    assert not streams.refused
    for stream in streams.got.values():
        decoder = rpc.MessageDecoder()
        decoder.feed(bytes(stream))
        while decoder.next_message() is not None:
            pass
        decoder.close()
    return len(data)


def _answer(session: PluginSession, event: SessionEvent) -> None:
    match event:
        case PodEvent(_, pod, call) if pod.sandbox_id:
            session.reply(call)
        case PodEvent(_, _, call):
            session.refuse(call, "no sandbox id")
        case ContainerEvent(_, container, call):
            session.reply(call, _edits_of(container))
        case _:
            pass


def _edits_of(container: Container) -> Edits:
    return Edits(
        mounts=container.mounts, env=tuple((entry, container.name) for entry in container.env)
    )


def converse_as_plugin(data: bytes) -> None:
    """Any bytes are events or a ProtocolError, and what is held and sent is bounded by them."""
    session, fed, sent = PluginSession("dra.net", "00"), 0, 0
    with suppress(ProtocolError):
        for piece in pieces(data):
            fed += 0 if session.state is HandshakeState.CLOSED else len(piece)
            events = session.receive_data(piece)
            for event in events:
                _answer(session, event)
            sent += _sent(session)
            assert _held(session) <= fed, "bytes are kept that nobody will read"
            assert sent <= _GREETING + fed * _MOST_SENT
        session.receive_eof()
    session.close()
    assert session.state is HandshakeState.CLOSED
    assert not session._pods


# --------------------------------------------------------------------------- NRI

_METHODS = sorted(messages.PLUGIN_METHODS)


def decode_request(data: bytes) -> None:
    """Any payload is a request or a ProtocolError, and what a container says can be sent back."""
    if not data:
        return
    try:
        request = messages.decode_request(_METHODS[data[0] % len(_METHODS)], data[1:])
    except ProtocolError:
        return
    if not isinstance(request, messages.CreateContainerRequest):
        return
    edits = _edits_of(request.container)
    answer = nri_pb2.CreateContainerResponse.FromString(messages.encode_create_container(edits))
    assert {mount.destination for mount in answer.adjust.mounts} == {
        mount.destination for mount in edits.mounts
    }
    assert {entry.key for entry in answer.adjust.env} == {key for key, _ in edits.env}


# --------------------------------------------------------------------------- words


def call_bytes(stream: int, service: str, method: str, payload: bytes = b"") -> bytes:
    """Return a ttrpc request."""
    body = ttrpc_pb2.Request(service=service, method=method, payload=payload, timeout_nano=1)
    return rpc.encode_message(stream, rpc.MessageType.REQUEST, body.SerializeToString())


def _answer_bytes(stream: int, code: int = 0) -> bytes:
    body = ttrpc_pb2.Response(status=ttrpc_pb2.Status(code=code, message="m") if code else None)
    return rpc.encode_message(stream, rpc.MessageType.RESPONSE, body.SerializeToString())


_POD = nri_pb2.PodSandbox(id="s", name="p", uid="u", namespace="n")
_POD.linux.namespaces.add(type="network", path="/run/netns/a")
_BOX = nri_pb2.Container(id="c", pod_sandbox_id="s", name="m", env=["A=1"])
_BOX.mounts.add(source="/a", destination="/b", type="bind", options=["ro"])
PAYLOADS = (
    ("Configure", nri_pb2.ConfigureRequest(runtime_name="containerd")),
    ("Synchronize", nri_pb2.SynchronizeRequest(pods=[_POD], containers=[_BOX], more=True)),
    ("Synchronize", nri_pb2.SynchronizeRequest(pods=[_POD])),
    ("RunPodSandbox", nri_pb2.RunPodSandboxRequest(pod=_POD)),
    ("StateChange", nri_pb2.StateChangeEvent(event=nri_pb2.STOP_POD_SANDBOX, pod=_POD)),
    ("CreateContainer", nri_pb2.CreateContainerRequest(pod=_POD, container=_BOX)),
    ("Shutdown", nri_pb2.Empty()),
)
_LIMITS = (
    rpc.HEADER.pack(rpc.MAX_RECEIVE, 1, 1, 0),
    rpc.HEADER.pack(rpc.MAX_RECEIVE + 1, 1, 1, 0),
    rpc.HEADER.pack(0xFFFFFFFF, 0xFFFFFFFF, 0xFF, 0xFF),
)
_FRAMES = (
    mux.HEADER.pack(1, mux.MAX_PAYLOAD),
    mux.HEADER.pack(2, mux.MAX_PAYLOAD + 1),
    mux.HEADER.pack(0, 3),
    mux.HEADER.pack(1, 0),
    mux.HEADER.pack(2, 1),
)
_CALLS = tuple(
    call_bytes(2 * number + 1, messages.PLUGIN_SERVICE, method, message.SerializeToString())
    for number, (method, message) in enumerate(PAYLOADS)
)
_ANSWERS = tuple(_answer_bytes(stream, code) for stream in (1, 3) for code in (0, 2, 12))

TARGETS = {
    "mux": Target(demultiplex, _FRAMES),
    "ttrpc": Target(
        exchange,
        (
            *(call_bytes(s, _SERVICE, m, b"p") for s in (1, 2, 3) for m in ("Do", "Bulk", "No")),
            *_ANSWERS,
            *_LIMITS,
        ),
    ),
    "session": Target(
        converse_as_plugin,
        tuple(mux.encode_message(mux.PLUGIN_CONN, call) for call in (*_CALLS, *_LIMITS))
        + tuple(mux.encode_message(mux.RUNTIME_CONN, answer) for answer in _ANSWERS)
        + _FRAMES,
    ),
    "nri": Target(
        decode_request,
        (
            *(
                bytes([_METHODS.index(method)]) + message.SerializeToString()
                for method, message in PAYLOADS
            ),
            *(b"\x0a\x02\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0b", b"\x08\x80\x80\x01"),
        ),
    ),
}
