"""dranet_nri.state.record: bytes of a record and back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranet_nri.errors import InvalidValueError, StateCorruptError, StateVersionError
from dranet_nri.model import (
    Allocation,
    Attachment,
    InterfaceConfig,
    NetworkConfig,
    Phase,
    Route,
    RouteConfig,
)
from dranet_nri.state.record import (
    MAX_ALLOCATION,
    UPGRADES,
    VERSION,
    decode_allocation,
    decode_attachment,
    encode_allocation,
    encode_attachment,
    salvage_devices,
    salvage_pod_uid,
)
from tests.dranet_nri.state.examples import ALLOCATION, ATTACHMENT, DEVICE, POD_UID
from tests.dranet_nri.state.invalid_records import BROKEN, GOOD, with_value
from tests.dranet_nri.state.strategies import ALLOCATIONS, ATTACHMENTS

GOLDEN = Path(__file__).parents[2] / "golden" / "state"


def test_undecodable_text_is_decoded_unchanged() -> None:
    device, *others = ATTACHMENT.devices
    assert device.snapshot is not None
    link = replace(device.snapshot.link, alias="port\udcff", altnames=("rail\udc80", "é"))
    labelled = replace(device.snapshot.addresses[0], label="rack\udcff")
    snapshot = replace(device.snapshot, link=link, addresses=(labelled,))
    record = replace(ATTACHMENT, devices=(replace(device, snapshot=snapshot), *others))

    assert decode_attachment(encode_attachment(record)) == record


@pytest.mark.parametrize("alias", ["\ud800", "port\udfff"])
def test_lone_surrogates_without_a_byte_are_refused(alias: str) -> None:
    device, *others = ATTACHMENT.devices
    assert device.snapshot is not None
    snapshot = replace(device.snapshot, link=replace(device.snapshot.link, alias=alias))
    record = replace(ATTACHMENT, devices=(replace(device, snapshot=snapshot), *others))

    with pytest.raises(InvalidValueError, match="lone surrogates"):
        encode_attachment(record)


def with_routes(allocation: Allocation, count: int) -> Allocation:
    routes = tuple(RouteConfig(f"10.{i >> 8}.{i & 255}.0/24") for i in range(count))
    first = replace(allocation.devices[0], config=NetworkConfig(routes=routes))
    return replace(allocation, devices=(first,))


@given(ALLOCATIONS)
def test_encoded_allocation_is_decoded_unchanged(allocation: Allocation) -> None:
    assert decode_allocation(encode_allocation(allocation)) == allocation


@given(ATTACHMENTS)
def test_encoded_attachment_is_decoded_unchanged(attachment: Attachment) -> None:
    assert decode_attachment(encode_attachment(attachment)) == attachment


@given(
    st.binary(max_size=200)
    | st.builds(lambda cut, by: GOOD[:cut] + by, st.integers(0, len(GOOD)), st.binary(max_size=8))
)
def test_any_bytes_are_a_record_or_refused(data: bytes) -> None:
    try:
        allocation = decode_allocation(data)
    except (StateCorruptError, StateVersionError):
        return

    assert decode_allocation(encode_allocation(allocation)) == allocation


@pytest.mark.parametrize(("data", "text"), BROKEN)
def test_broken_bytes_are_refused_with_the_location(data: bytes, text: str) -> None:
    with pytest.raises(StateCorruptError) as caught:
        decode_allocation(data)

    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("steps", "value", "text"),
    [
        pytest.param(
            ("phase",), "restored?", "$.phase: 'restored?': must be one of intent", id="phase"
        ),
        pytest.param(("phase",), ["restored"], "$.phase: is a list, must be str", id="phase-type"),
        pytest.param(
            ("netns", "path"), "run/netns/x", "$.netns.path: 'run/netns/x'", id="relative"
        ),
        pytest.param(("netns", "path"), "/run/../x", "$.netns.path: '/run/../x'", id="dots"),
        pytest.param(("sandboxId",), "a/b", "$.sandboxId: 'a/b'", id="sandbox"),
        pytest.param(("failure",), [], "$.failure: is a list, must be an object", id="failure"),
        pytest.param(
            ("devices", 0, "snapshot", "sysctls", 0, "key"),
            "../all/x",
            "snapshot.sysctls[0].key: '../all/x'",
            id="sysctl-path",
        ),
        pytest.param(
            ("devices", 0, "lease", "server"),
            "fd00::1",
            "lease: address and server of a lease must be IPv4",
            id="lease-family",
        ),
        pytest.param(
            ("devices", 0, "snapshot", "link", "mtu"), -1, "snapshot.link.mtu: -1", id="negative"
        ),
    ],
)
def test_broken_attachments_are_refused_with_the_location(
    steps: tuple[str | int, ...], value: object, text: str
) -> None:
    tree = json.loads(encode_attachment(ATTACHMENT))
    parent = tree
    for step in steps[:-1]:
        parent = parent[step]
    parent[steps[-1]] = value

    with pytest.raises(StateCorruptError) as caught:
        decode_attachment(json.dumps(tree).encode())

    assert text in str(caught.value)


def test_record_that_the_reader_would_refuse_is_not_written() -> None:
    device = replace(ALLOCATION.devices[0], request="../x")

    with pytest.raises(InvalidValueError, match=r"\$\.devices\[1\]\.request: '\.\./x'"):
        encode_allocation(replace(ALLOCATION, devices=(ALLOCATION.devices[0], device)))


def test_several_admin_requests_may_have_one_device() -> None:
    watching = ALLOCATION.devices[1]
    assert watching.admin_access
    allocation = replace(ALLOCATION, devices=(watching, replace(watching, request="other")))

    assert decode_allocation(encode_allocation(allocation)) == allocation


def test_allocation_of_513_routes_per_nic_is_refused_with_the_count() -> None:
    fits = with_routes(ALLOCATION, 512)

    assert decode_allocation(encode_allocation(fits)) == fits
    with pytest.raises(InvalidValueError, match="513 routes, at most 512 per NIC; aggregate"):
        encode_allocation(with_routes(ALLOCATION, 513))


def test_snapshot_of_513_routes_is_refused_with_the_count() -> None:
    device = ATTACHMENT.devices[0]
    assert device.snapshot is not None
    routes = tuple(Route(f"10.{i >> 8}.{i & 255}.0/24") for i in range(513))
    crowded = replace(device, snapshot=replace(device.snapshot, routes=routes))

    with pytest.raises(InvalidValueError, match=r"\$\.devices\[0\]\.snapshot: routes: 513 routes"):
        encode_attachment(replace(ATTACHMENT, devices=(crowded,)))


def test_allocation_above_64_kib_is_refused() -> None:
    room = MAX_ALLOCATION - len(encode_allocation(ALLOCATION))
    first, *others = ALLOCATION.devices

    def padded(count: int) -> Allocation:
        more = (*first.device.attributes, ("dra.net/zzz", "x" * count))
        device = replace(first.device, attributes=more)
        return replace(ALLOCATION, devices=(replace(first, device=device), *others))

    room -= len(encode_allocation(padded(0))) - len(encode_allocation(ALLOCATION))

    assert len(encode_allocation(padded(room))) == MAX_ALLOCATION == 65536
    assert decode_allocation(encode_allocation(padded(room))) == padded(room)
    with pytest.raises(
        InvalidValueError, match="65537 bytes, the record of an allocation has at most 65536"
    ):
        encode_allocation(padded(room + 1))


def test_newer_version_is_refused_with_the_remedy() -> None:
    data = b'{"version": 7, "kind": "Future", "shape": ["unknown"]}'

    with pytest.raises(StateVersionError, match="reads up to 6; upgrade it, or remove the claim"):
        decode_allocation(data)


def test_version_that_is_too_old_is_refused_with_the_remedy() -> None:
    with pytest.raises(StateVersionError, match=r"0 is too old.*one version at a time"):
        decode_allocation(with_value("version", value=0))


def test_record_of_the_previous_version_is_upgraded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def add_boot_id(tree: dict[str, object]) -> dict[str, object]:
        return {**tree, "bootId": ALLOCATION.boot_id}

    monkeypatch.setitem(UPGRADES, VERSION - 1, add_boot_id)
    old = json.loads(GOOD)
    old["version"] = VERSION - 1
    del old["bootId"]

    assert decode_allocation(json.dumps(old).encode()) == ALLOCATION


def test_only_the_previous_version_can_be_upgraded() -> None:
    assert set(UPGRADES) == set(range(max(1, VERSION - 1), VERSION))


def test_version_6_of_an_allocation_is_read_and_written() -> None:
    golden = (GOLDEN / "allocation-v6.json").read_bytes()

    assert decode_allocation(golden) == ALLOCATION
    assert json.loads(encode_allocation(ALLOCATION)) == json.loads(golden)


def test_version_6_of_an_attachment_is_read_and_written() -> None:
    golden = (GOLDEN / "attachment-v6.json").read_bytes()

    assert decode_attachment(golden) == ATTACHMENT
    assert json.loads(encode_attachment(ATTACHMENT)) == json.loads(golden)


def test_version_5_is_read_without_altnames() -> None:
    devices = (replace(ATTACHMENT.devices[0], pod_altnames=()), *ATTACHMENT.devices[1:])

    assert decode_allocation((GOLDEN / "allocation-v5.json").read_bytes()) == ALLOCATION
    assert decode_attachment((GOLDEN / "attachment-v5.json").read_bytes()) == replace(
        ATTACHMENT, devices=devices
    )


def test_version_5_has_other_names_for_restored_and_child_config() -> None:
    first, *others = ATTACHMENT.devices
    devices = (replace(first, restored=True, child_config=InterfaceConfig("net1")), *others)
    record = replace(ATTACHMENT, phase=Phase.RESTORED, devices=devices)
    text = encode_attachment(record).decode()
    names = {'"version":6': '"version":5', "restored": "home", "childConfig": "madeBy"}
    for new, old in names.items():
        text = text.replace(new, old)

    assert '"phase":"home"' in text
    assert '"home":true' in text
    assert decode_attachment(text.encode()) == record


@pytest.mark.parametrize("devices", ["x", ["x"]])
def test_version_5_without_devices_is_corrupt(devices: object) -> None:
    record = json.loads((GOLDEN / "attachment-v5.json").read_bytes()) | {"devices": devices}

    with pytest.raises(StateCorruptError, match=r"\$\.devices"):
        decode_attachment(json.dumps(record).encode())


def test_omitted_fields_have_the_defaults_of_version_6() -> None:
    least = decode_attachment((GOLDEN / "attachment-least-v6.json").read_bytes())
    spelled_out = decode_attachment((GOLDEN / "attachment-spelled-out-v6.json").read_bytes())

    assert least == spelled_out


@pytest.mark.parametrize(
    ("data", "uid"),
    [
        pytest.param(GOOD, POD_UID, id="whole"),
        pytest.param(GOOD[:300], POD_UID, id="torn"),
        pytest.param(json.dumps(json.loads(GOOD), indent=2).encode(), POD_UID, id="by-hand"),
        pytest.param(GOOD[:100], None, id="torn-before"),
        pytest.param(b"", None, id="empty"),
        pytest.param(b'{"pod":{"uid":"../x"}}', None, id="no-uid"),
        pytest.param(b'{"pod":{"uid":"\xff"}}', None, id="no-text"),
    ],
)
def test_pod_of_a_broken_record_is_found_in_its_bytes(data: bytes, uid: str | None) -> None:
    assert salvage_pod_uid(data) == uid


def devices_of(*devices: object) -> bytes:
    """Return a record of a later version with these devices."""
    return json.dumps({"version": VERSION + 1, "devices": devices}).encode()


NIC = {"device": {"name": "nic"}}


@pytest.mark.parametrize(
    ("data", "devices"),
    [
        pytest.param(
            encode_attachment(ATTACHMENT), ((DEVICE.name, ""),), id="without-returned-ones"
        ),
        pytest.param(devices_of(), (), id="none"),
        pytest.param(devices_of({**NIC, "restored": False}), (("nic", ""),), id="unrestored"),
        pytest.param(devices_of({**NIC, "shareId": "5e0f"}), (("nic", "5e0f"),), id="share"),
        pytest.param(devices_of({**NIC, "shareId": 7}), (("nic", ""),), id="odd-share"),
        pytest.param(devices_of({**NIC, "restored": "yes"}), (("nic", ""),), id="odd-restored"),
        pytest.param(devices_of(NIC, {"device": "other"}), None, id="one-untold"),
        pytest.param(devices_of(NIC, "other"), None, id="one-odd"),
        pytest.param(b'{"devices":{}}', None, id="no-list"),
        pytest.param(b"{}", None, id="no-devices"),
        pytest.param(GOOD[:-1], None, id="torn"),
    ],
)
def test_devices_of_a_broken_record_are_found_only_if_complete(
    data: bytes, devices: tuple[tuple[str, str], ...] | None
) -> None:
    assert salvage_devices(data) == devices
