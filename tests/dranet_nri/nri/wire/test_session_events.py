"""Events, answers and garbage: conformance cases 2, 8, 14, 18 to 20, 27 and 41."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dranet_nri._gen import nri_pb2
from dranet_nri.errors import InvalidValueError, ProtocolError
from dranet_nri.model import CharDevice, Container, Edits, Mount, Pod
from dranet_nri.nri.wire import mux, ttrpc
from dranet_nri.nri.wire.messages import PLUGIN_METHODS, PLUGIN_SERVICE, PodEventKind
from dranet_nri.nri.wire.session import (
    ContainerEvent,
    HandshakeState,
    PendingCall,
    PluginSession,
    PodEvent,
    PodsSynchronized,
    RegistrationAccepted,
    RuntimeConfigured,
    SessionEvent,
)
from dranet_nri.nri.wire.ttrpc import RpcCode, TtrpcResponse
from tests.dranet_nri.nri.wire.conversation import container_message, exchange, serving
from tests.dranet_nri.nri.wire.streams import cut, demultiplex, frame, frames
from tests.fakes.runtime import FakeRuntime, pod_message

RAW_POD = pod_message("s1", netns="/var/run/netns/x")
POD = Pod("s1", "uid-s1", "default", "pod-s1", "/var/run/netns/x")


@pytest.mark.parametrize("kind", PodEventKind)
@pytest.mark.parametrize("dedicated", [True, False], ids=["dedicated", "StateChange"])
def test_case_41_both_styles_give_the_same_event_and_the_same_answer(
    kind: PodEventKind, *, dedicated: bool
) -> None:
    session, runtime = serving(dedicated=dedicated)
    stream = runtime.pod_event(kind, RAW_POD, 1_500_000_000)

    (event,) = exchange(session, runtime)
    assert event == PodEvent(kind, POD, PendingCall(stream, 1_500_000_000))
    assert isinstance(event, PodEvent)
    session.reply(event.call)
    exchange(session, runtime)

    assert runtime.answers[stream] == TtrpcResponse(stream, b"")


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(nri_pb2.StateChangeEvent(event=99, pod=RAW_POD), id="unknown"),  # type: ignore[arg-type]
        pytest.param(nri_pb2.StateChangeEvent(event=0, pod=RAW_POD), id="UNKNOWN"),  # type: ignore[arg-type]
        pytest.param(
            nri_pb2.StateChangeEvent(event=nri_pb2.POST_START_CONTAINER, pod=RAW_POD),
            id="not subscribed",
        ),
        pytest.param(nri_pb2.StateChangeEvent(event=nri_pb2.RUN_POD_SANDBOX), id="no pod"),
    ],
)
def test_case_41_irrelevant_state_change_succeeds(
    message: nri_pb2.StateChangeEvent,
) -> None:
    session, runtime = serving()
    stream = runtime.call("StateChange", message)

    assert exchange(session, runtime) == []

    assert runtime.answers[stream] == TtrpcResponse(stream, b"")


@pytest.mark.parametrize(
    "method",
    sorted(
        PLUGIN_METHODS
        - {"Configure", "Synchronize", "StateChange", "CreateContainer", *PodEventKind}
    ),
)
def test_unsubscribed_event_succeeds_with_an_empty_answer(method: str) -> None:
    session, runtime = serving()
    stream = runtime.call(method, nri_pb2.Empty())

    assert exchange(session, runtime) == []

    assert runtime.answers[stream] == TtrpcResponse(stream, b"")


def test_container_gets_its_edits() -> None:
    session, runtime = serving()
    stream = runtime.create_container(RAW_POD, container_message("s1"))

    (event,) = exchange(session, runtime)
    assert event == ContainerEvent(
        POD, Container("c-s1", "s1", "main"), PendingCall(stream, 2 * 10**9)
    )
    assert isinstance(event, ContainerEvent)
    session.reply(event.call, Edits(char_devices=(CharDevice("/dev/x", 1, 2),)))
    exchange(session, runtime)

    answer = nri_pb2.CreateContainerResponse.FromString(runtime.answers[stream].payload)
    assert [device.path for device in answer.adjust.linux.devices] == ["/dev/x"]


def test_invalid_edits_leave_the_call_open() -> None:
    session, runtime = serving()
    stream = runtime.create_container(RAW_POD, container_message("s1"))
    (event,) = exchange(session, runtime)
    assert isinstance(event, ContainerEvent)

    with pytest.raises(InvalidValueError):
        session.reply(event.call, Edits(mounts=(Mount("\udcff", "/d"),)))
    session.refuse(event.call, "unusable")
    exchange(session, runtime)

    assert runtime.answers[stream].status == ttrpc.RpcStatus(RpcCode.UNKNOWN, "unusable")


def test_case_14_undecodable_payload_is_an_internal_error() -> None:
    session, runtime = serving()
    data = ttrpc.TtrpcClient()
    for _ in range(5):  # past the ids of the handshake
        data.call(PLUGIN_SERVICE, "RunPodSandbox", b"\xff")
    last = data.messages_to_send()[-1]

    session.receive_data(mux.encode_message(mux.PLUGIN_CONN, last))

    sent = demultiplex([session.data_to_send()])[mux.PLUGIN_CONN]
    assert bytes([RpcCode.INTERNAL]) in sent
    assert b"RunPodSandbox: the payload cannot be decoded" in sent
    assert runtime.answers.keys() == {1, 3}


def test_case_18_events_of_many_pods_are_answered_in_any_order() -> None:
    session, runtime = serving()
    streams = [runtime.pod_event(PodEventKind.RUN, pod_message(f"s{i}")) for i in range(50)]
    events = exchange(session, runtime)

    for event in reversed(events):
        assert isinstance(event, PodEvent)
        session.refuse(event.call, event.pod.sandbox_id)
    exchange(session, runtime)

    for i, stream in enumerate(streams):
        assert runtime.answers[stream].status == ttrpc.RpcStatus(RpcCode.UNKNOWN, f"s{i}")


def test_case_19_refusal_is_never_unimplemented_and_always_utf8() -> None:
    session, runtime = serving()
    stream = runtime.pod_event(PodEventKind.RUN, RAW_POD)
    (event,) = exchange(session, runtime)
    assert isinstance(event, PodEvent)

    with pytest.raises(ValueError, match="code 12"):
        session.refuse(event.call, "text", RpcCode.UNIMPLEMENTED)
    session.refuse(event.call, "bad \udcff name")
    exchange(session, runtime)

    assert runtime.answers[stream].status == ttrpc.RpcStatus(RpcCode.UNKNOWN, "bad ? name")


def test_case_20_edits_above_4_mib_fail_only_the_container() -> None:
    session, runtime = serving()
    stream = runtime.create_container(RAW_POD, container_message("s1"))
    (event,) = exchange(session, runtime)
    assert isinstance(event, ContainerEvent)

    session.reply(event.call, Edits(env=(("A", "x" * (4 << 20)),)))
    again = runtime.pod_event(PodEventKind.STOP, RAW_POD)
    (event,) = exchange(session, runtime)

    status = runtime.answers[stream].status
    assert status is not None
    assert status.code == RpcCode.RESOURCE_EXHAUSTED
    assert event == PodEvent(PodEventKind.STOP, POD, PendingCall(again, 2 * 10**9))


def test_case_27_answer_on_the_wrong_connection_is_ignored() -> None:
    session = PluginSession("dra.net", "00")
    answer = ttrpc.encode_message(1, ttrpc.MessageType.RESPONSE, b"")

    assert session.receive_data(mux.encode_message(mux.PLUGIN_CONN, answer)) == []
    assert session.state is HandshakeState.CONNECTING
    assert session.receive_data(mux.encode_message(mux.RUNTIME_CONN, answer)) == [
        RegistrationAccepted()
    ]


def test_case_02_events_survive_frames_of_one_byte() -> None:
    session, runtime = serving()
    stream = runtime.pod_event(PodEventKind.RUN, RAW_POD)
    data = demultiplex([runtime.data_to_send()])[mux.PLUGIN_CONN]

    events = session.receive_data(frames(mux.PLUGIN_CONN, data, 1))

    assert events == [PodEvent(PodEventKind.RUN, POD, PendingCall(stream, 2 * 10**9))]


@pytest.mark.parametrize("conn", [mux.PLUGIN_CONN, mux.RUNTIME_CONN])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\0\0", id="mux header"),
        pytest.param(b"\0\0\0\1\0\0\0\4ab", id="mux payload"),
        pytest.param(None, id="ttrpc message"),
    ],
)
def test_case_08_end_inside_a_message_is_an_error_and_the_session_is_closed(
    conn: int, data: bytes | None
) -> None:
    session = PluginSession("dra.net", "00")
    session.receive_data(frame(conn, b"\0\0") if data is None else data)

    with pytest.raises(ProtocolError):
        session.receive_eof()

    assert session.state is HandshakeState.CLOSED


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.builds(frame, st.integers(0, 3), st.binary(max_size=40)),
            st.builds(
                lambda stream, method, payload: frame(1, _request_bytes(stream, method, payload)),
                st.integers(0, 9),
                st.sampled_from([*sorted(PLUGIN_METHODS), "None"]),
                st.binary(max_size=20),
            ),
        ),
        max_size=8,
    )
)
@example([mux.HEADER.pack(1, mux.MAX_PAYLOAD)])
@example([mux.HEADER.pack(1, mux.MAX_PAYLOAD + 1)])
@example([frame(1, ttrpc.HEADER.pack(ttrpc.MAX_RECEIVE, 1, 1, 0))])
@example([frame(1, ttrpc.HEADER.pack(ttrpc.MAX_RECEIVE + 1, 1, 1, 0))])
@example([frame(2, ttrpc.HEADER.pack(0, 1, 3, 0))])
def test_malformed_bytes_are_accepted_or_refused_as_a_protocol_error(pieces: list[bytes]) -> None:
    session = PluginSession("dra.net", "00")
    try:
        for piece in pieces:
            for event in session.receive_data(piece):
                if isinstance(event, PodEvent | ContainerEvent):
                    session.reply(event.call)
        session.receive_eof()
    except ProtocolError:
        pass
    demultiplex([session.data_to_send()])


def _request_bytes(stream: int, method: str, payload: bytes) -> bytes:
    client = ttrpc.TtrpcClient()
    client.call(PLUGIN_SERVICE, method, payload)
    (message,) = client.messages_to_send()
    return message[:4] + stream.to_bytes(4, "big") + message[8:]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 1500), max_size=20))
@example([4096])
@example([4104])
def test_complete_conversation_survives_any_split(places: list[int]) -> None:
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    runtime.receive(session.data_to_send())
    runtime.accept()
    runtime.configure()
    large = pod_message("s1")
    large.annotations["a"] = "x" * 5000
    runtime.synchronize([large])
    for kind in PodEventKind:
        runtime.pod_event(kind, RAW_POD)

    events: list[SessionEvent] = []
    for piece in cut(runtime.data_to_send(), places):
        events += session.receive_data(piece)

    assert [type(event) for event in events] == [
        RegistrationAccepted,
        RuntimeConfigured,
        PodsSynchronized,
        PodEvent,
        PodEvent,
        PodEvent,
    ]
