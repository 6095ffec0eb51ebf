"""NRI messages and our values: conformance cases 49 (the encoder) and 50."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranet_nri._gen import nri_pb2
from dranet_nri.errors import InvalidValueError, ProtocolError
from dranet_nri.model import CharDevice, Container, Edits, Mount, Pod, Rlimit
from dranet_nri.nri.wire import messages

UNLIMITED = 2**64 - 1


def unknown_field(number: int, payload: bytes) -> bytes:
    """Return a length-delimited field that no message of ours has."""
    return bytes([(number << 3 | 2) & 0x7F | 0x80, number >> 4, len(payload)]) + payload


# --- from the runtime


def test_pod_has_the_path_of_its_network_namespace() -> None:
    message = nri_pb2.PodSandbox(
        id="s", uid="u", namespace="ns", name="n", pid=7, runtime_handler="kata"
    )
    message.linux.namespaces.add(type="pid", path="/proc/7/ns/pid")
    message.linux.namespaces.add(type="network")
    message.linux.namespaces.add(type="network", path="/var/run/netns/a")
    message.linux.namespaces.add(type="network", path="/var/run/netns/b")

    assert messages.pod_from_message(message) == Pod(
        "s", "u", "ns", "n", "/var/run/netns/a", 7, "kata"
    )


def test_container_has_its_existing_mounts_devices_and_limits() -> None:
    message = nri_pb2.Container(
        id="c",
        pod_sandbox_id="s",
        name="n",
        env=["A=1"],
        mounts=[nri_pb2.Mount(destination="/d", source="/s", type="bind", options=["ro"])],
        rlimits=[nri_pb2.POSIXRlimit(type="RLIMIT_MEMLOCK", hard=2, soft=1)],
    )
    message.linux.devices.add(path="/dev/x", type="c", major=1, minor=2)
    message.linux.namespaces.add(type="user", path="/proc/7/ns/user")

    assert messages.container_from_message(message) == Container(
        "c", "s", "n", (Mount("/s", "/d", ("ro",)),), ("/dev/x",), ("A=1",), ("RLIMIT_MEMLOCK",),
        own_users=True, memlock=1,
    )  # fmt: skip


def test_case_50_missing_fields_are_empty() -> None:
    assert messages.pod_from_message(nri_pb2.PodSandbox()) == Pod("", "", "", "")
    assert messages.container_from_message(nri_pb2.Container()) == Container("", "", "")
    assert messages.decode_request("CreateContainer", b"") == messages.CreateContainerRequest(
        Pod("", "", "", ""), Container("", "", "")
    )


def test_case_50_fields_of_a_newer_runtime_are_skipped() -> None:
    pod = nri_pb2.PodSandbox(id="s").SerializeToString() + unknown_field(900, b"new")
    event = b"\x08\x01" + b"\x12" + bytes([len(pod)]) + pod + unknown_field(901, b"newer")

    expected = messages.PodRequest(messages.PodEventKind.RUN, Pod("s", "", "", ""))
    assert messages.decode_request("StateChange", event) == expected


def test_case_50_unknown_enum_values_are_accepted() -> None:
    message = nri_pb2.Container(id="c", state=99)  # type: ignore[arg-type]

    assert messages.container_from_message(message) == Container("c", "", "")


@pytest.mark.parametrize("method", sorted(messages.PLUGIN_METHODS))
def test_every_method_accepts_an_empty_request_and_refuses_malformed_bytes(method: str) -> None:
    messages.decode_request(method, b"")

    with pytest.raises(ProtocolError, match=f"{method}: the payload cannot be decoded"):
        messages.decode_request(method, b"\xff")


def test_list_of_a_newer_runtime_is_decoded_without_its_new_fields() -> None:
    listed = nri_pb2.SynchronizeRequest(pods=[nri_pb2.PodSandbox(id="s")]).SerializeToString()

    request = messages.decode_request("Synchronize", unknown_field(900, b"new") + listed)

    assert isinstance(request, messages.SynchronizeRequest)
    assert request.pods == (Pod("s", "", "", ""),)


@pytest.mark.parametrize("field", ["pods", "containers"])
def test_truncated_entry_of_a_list_is_refused(field: str) -> None:
    listed = nri_pb2.SynchronizeRequest(
        pods=[nri_pb2.PodSandbox(id="pod")] if field == "pods" else [],
        containers=[nri_pb2.Container(id="container")] if field == "containers" else [],
    )

    with pytest.raises(ProtocolError, match="Synchronize: the payload cannot be decoded"):
        messages.decode_request("Synchronize", listed.SerializeToString()[:-1])


@given(st.sampled_from(sorted(messages.PLUGIN_METHODS)), st.binary(max_size=60))
def test_any_payload_is_accepted_or_refused_as_a_protocol_error(
    method: str, payload: bytes
) -> None:
    with suppress(ProtocolError):
        messages.decode_request(method, payload)


def test_methods_are_those_of_the_service() -> None:
    service = nri_pb2.DESCRIPTOR.services_by_name["Plugin"]

    assert {method.name for method in service.methods} == messages.PLUGIN_METHODS
    assert service.full_name == messages.PLUGIN_SERVICE
    assert nri_pb2.DESCRIPTOR.services_by_name["Runtime"].full_name == messages.RUNTIME_SERVICE


def test_event_mask_is_run_stop_remove_and_create() -> None:
    events = ("RUN_POD_SANDBOX", "STOP_POD_SANDBOX", "REMOVE_POD_SANDBOX", "CREATE_CONTAINER")

    assert sum(1 << (nri_pb2.Event.Value(name) - 1) for name in events) == messages.EVENT_MASK


# --- to the runtime

EDITS = Edits(
    mounts=(Mount("/host", "/inside", ("ro", "bind")),),
    char_devices=(
        CharDevice("/dev/infiniband/uverbs0", 231, 192),
        CharDevice("/dev/infiniband/rdma_cm", 10, 58, mode=0o20666, uid=0, gid=5),
    ),
    env=(("DRANET_IFNAME", "eth1"),),
    rlimits=(Rlimit("RLIMIT_MEMLOCK", UNLIMITED, UNLIMITED),),
)


def test_edits_become_an_adjustment() -> None:
    adjustment = messages.encode_adjustment(EDITS)

    assert list(adjustment.mounts) == [
        nri_pb2.Mount(destination="/inside", type="bind", source="/host", options=["ro", "bind"])
    ]
    assert list(adjustment.env) == [nri_pb2.KeyValue(key="DRANET_IFNAME", value="eth1")]
    assert list(adjustment.rlimits) == [
        nri_pb2.POSIXRlimit(type="RLIMIT_MEMLOCK", hard=UNLIMITED, soft=UNLIMITED)
    ]


def test_case_49_devices_have_type_and_numbers_and_optional_fields_only_if_set() -> None:
    plain, full = messages.encode_adjustment(EDITS).linux.devices

    assert (plain.path, plain.type, plain.major, plain.minor) == (
        "/dev/infiniband/uverbs0",
        "c",
        231,
        192,
    )
    assert not any(plain.HasField(name) for name in ("file_mode", "uid", "gid"))
    assert (full.file_mode.value, full.uid.value, full.gid.value) == (0o666, 0, 5)
    assert full.HasField("uid")


def test_case_49_number_zero_is_sent_as_present() -> None:
    edits = Edits(char_devices=(CharDevice("/dev/x", 1, 2, mode=0, uid=0, gid=0),))

    (device,) = messages.encode_adjustment(edits).linux.devices
    again = nri_pb2.LinuxDevice.FromString(device.SerializeToString())

    assert all(again.HasField(name) for name in ("file_mode", "uid", "gid"))


def test_case_49_first_entry_of_a_key_is_sent_once() -> None:
    edits = Edits(
        mounts=(Mount("/1", "/d"), Mount("/2", "/d")),
        char_devices=(CharDevice("/dev/x", 1, 1), CharDevice("/dev/x", 2, 2)),
        env=(("A", "1"), ("A", "2")),
        rlimits=(Rlimit("R", 1, 1), Rlimit("R", 2, 2)),
    )

    adjustment = messages.encode_adjustment(edits)

    assert [mount.source for mount in adjustment.mounts] == ["/1"]
    assert [device.major for device in adjustment.linux.devices] == [1]
    assert [entry.value for entry in adjustment.env] == ["1"]
    assert [limit.hard for limit in adjustment.rlimits] == [1]


def test_adjustment_without_devices_has_no_linux_part() -> None:
    assert not messages.encode_adjustment(replace(EDITS, char_devices=())).HasField("linux")


def test_create_container_answer_contains_only_the_adjustment() -> None:
    answer = nri_pb2.CreateContainerResponse.FromString(messages.encode_create_container(EDITS))

    assert answer == nri_pb2.CreateContainerResponse(adjust=messages.encode_adjustment(EDITS))


def test_empty_edits_take_no_bytes() -> None:
    assert messages.encode_create_container(Edits()) == b""


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param(Edits(mounts=(Mount("/\udcff", "/d"),)), id="not UTF-8"),
        pytest.param(Edits(rlimits=(Rlimit("R", 2**64, 0),)), id="number too large"),
        pytest.param(Edits(char_devices=(CharDevice("/x", 1, 1, uid=-1),)), id="negative owner"),
        pytest.param(Edits(char_devices=(CharDevice("/x", 1, 1, gid=2**32),)), id="group"),
    ],
)
def test_oversized_edits_are_invalid_values(edits: Edits) -> None:
    with pytest.raises(InvalidValueError, match="edits cannot be sent"):
        messages.encode_adjustment(edits)
