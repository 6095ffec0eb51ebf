"""State records as bytes: one versioned JSON object per claim, decoded as untrusted input.

Rules:
1. Versions VERSION and VERSION - 1 are read; newer records are refused.
2. `decode_*` accepts everything that `encode_*` returns, and returns an equal value.
3. A change of the model's fields or defaults changes the format: increment VERSION, and add the
   conversion from the previous version to UPGRADES.
4. An attach that starts can be completed: the size limit of an intent reserves room for the result,
   and those of both reserve room for a failure.
"""

import json
import re
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar, cast

from dranet_nri.component.replace import replace
from dranet_nri.errors import InvalidValueError, StateCorruptError, StateVersionError
from dranet_nri.model import Allocation, Attachment, Phase, parse_uid
from dranet_nri.state.json_codec import Codec, CodecError, DuplicateKey, codec_of, json_object
from dranet_nri.state.validation import RULES

R = TypeVar("R", Allocation, Attachment)
Json = dict[str, object]

VERSION: Final = 6
MAX_ALLOCATION: Final = 64 << 10  # bytes; hooks wait for their decoding
MAX_RECORD: Final = 256 << 10  # 32 NICs with a ConnectX's features: 120 KB; 512 IPv6 routes: 80
# A result adds 0.5 KB per device and the claim's addresses, a failure 2000 characters.
_MAX_SIZES: Final = {Phase.INTENT: MAX_RECORD * 6 // 8, Phase.ATTACHED: MAX_RECORD * 7 // 8}

_CODECS: Final[dict[type, Codec]] = {
    kind: codec_of(kind, RULES) for kind in (Allocation, Attachment)
}
_NAMES_SINCE_6: Final = {"home": "restored", "madeBy": "childConfig"}
_JSON: Final = json.JSONEncoder(separators=(",", ":"))
_POD_UID: Final = re.compile(rb'"pod"\s*:\s*\{[^{}]*?"uid"\s*:\s*"([^"\\]*)"')


def encode_allocation(allocation: Allocation) -> bytes:
    """Return the record of an allocation, at most MAX_ALLOCATION bytes.

    Raises:
        InvalidValueError: a value breaks the rules of records; the text names its JSON path.
    """
    data = _encode(allocation)
    if len(data) > MAX_ALLOCATION:
        raise InvalidValueError(
            f"$: {len(data)} bytes, the record of an allocation has at most {MAX_ALLOCATION}; "
            "claim fewer devices or configure fewer routes"
        )
    return data


def decode_allocation(data: bytes) -> Allocation:
    """Return the allocation in a record.

    Raises:
        StateCorruptError: the bytes are not a valid record; the text has the JSON path.
        StateVersionError: another version of this program wrote it.
    """
    return _decode(Allocation, data, MAX_ALLOCATION)


def encode_attachment(attachment: Attachment) -> bytes:
    """Return the record of an attachment, at most MAX_RECORD bytes.

    Raises:
        InvalidValueError: a value breaks the rules of records; the text names its JSON path.
    """
    data = _encode(attachment)
    phase = attachment.phase
    if phase is Phase.INTENT and any(device.was_attached for device in attachment.devices):
        phase = Phase.ATTACHED  # the intent has the results of the previous attach
    max_size = _MAX_SIZES.get(phase, MAX_RECORD)
    size = len(data)
    if max_size < size <= MAX_RECORD and attachment.failure is not None:  # its room is reserved
        size = len(_encode(replace(attachment, failure=None)))
    if size > max_size:
        raise InvalidValueError(
            f"$: {size} bytes, the record of an attachment of phase {attachment.phase} has at most"
            f" {max_size}; claim fewer devices, or give them fewer routes on the host"
        )
    return data


def decode_attachment(data: bytes) -> Attachment:
    """Return the attachment in a record.

    Raises:
        StateCorruptError: the bytes are not a valid record; the text has the JSON path.
        StateVersionError: another version of this program wrote it.
    """
    return _decode(Attachment, data, MAX_RECORD)


def salvage_pod_uid(data: bytes) -> str | None:
    """Return the pod's UID from the bytes of an unusable record, None if not found.

    It is only used to refuse that pod, so that a forged UID has no benefit.
    """
    found = _POD_UID.search(data)
    try:
        return parse_uid(found[1].decode()) if found else None
    except (UnicodeDecodeError, InvalidValueError):
        return None


def salvage_devices(data: bytes) -> tuple[tuple[str, str], ...] | None:
    """Return the devices in the bytes of an unusable record, except those marked restored.

    It is only used to withhold these devices: a misread format refuses a pod, and does not release
    a device that is not restored.

    Returns:
        Name and share id ("": exclusive) of each device; None if one is unknown.
    """
    try:
        devices = _parse(data).get("devices")
    except StateCorruptError:
        return None
    if not isinstance(devices, list):
        return None
    found: list[tuple[str, str]] = []
    for device in devices:
        match device:
            case {"restored": True}:
                continue
            case {"device": {"name": str(name)}, "shareId": str(share_id)}:
                found.append((name, share_id))
            case {"device": {"name": str(name)}}:
                found.append((name, ""))
            case _:
                return None
    return tuple(found)


def _encode(value: Allocation | Attachment) -> bytes:
    body = cast("Json", _CODECS[type(value)].to_json(value))
    record = {"version": VERSION, "kind": type(value).__name__, **body}
    return _JSON.encode(record).encode()


def _decode(kind: type[R], data: bytes, max_size: int) -> R:
    if len(data) > max_size:
        raise StateCorruptError(f"$: {len(data)} bytes, such a record has at most {max_size}")
    record = _current(_parse(data))
    if record.pop("kind", None) != kind.__name__:
        raise StateCorruptError(f"$.kind: must be {kind.__name__!r}")
    try:
        return cast("R", _CODECS[kind].from_json(record))
    except CodecError as error:
        raise StateCorruptError(str(error)) from None


def _parse(data: bytes) -> Json:
    try:
        value = json.loads(
            data.decode(), object_pairs_hook=json_object, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as cause:
        raise StateCorruptError(f"$: {len(data)} bytes, not JSON: {cause}") from None
    match value:
        case DuplicateKey(key):
            raise StateCorruptError(f"$: the key {key!r} is repeated")
        case dict():
            return value
        case _:
            raise StateCorruptError("$: must be an object")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _from_5(record: Json) -> Json:
    """Rename a phase and two fields of devices; altnames of the pod are new, and optional."""
    if record.get("phase") == "home":
        record["phase"] = "restored"
    devices = record.get("devices")
    if isinstance(devices, list):
        record["devices"] = [_renamed(device) for device in devices]
    return record


def _renamed(device: object) -> object:
    if not isinstance(device, dict):
        return device
    return {_NAMES_SINCE_6.get(name, name): value for name, value in device.items()}


# Records of version v (the key) become records of version v + 1. None was written before 1.
UPGRADES: Final[dict[int, Callable[[Json], Json]]] = {5: _from_5}


def _current(record: Json) -> Json:
    """Remove the version, and convert an older record to the current format."""
    version = record.pop("version", None)
    if type(version) is not int:
        raise StateCorruptError("$.version: must be an integer")
    if version == VERSION:
        return record
    if version > VERSION:
        raise StateVersionError(
            f"$.version: {version}, this program reads up to {VERSION}; "
            "upgrade it, or remove the claim with the version that wrote it"
        )
    upgrade = UPGRADES.get(version)
    if upgrade is None:
        raise StateVersionError(
            f"$.version: {version} is too old, this program writes {VERSION}; "
            "upgrade one version at a time, or remove the claim with the version that wrote it"
        )
    return upgrade(record)
