"""Messages a second through mux, ttrpc and session, without sockets."""

import time
from collections.abc import Callable
from typing import Final

from dranet_nri._gen import nri_pb2
from dranet_nri.model import Edits
from dranet_nri.nri.wire.messages import PodEventKind
from dranet_nri.nri.wire.session import ContainerEvent, PluginSession, PodEvent, PodsSynchronized
from tests.bench.table import Row, ms, print_now
from tests.fakes.full_node import full_node, pieces
from tests.fakes.runtime import FakeRuntime, pod_message

COUNT: Final = 1000  # a session takes no more calls without answers
LARGE: Final = 64 << 10
LARGE_COUNT: Final = 1000
PODS: Final = 1000
CONTAINERS: Final = 3
TRIES: Final = 9  # the best counts: others only take time away


def connected_session() -> tuple[PluginSession, FakeRuntime]:
    """Return two ends that have shaken hands."""
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    runtime.receive(session.data_to_send())
    runtime.accept()
    runtime.configure()
    runtime.synchronize()
    session.receive_data(runtime.data_to_send())
    runtime.receive(session.data_to_send())
    return session, runtime


def rate(count: int, work: Callable[[], object]) -> float:
    """Return how many of count there are in a second of work."""
    begin = time.perf_counter()
    work()
    return count / (time.perf_counter() - begin)


def incoming(size: int, count: int) -> tuple[float, float]:
    """Return calls a second from bytes to events, and what protobuf alone could parse."""
    session, runtime = connected_session()
    pod = pod_message("box", netns="/run/netns/box")
    if size:
        pod.annotations["filler"] = "x" * size
    requests = []
    for _ in range(count):
        runtime.pod_event(PodEventKind.RUN, pod)
        requests.append(runtime.data_to_send())
    payload = nri_pb2.RunPodSandboxRequest(pod=pod).SerializeToString()
    events: list[object] = []

    def session_rate() -> None:
        for data in requests:
            events.extend(session.receive_data(data))

    def protobuf_rate() -> None:
        for _ in requests:
            nri_pb2.RunPodSandboxRequest.FromString(payload)

    result = rate(count, session_rate), rate(count, protobuf_rate)
    assert sum(isinstance(event, PodEvent) for event in events) == count
    return result


def outgoing(size: int, count: int) -> tuple[float, float]:
    """Return answers a second from values to bytes, and what protobuf alone could write."""
    session, runtime = connected_session()
    pod = pod_message("box", netns="/run/netns/box")
    container = nri_pb2.Container(id="c", pod_sandbox_id="box", name="main")
    env = tuple((f"NAME{number}", "x" * 1000) for number in range(size // 1000))
    edits = Edits(env=env or (("DRA_NET_IFNAMES", "nic0"),))
    for _ in range(count):
        runtime.create_container(pod, container)
    events = session.receive_data(runtime.data_to_send())
    calls = [event.call for event in events if isinstance(event, ContainerEvent)]
    sent: list[bytes] = []

    def session_rate() -> None:
        for call in calls:
            session.reply(call, edits)
            sent.append(session.data_to_send())

    def protobuf_rate() -> None:
        for _ in calls:
            adjust = nri_pb2.ContainerAdjustment(
                env=[nri_pb2.KeyValue(key=key, value=value) for key, value in edits.env]
            )
            nri_pb2.CreateContainerResponse(adjust=adjust).SerializeToString()

    result = rate(count, session_rate), rate(count, protobuf_rate)
    runtime.receive(b"".join(sent))
    assert len(runtime.answers) >= count
    return result


def full_list() -> tuple[float, float]:
    """Return seconds of CPU for the list of a full node, and what protobuf needs to decode it."""
    session, runtime = PluginSession("dra.net", "00"), FakeRuntime()
    runtime.receive(session.data_to_send())
    runtime.accept()
    runtime.configure()
    parts = list(pieces(full_node(PODS, CONTAINERS)))
    payloads = [
        nri_pb2.SynchronizeRequest(pods=pods, containers=containers).SerializeToString()
        for pods, containers in parts
    ]
    for number, (pods, containers) in enumerate(parts, 1):
        runtime.synchronize(pods, containers, more=number < len(parts))
    data = runtime.data_to_send()
    begin = time.process_time()
    events = session.receive_data(data)
    middle = time.process_time()
    for payload in payloads:
        nri_pb2.SynchronizeRequest.FromString(payload)
    end = time.process_time()
    assert isinstance(events[-1], PodsSynchronized)
    assert len(events[-1].pods) == PODS
    return middle - begin, end - middle


def run(rows: list[Row], notes: list[str]) -> None:
    """Measure both directions."""
    print_now("wire: messages through mux, ttrpc and session")
    for way, measure in (("runtime to plugin", incoming), ("plugin to runtime", outgoing)):
        for label, size, count in (("small", 0, COUNT), ("64 KiB", LARGE, LARGE_COUNT)):
            measure(size, count // 10)
            session_rate, protobuf_rate = max(measure(size, count) for _ in range(TRIES))
            rows.append(
                Row(
                    f"wire, {way}, {label}",
                    f"{session_rate:,.0f} /s",
                    f"{protobuf_rate:,.0f} /s",
                    protobuf_rate / session_rate,
                )
            )
    listed, decoded = min(full_list() for _ in range(TRIES))
    rows.append(
        Row(
            f"wire, list of {PODS} pods x {CONTAINERS} containers, CPU",
            ms(listed),
            ms(decoded),
            listed / decoded,
        )
    )
    notes.append("wire baseline: protobuf alone on the same payload; the ratio is of times")
