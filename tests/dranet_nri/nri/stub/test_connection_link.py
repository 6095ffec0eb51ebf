"""A connection on a transport that records each write: effects within a single call."""

import asyncio

import pytest

from dranet_nri._gen import nri_pb2
from dranet_nri.nri.stub.dispatcher import Dispatcher
from dranet_nri.nri.stub.transport import MAX_UNDELIVERED, MAX_UNSENT, Transport
from dranet_nri.nri.wire.messages import PodEventKind
from dranet_nri.nri.wire.session import (
    ContainerEvent,
    HandshakeState,
    PluginSession,
    PodEvent,
    PodsSynchronized,
    SessionEvent,
)
from dranet_nri.nri.wire.ttrpc import MAX_OPEN, TtrpcResponse
from tests.dranet_nri.nri.stub.plugin_bench import container_message, finish, pod
from tests.fakes.clock import FakeClock
from tests.fakes.hooks import RecordingHandler
from tests.fakes.runtime import REQUEST_TIMEOUT_NANO, FakeRuntime

pytestmark = pytest.mark.process


class ShownTransport(asyncio.Transport):
    """Keeps what is written.

    Attributes:
        full: what is written from now on stays behind, as with a peer that doesn't read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.full = False
        self.closed = ""
        self._protocol: Transport | None = None

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0

    def connect(self, protocol: Transport) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        assert self._protocol is not None
        self.written += bytes(data)
        if self.full:
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return len(self.written) if self.full else 0

    def is_closing(self) -> bool:
        return bool(self.closed)

    def close(self) -> None:
        self.closed = self.closed or "closed"

    def abort(self) -> None:
        self.closed = self.closed or "aborted"


class Wire:
    """A link between a transport, a runtime in memory and a list of what was delivered."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.handler = RecordingHandler()
        self.hooks = Dispatcher(
            self.handler, self.clock, self.clock.sleep, lambda _notice: None, lambda *_: None
        )
        self.delivered: list[SessionEvent] = []
        self.transport = ShownTransport()
        self.runtime = FakeRuntime()
        self.link = Transport(PluginSession("dra.net", "00"), self.clock, self._deliver)
        self.transport.connect(self.link)

    def _deliver(self, link: Transport, event: SessionEvent, arrival: float) -> None:
        self.delivered.append(event)
        if isinstance(event, PodEvent | ContainerEvent):
            self.hooks.submit(event, link, arrival)

    def carry(self) -> None:
        """Carry the written bytes to the runtime and its answers to the link, once."""
        self.runtime.receive(self.transport.written)
        self.transport.written = b""
        self.link.data_received(self.runtime.data_to_send())

    def handshake(self) -> None:
        self.carry()
        self.runtime.accept()
        self.runtime.configure()
        self.carry()
        self.carry()

    def lists(self) -> list[PodsSynchronized]:
        return [event for event in self.delivered if isinstance(event, PodsSynchronized)]


def unread_list(timeout_nano: int = REQUEST_TIMEOUT_NANO) -> Wire:
    """Return a wire whose runtime does not read the answer to its list of pods."""
    wire = Wire()
    wire.handshake()
    wire.transport.full = True
    wire.runtime.synchronize(timeout_nano=timeout_nano)
    wire.carry()
    return wire


def test_unclaimed_pod_is_answered_within_the_read() -> None:
    async def scenario() -> None:
        wire = Wire()
        wire.handshake()
        wire.handler.unclaimed = {"s1"}
        streams = [wire.runtime.pod_event(kind, pod("s1")) for kind in PodEventKind]
        streams.append(wire.runtime.create_container(pod("s1"), container_message("s1")))
        tasks = asyncio.all_tasks()

        wire.link.data_received(wire.runtime.data_to_send())
        wire.runtime.receive(wire.transport.written)

        assert [wire.runtime.answers[stream] for stream in streams] == [
            TtrpcResponse(stream, b"") for stream in streams
        ]
        assert asyncio.all_tasks() == tasks
        assert wire.handler.log == []

    finish(scenario())


def test_list_is_handled_after_its_answer_was_written() -> None:
    async def scenario() -> None:
        wire = Wire()
        wire.handshake()
        wire.transport.full = True
        wire.runtime.synchronize()
        wire.handler.unclaimed = {"s1"}
        wire.runtime.pod_event(PodEventKind.RUN, pod("s1"))

        wire.carry()
        before = list(wire.delivered)
        wire.link.resume_writing()

        assert not any(isinstance(event, PodsSynchronized | PodEvent) for event in before)
        assert [type(event) for event in wire.delivered[-2:]] == [PodsSynchronized, PodEvent]

    finish(scenario())


def test_runtime_lost_before_the_answer_to_its_list_is_reported() -> None:
    async def scenario() -> None:
        wire = unread_list()

        wire.link.connection_lost(BrokenPipeError(32, "Broken pipe"))

        assert wire.link.reason == (
            "the runtime closed the connection (Broken pipe); the answer to its list of pods had "
            "not reached it: it waits 2 s for that, and its configuration has a longer "
            "plugin_request_timeout for a busy node"
        )

    finish(scenario())


def test_runtime_lost_before_the_answer_to_a_list_part_is_reported() -> None:
    async def scenario() -> None:
        wire = Wire()
        wire.handshake()
        wire.runtime.synchronize(more=True)
        wire.carry()

        wire.link.connection_lost(BrokenPipeError(32, "Broken pipe"))

        assert "the answer to its list of pods had not reached it" in wire.link.reason

    finish(scenario())


@pytest.mark.parametrize("listed", [False, True])
def test_runtime_lost_without_a_pending_list_has_another_reason(*, listed: bool) -> None:
    async def scenario() -> None:
        wire = Wire()
        wire.handshake()
        if listed:
            wire.runtime.synchronize()
            wire.carry()

        wire.link.connection_lost(ConnectionResetError(104, "Connection reset by peer"))

        expected = "the runtime closed the connection (Connection reset by peer)"
        assert wire.link.reason == expected

    finish(scenario())


def test_case_36_list_with_a_late_answer_is_dropped_with_the_connection() -> None:
    async def scenario() -> None:
        wire = unread_list(2_000_000_000)

        wire.clock.pass_time(2.1)
        wire.link.resume_writing()

        assert wire.lists() == []
        assert wire.transport.closed == "aborted"
        assert wire.link.reason == "the answer to Synchronize left after its deadline"

    finish(scenario())


def test_case_36_list_in_time_or_without_a_limit_is_handled() -> None:
    async def scenario() -> None:
        for timeout_nano, passed_s in ((2_000_000_000, 1.9), (0, 600)):
            wire = unread_list(timeout_nano)

            wire.clock.pass_time(passed_s)
            wire.link.resume_writing()

            assert len(wire.lists()) == 1
            assert wire.transport.closed == ""

    finish(scenario())


def test_hook_deadline_counts_from_arrival() -> None:
    async def scenario() -> None:
        wire = Wire()
        wire.handshake()
        wire.transport.full = True
        wire.runtime.synchronize(timeout_nano=0)
        wire.runtime.pod_event(PodEventKind.RUN, pod("s1"), timeout_nano=2_000_000_000)
        wire.carry()
        arrival = wire.clock()

        wire.clock.pass_time(1)
        wire.link.resume_writing()
        await wire.handler.logged("run s1 done")

        assert wire.handler.deadlines == {("run", "s1"): pytest.approx(arrival + 1.6)}

    finish(scenario())


def test_list_is_not_handled_after_the_connection_ended() -> None:
    async def scenario() -> None:
        wire = unread_list()

        wire.link.abort("over")
        wire.link.resume_writing()
        wire.link.connection_lost(None)

        assert wire.lists() == []
        assert wire.link.state is HandshakeState.CLOSED
        assert wire.link.reason == "over"

    finish(scenario())


def test_runtime_that_never_reads_is_disconnected_at_the_send_limit() -> None:
    async def scenario() -> None:
        wire = Wire()
        wire.handshake()
        wire.handler.unclaimed = {"s1"}
        wire.transport.full = True
        calls = 0

        while not wire.transport.closed:
            for _ in range(1000):
                wire.runtime.call("Nonsense" * 500, nri_pb2.Empty())
            calls += 1000
            wire.link.data_received(wire.runtime.data_to_send())
            assert len(wire.transport.written) < 2 * MAX_UNSENT

        assert wire.transport.closed == "aborted"
        assert "the runtime does not read" in wire.link.reason
        assert len(wire.transport.written) > MAX_UNSENT

    finish(scenario())


def test_second_list_before_the_first_answer_was_sent_ends_the_connection() -> None:
    async def scenario() -> None:
        wire = unread_list()
        first = wire.transport.closed

        wire.runtime.synchronize()
        wire.carry()

        assert (first, wire.transport.closed) == ("", "aborted")
        assert "has not read the answer to Synchronize" in wire.link.reason

    finish(scenario())


def test_calls_held_behind_a_list_are_bounded() -> None:
    async def scenario() -> None:
        wire = Wire()
        wire.handshake()
        wire.transport.full = True
        wire.runtime.synchronize()
        for _ in range(MAX_UNDELIVERED - 1):
            wire.runtime.configure()
        wire.carry()
        held = wire.transport.closed

        wire.runtime.configure()
        wire.carry()

        assert (held, wire.transport.closed) == ("", "aborted")

    finish(scenario())


def test_unlimited_calls_end_the_connection() -> None:
    async def scenario() -> None:
        wire = Wire()
        wire.handshake()
        wire.handler.hold("run", "s1")
        for _ in range(MAX_OPEN + 1):
            wire.runtime.pod_event(PodEventKind.RUN, pod("s1"))

        wire.carry()

        assert wire.transport.closed == "aborted"
        assert wire.link.reason == f"ttrpc: more than {MAX_OPEN} calls wait for their answers"

    finish(scenario())


def test_nothing_is_written_after_the_end() -> None:
    async def scenario() -> None:
        wire = Wire()
        wire.handshake()
        release = wire.handler.hold("run", "s1")
        wire.runtime.pod_event(PodEventKind.RUN, pod("s1"))
        wire.carry()
        await wire.handler.logged("run s1")

        wire.link.abort("over")
        release()
        await wire.handler.logged("run s1 done")
        await asyncio.sleep(0)

        assert wire.transport.written == b""

    finish(scenario())
