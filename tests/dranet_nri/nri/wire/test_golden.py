"""Messages of a Go runtime, in both directions.

Each tests/golden/wire/NAME.hex is one message with its mux header, NAME.json what it means.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from dranet_nri._gen import nri_pb2, ttrpc_pb2
from dranet_nri.nri.wire import messages, mux, ttrpc
from dranet_nri.nri.wire.session import PluginSession
from tests.dranet_nri.nri.wire.streams import demultiplex
from tests.dranet_nri.nri.wire.streams import messages as framed
from tests.fakes.runtime import FakeRuntime

GOLDEN = Path(__file__).parents[3] / "golden" / "wire"
MESSAGES: dict[str, Any] = {
    "register-request": nri_pb2.RegisterPluginRequest,
    "register-response": nri_pb2.Empty,
    "configure-request": nri_pb2.ConfigureRequest,
    "configure-response": nri_pb2.ConfigureResponse,
    "synchronize-response": nri_pb2.SynchronizeResponse,
}


def golden(name: str) -> tuple[bytes, dict[str, Any]]:
    data = bytes.fromhex((GOLDEN / f"{name}.hex").read_text().replace("|", ""))
    return data, json.loads((GOLDEN / f"{name}.json").read_text())


def test_every_golden_file_is_tested() -> None:
    assert sorted(MESSAGES) == sorted(path.stem for path in GOLDEN.glob("*.hex"))


@pytest.mark.parametrize("name", MESSAGES)
def test_golden_bytes_decode_to_their_description(name: str) -> None:
    data, meaning = golden(name)
    text = meaning["message"]

    (message,) = framed(demultiplex([data])[meaning["connection"]])

    assert (message.stream, message.type) == (meaning["stream"], meaning["type"])
    if message.type == ttrpc.MessageType.REQUEST:
        request = ttrpc_pb2.Request.FromString(message.data)
        for field in ("service", "method", "timeout_nano"):
            assert getattr(request, field) == text.pop(field)
        payload = request.payload
    else:
        response = ttrpc_pb2.Response.FromString(message.data)
        assert not response.HasField("status")
        payload = response.payload
    assert MESSAGES[name].FromString(payload) == json_format.ParseDict(text, MESSAGES[name]())


def test_registration_equals_the_golden_file() -> None:
    assert PluginSession("rdma", "45", 5).data_to_send() == golden("register-request")[0]


def test_fake_runtime_answers_and_configures_as_the_golden_files() -> None:
    runtime = FakeRuntime()
    runtime.receive(golden("register-request")[0])
    timeout = golden("configure-request")[1]["message"]["timeout_nano"]
    request = nri_pb2.ConfigureRequest()
    json_format.ParseDict(
        {
            key: value
            for key, value in golden("configure-request")[1]["message"].items()
            if key not in ("service", "method", "timeout_nano")
        },
        request,
    )

    runtime.accept()
    assert runtime.data_to_send() == golden("register-response")[0]
    runtime.call("Configure", request, timeout)
    assert runtime.data_to_send() == golden("configure-request")[0]


def test_answers_equal_the_golden_files() -> None:
    server = ttrpc.TtrpcServer(
        messages.PLUGIN_SERVICE, messages.PLUGIN_METHODS, messages.LARGE_METHODS
    )
    runtime = FakeRuntime()
    runtime.configure()
    runtime.synchronize()
    server.receive(demultiplex([runtime.data_to_send()])[mux.PLUGIN_CONN])

    server.reply(1, messages.encode_configure(0x07))
    server.reply(3, messages.encode_synchronize(more=False))

    sent = [mux.encode_message(mux.PLUGIN_CONN, message) for message in server.messages_to_send()]
    assert sent == [golden("configure-response")[0], golden("synchronize-response")[0]]
