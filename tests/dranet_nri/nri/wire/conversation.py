"""A session and a runtime in memory, and the exchange of their bytes."""

from dranet_nri._gen import nri_pb2
from dranet_nri.nri.wire.messages import MAX_ENTRIES
from dranet_nri.nri.wire.session import HandshakeState, PluginSession, SessionEvent
from tests.fakes.runtime import FakeRuntime


def exchange(session: PluginSession, runtime: FakeRuntime) -> list[SessionEvent]:
    """Carry bytes in both directions until none are left; return the events."""
    events: list[SessionEvent] = []
    while True:
        to_runtime = session.data_to_send()
        runtime.receive(to_runtime)
        to_plugin = runtime.data_to_send()
        events += session.receive_data(to_plugin)
        if not to_runtime and not to_plugin:
            return events


def serving(
    *, dedicated: bool = True, max_entries: int = MAX_ENTRIES
) -> tuple[PluginSession, FakeRuntime]:
    """Return both sides after the handshake."""
    session = PluginSession("dra.net", "00", max_entries=max_entries)
    runtime = FakeRuntime(dedicated=dedicated)
    exchange(session, runtime)
    runtime.accept()
    runtime.configure()
    runtime.synchronize()
    exchange(session, runtime)
    assert session.state is HandshakeState.SERVING
    return session, runtime


def container_message(sandbox_id: str) -> nri_pb2.Container:
    return nri_pb2.Container(id=f"c-{sandbox_id}", pod_sandbox_id=sandbox_id, name="main")
