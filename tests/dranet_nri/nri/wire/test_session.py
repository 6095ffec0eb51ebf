"""The handshake: conformance cases 29 to 37 without timeouts."""

import pytest

from dranet_nri._gen import nri_pb2
from dranet_nri.errors import ProtocolError
from dranet_nri.nri.wire import mux
from dranet_nri.nri.wire.messages import ConfigureRequest, pod_from_message
from dranet_nri.nri.wire.session import (
    MAX_LIST,
    HandshakeState,
    PluginSession,
    PodsSynchronized,
    RegistrationAccepted,
    RegistrationRefused,
    RuntimeConfigured,
    SessionEvent,
)
from dranet_nri.nri.wire.ttrpc import RpcCode
from tests.dranet_nri.nri.wire.conversation import container_message, exchange, serving
from tests.dranet_nri.nri.wire.nested import nested_in
from tests.dranet_nri.nri.wire.streams import demultiplex, frame
from tests.fakes.full_node import full_node
from tests.fakes.runtime import FakeRuntime, pod_message

FEW = 200  # entries, for a session whose limit is not the one of a node


def test_handshake_passes_through_its_states() -> None:
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    states, events = [session.state], exchange(session, runtime)

    runtime.accept()
    events += exchange(session, runtime)
    states.append(session.state)
    runtime.configure("cri-o", "1.33.0")
    events += exchange(session, runtime)
    states.append(session.state)
    runtime.synchronize(more=True)
    events += exchange(session, runtime)
    states.append(session.state)
    runtime.synchronize()
    events += exchange(session, runtime)
    states.append(session.state)

    assert states == [
        HandshakeState.CONNECTING,
        HandshakeState.REGISTERED,
        HandshakeState.CONFIGURED,
        HandshakeState.SYNCHRONIZING,
        HandshakeState.SERVING,
    ]
    assert events == [
        RegistrationAccepted(),
        RuntimeConfigured(ConfigureRequest("", "cri-o", "1.33.0", "v0.12.2", 2000)),
        PodsSynchronized((), 2_000_000_000),
    ]
    (registration,) = runtime.registrations
    assert (registration.plugin_name, registration.plugin_idx) == ("dra.net", "00")


@pytest.mark.parametrize("accept_at", ["first", "after Configure", "after Synchronize"])
def test_case_29_registration_answer_may_arrive_at_any_time(accept_at: str) -> None:
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    runtime.receive(session.data_to_send())

    if accept_at == "first":
        runtime.accept()
    runtime.configure()
    events = session.receive_data(runtime.data_to_send())
    if accept_at == "after Configure":
        runtime.accept()
    runtime.synchronize()
    events += session.receive_data(runtime.data_to_send())
    if accept_at == "after Synchronize":
        assert session.state is HandshakeState.SYNCHRONIZED
        runtime.accept()
    events += session.receive_data(runtime.data_to_send())

    assert session.state is HandshakeState.SERVING
    assert {type(event) for event in events} == {
        RegistrationAccepted,
        RuntimeConfigured,
        PodsSynchronized,
    }


def test_case_29_order_of_frames_in_one_read_does_not_matter() -> None:
    plans = {"register first": (1, 2), "configure first": (2, 1)}
    for order in plans.values():
        session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
        runtime.receive(session.data_to_send())
        runtime.accept()
        parts = {1: runtime.data_to_send()}
        runtime.configure()
        runtime.synchronize()
        parts[2] = runtime.data_to_send()

        session.receive_data(b"".join(parts[index] for index in order))

        assert session.state is HandshakeState.SERVING


def test_case_33_refused_registration_is_reported_and_ends_the_session() -> None:
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    exchange(session, runtime)
    runtime.refuse("invalid plugin index")

    assert exchange(session, runtime) == [RegistrationRefused(2, "invalid plugin index")]

    assert session.state is HandshakeState.CLOSED
    runtime.configure()
    assert session.receive_data(runtime.data_to_send()) == []
    assert session.data_to_send() == b""


def test_bytes_after_the_end_of_a_session_are_not_kept() -> None:
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    exchange(session, runtime)
    runtime.refuse("invalid plugin index")
    exchange(session, runtime)

    for _ in range(3):
        assert session.receive_data(frame(mux.PLUGIN_CONN, b"x") * 3) == []

    session.receive_eof()


@pytest.mark.parametrize("valid", [0x07FF, 0x1FFF, 0x3FFF], ids=["0.2", "0.9.1", "0.12"])
def test_case_34_event_mask_is_15_for_every_runtime(valid: int) -> None:
    _session, runtime = serving()

    events = nri_pb2.ConfigureResponse.FromString(runtime.answers[1].payload).events

    assert events == 0x0F
    assert events & ~valid == 0


@pytest.mark.parametrize("chunks", [1, 2, 15])
def test_case_35_parts_form_one_list_and_each_is_answered_with_its_more_flag(chunks: int) -> None:
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    exchange(session, runtime)
    runtime.accept()
    runtime.configure()
    exchange(session, runtime)

    events: list[SessionEvent] = []
    ids = [f"s{i}" for i in range(chunks)]
    for i, sandbox_id in enumerate(ids):
        # A container may be one piece ahead of its pod.
        container = container_message(ids[(i + 1) % chunks])
        more = i < chunks - 1
        stream = runtime.synchronize([pod_message(sandbox_id)], [container], more=more)
        events = exchange(session, runtime)
        answer = nri_pb2.SynchronizeResponse.FromString(runtime.answers[stream].payload)
        assert answer.more is more
        assert not answer.update
        assert bool(events) is not more

    (event,) = events
    assert isinstance(event, PodsSynchronized)
    assert [pod.sandbox_id for pod in event.pods] == ids


def test_case_35_interrupted_list_is_discarded_and_the_next_one_starts_empty() -> None:
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    exchange(session, runtime)
    runtime.accept()
    runtime.configure()
    runtime.synchronize([pod_message("old")], more=True)
    exchange(session, runtime)

    session.receive_eof()
    assert session.state is HandshakeState.CLOSED
    fresh, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    exchange(fresh, runtime)
    runtime.accept()
    runtime.configure()
    runtime.synchronize([pod_message("new")])
    *_, event = exchange(fresh, runtime)

    assert isinstance(event, PodsSynchronized)
    assert [pod.sandbox_id for pod in event.pods] == ["new"]


def test_second_list_contains_nothing_of_the_first() -> None:
    session, runtime = serving()
    runtime.synchronize([pod_message("first")], [container_message("first")])
    exchange(session, runtime)
    runtime.synchronize([pod_message("a")], more=True)
    exchange(session, runtime)
    states = [session.state]
    runtime.synchronize([pod_message("b")])

    (event,) = exchange(session, runtime)
    states.append(session.state)

    assert isinstance(event, PodsSynchronized)
    assert [pod.sandbox_id for pod in event.pods] == ["a", "b"]
    assert states == [HandshakeState.SYNCHRONIZING, HandshakeState.SERVING]


def test_list_before_configure_is_refused() -> None:
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    exchange(session, runtime)
    stream = runtime.synchronize([pod_message("s")])

    assert exchange(session, runtime) == []

    status = runtime.answers[stream].status
    assert status is not None
    assert status.code == RpcCode.FAILED_PRECONDITION
    assert session.state is HandshakeState.CONNECTING


def test_case_37_missing_and_unusual_values_of_runtimes_are_accepted() -> None:
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    exchange(session, runtime)
    runtime.accept()
    runtime.call("Configure", nri_pb2.ConfigureRequest(runtime_name="containerd"))
    runtime.call(
        "Configure",
        nri_pb2.ConfigureRequest(config="mode: x", runtime_name="a", NRI_version="(devel)"),
    )

    _registered, old, new = exchange(session, runtime)

    assert old == RuntimeConfigured(ConfigureRequest("", "containerd", "", "", 0))
    assert new == RuntimeConfigured(ConfigureRequest("mode: x", "a", "", "(devel)", 0))
    assert session.state is HandshakeState.CONFIGURED


def test_case_04_list_of_16_mib_from_an_old_runtime_is_accepted() -> None:
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    exchange(session, runtime)
    runtime.accept()
    runtime.configure()
    exchange(session, runtime)
    pod = pod_message("s")
    pod.annotations["fill"] = "x" * ((16 << 20) - 500)
    runtime.synchronize([pod])
    data = demultiplex([runtime.data_to_send()])[mux.PLUGIN_CONN]

    (event,) = session.receive_data(frame(mux.PLUGIN_CONN, data))

    assert isinstance(event, PodsSynchronized)
    assert event.pods[0].sandbox_id == "s"


def _filler(size: int) -> nri_pb2.PodSandbox:
    return nri_pb2.PodSandbox(annotations={"": "x" * size})


def test_list_above_the_size_limit_ends_the_connection() -> None:
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    exchange(session, runtime)
    runtime.configure()
    piece = [_filler(4_000_000)]
    for _ in range(MAX_LIST // 4_000_000):
        runtime.synchronize(piece, more=True)
        exchange(session, runtime)
    runtime.synchronize(piece, more=True)

    with pytest.raises(ProtocolError, match=f"Synchronize: .* limit {MAX_LIST}"):
        exchange(session, runtime)


def _flood(count: int) -> nri_pb2.Container:
    """Return a container with count nested messages."""
    return nri_pb2.Container(mounts=[nri_pb2.Mount()] * count)


def test_list_above_the_entry_limit_ends_the_connection() -> None:
    session, runtime = PluginSession("dra.net", "00", max_entries=FEW), FakeRuntime()
    exchange(session, runtime)
    runtime.configure()
    runtime.synchronize(containers=[nri_pb2.Container()] * (FEW // 2), more=True)
    runtime.synchronize([nri_pb2.PodSandbox()] * (FEW // 2), more=True)
    exchange(session, runtime)
    runtime.synchronize([nri_pb2.PodSandbox()])

    with pytest.raises(ProtocolError, match=f"Synchronize: more than {FEW} pods and containers"):
        exchange(session, runtime)


def test_entry_limit_is_262144() -> None:
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    exchange(session, runtime)
    runtime.configure()
    runtime.synchronize(containers=[nri_pb2.Container()] * (1 << 18), more=True)
    exchange(session, runtime)
    runtime.synchronize(containers=[nri_pb2.Container()])

    with pytest.raises(ProtocolError, match="Synchronize: more than 262144 pods and containers"):
        exchange(session, runtime)


def test_part_above_the_entry_limit_is_not_decoded() -> None:
    session, runtime = PluginSession("dra.net", "00", max_entries=FEW), FakeRuntime()
    exchange(session, runtime)
    runtime.configure()
    runtime.synchronize([nri_pb2.PodSandbox()] * (FEW + 1))

    with pytest.raises(ProtocolError, match=f"Synchronize: more than {FEW} pods and containers"):
        exchange(session, runtime)


def test_pod_above_the_entry_limit_ends_the_connection() -> None:
    session, runtime = PluginSession("dra.net", "00", max_entries=FEW), FakeRuntime()
    exchange(session, runtime)
    runtime.configure()
    pod = nri_pb2.PodSandbox()
    pod.linux.namespaces.extend([nri_pb2.LinuxNamespace()] * FEW)
    runtime.synchronize([pod])

    with pytest.raises(ProtocolError, match=f"Synchronize: more than {FEW} nested messages"):
        exchange(session, runtime)


def test_contents_of_listed_containers_do_not_count() -> None:
    session, runtime = PluginSession("dra.net", "00", max_entries=FEW, max_list=FEW), FakeRuntime()
    exchange(session, runtime)
    runtime.configure()
    runtime.synchronize([pod_message("s")], [_flood(3 * FEW)])
    *_, event = exchange(session, runtime)

    assert isinstance(event, PodsSynchronized)
    assert [pod.sandbox_id for pod in event.pods] == ["s"]


def test_entries_of_consecutive_lists_are_not_added() -> None:
    session, runtime = PluginSession("dra.net", "00", max_entries=FEW), FakeRuntime()
    exchange(session, runtime)
    runtime.configure()

    for _ in range(2):
        runtime.synchronize(containers=[nri_pb2.Container()] * (FEW - 1))
        exchange(session, runtime)

    assert session.state is HandshakeState.SYNCHRONIZED


def test_node_with_10000_containers_is_served() -> None:
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    exchange(session, runtime)
    runtime.configure()
    node = full_node(100, 1)
    containers = list(node.containers)
    assert nested_in(containers[0]) >= 79
    streams = [runtime.synchronize(node.pods, more=True)]
    streams += [runtime.synchronize(containers=containers, more=True) for _ in range(99)]
    streams.append(runtime.synchronize(containers=containers))
    events = exchange(session, runtime)

    assert isinstance(events[-1], PodsSynchronized)
    assert events[-1].pods == tuple(map(pod_from_message, node.pods))
    assert all(runtime.answers[stream].status is None for stream in streams)


def test_other_request_above_the_entry_limit_ends_the_connection() -> None:
    session, runtime = serving(max_entries=FEW)
    runtime.create_container(pod_message("s1"), _flood(FEW - 10))
    held = exchange(session, runtime)
    runtime.create_container(pod_message("s1"), _flood(FEW + 1))

    with pytest.raises(ProtocolError, match=f"CreateContainer: more than {FEW} nested"):
        exchange(session, runtime)

    assert len(held) == 1


def test_sizes_of_consecutive_lists_are_not_added() -> None:
    session, runtime = PluginSession("dra.net", "00", max_list=2000), FakeRuntime()
    exchange(session, runtime)
    runtime.configure()

    for _ in range(2):
        runtime.synchronize([_filler(1500)])
        exchange(session, runtime)

    assert session.state is HandshakeState.SYNCHRONIZED
