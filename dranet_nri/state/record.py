"""State records as bytes: one JSON object per claim, versioned, decoded like foreign input.

Rules:
1. Reading knows VERSION and the one before it; newer records are refused, never guessed at.
2. Whatever `encode_*` returns `decode_*` accepts, and gives back an equal value.
3. Any change of the model's fields or defaults changes the format: raise VERSION and say in
   UPGRADES how a record of the version before becomes one of this.
4. An attachment that can be begun can be ended: an intent leaves room for its result, and both for
   what may fail. One that is too long for its file is packed, see packed.py.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NoReturn, TypeVar, cast

from dranet_nri.errors import InvalidValueError, StateCorruptError, StateVersionError
from dranet_nri.model import Allocation, Attachment, Phase, parse_uid
from dranet_nri.state.codec import Codec, MisfitError, RepeatedKey, codec_of, json_object
from dranet_nri.state.packed import ENVELOPE, MAX_FILE, MAX_PACKED, pack, unpack
from dranet_nri.state.rules import RULES

R = TypeVar("R", Allocation, Attachment)
Json = dict[str, object]

VERSION: Final = 3
MAX_RECORD: Final = MAX_FILE
# Of the limits of an attachment, in eighths. A result adds 0.5 KB a device and the addresses that a
# claim gives, a failure 2000 characters: an eighth is 32 KiB, or 8 packed.
_ALL: Final = 8
_SHARE: Final = {Phase.INTENT: 6, Phase.ATTACHED: 7}

# Records of version v (the key) become records of version v + 1. None was written before 1.
# Version 3 knows which alternative of a request got a device, and what its share consumes of it; a
# record without them is one of both.
UPGRADES: Final[dict[int, Callable[[Json], Json]]] = {2: lambda record: record}

_CODECS: Final[dict[type, Codec]] = {
    kind: codec_of(kind, RULES) for kind in (Allocation, Attachment)
}
_JSON: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_POD_UID: Final = re.compile(rb'"pod"\s*:\s*\{[^{}]*?"uid"\s*:\s*"([^"\\]*)"')


def encode_allocation(allocation: Allocation) -> bytes:
    """Return the record of an allocation, at most MAX_RECORD bytes.

    Raises:
        InvalidValueError: a value breaks the rules of records; the text names its JSON path.
    """
    data = _encode(allocation)
    if len(data) > MAX_RECORD:
        raise InvalidValueError(
            f"$: {len(data)} bytes, a record has at most {MAX_RECORD}; "
            "claim fewer devices or configure fewer routes"
        )
    return data


def decode_allocation(data: bytes) -> Allocation:
    """Return the allocation that a record holds.

    Raises:
        StateCorruptError: it is no such record; the text names the JSON path.
        StateVersionError: another version of this program wrote it.
    """
    return _decode(Allocation, data)


def encode_attachment(attachment: Attachment) -> bytes:
    """Return the record of an attachment, at most MAX_RECORD bytes.

    Raises:
        InvalidValueError: a value breaks the rules of records; the text names its JSON path.
    """
    share = _SHARE.get(attachment.phase, _ALL)
    if share < _ALL and attachment.failure is not None:
        _attachment_within(replace(attachment, failure=None), share)
        share = _ALL
    return _attachment_within(attachment, share)


def decode_attachment(data: bytes) -> Attachment:
    """Return the attachment that a record holds.

    Raises:
        StateCorruptError: it is no such record; the text names the JSON path.
        StateVersionError: another version of this program wrote it.
    """
    return _decode(Attachment, data)


def salvage_pod_uid(data: bytes) -> str | None:
    """Return the pod's UID from bytes that are no usable record, None if it cannot be found.

    It only decides which pod hears of the broken record, so a forged one gains nothing.
    """
    found = _POD_UID.search(data)
    try:
        return parse_uid(found[1].decode()) if found else None
    except (UnicodeDecodeError, InvalidValueError):
        return None


def salvage_devices(data: bytes) -> tuple[tuple[str, str], ...] | None:
    """Return the devices that bytes which are no usable record name, but for those called home.

    It only decides what is given to nobody, so a format that it misunderstands costs a pod its
    device, and no device its way home.

    Returns:
        Name and share id ("": exclusive) of each; None if that cannot be told of every one.
    """
    try:
        devices = _parse(data).get("devices")
    except StateCorruptError:
        return None
    if not isinstance(devices, list):
        return None
    found: list[tuple[str, str]] = []
    for each in devices:
        match each:
            case {"home": True}:
                continue
            case {"device": {"name": str(name)}, "shareId": str(share_id)}:
                found.append((name, share_id))
            case {"device": {"name": str(name)}}:
                found.append((name, ""))
            case _:
                return None
    return tuple(found)


def _attachment_within(attachment: Attachment, share: int) -> bytes:
    data = _encode(attachment)
    if len(data) <= MAX_RECORD:
        return data
    packed = pack(attachment, data)
    most = MAX_PACKED * share // _ALL, MAX_RECORD * share // _ALL
    if len(data) > most[0] or len(packed) > most[1]:
        raise InvalidValueError(
            f"$: {len(data)} bytes, {len(packed)} packed; a record of phase {attachment.phase} has"
            f" at most {most[0]}, {most[1]} packed; claim fewer devices, or give them fewer routes"
            " on the host"
        )
    return packed


def _encode(value: Allocation | Attachment) -> bytes:
    body = cast("Json", _CODECS[type(value)].to_json(value))
    record = {"version": VERSION, "kind": type(value).__name__, **body}
    return _JSON.encode(record).encode()


def _decode(kind: type[R], data: bytes) -> R:
    if len(data) > MAX_RECORD:
        raise StateCorruptError(f"$: {len(data)} bytes, a record has at most {MAX_RECORD}")
    record = _parse(data)
    if kind is Attachment and record.get("version") == ENVELOPE and "packed" in record:
        record = _parse(unpack(record["packed"]))
    record = _current(record)
    if record.pop("kind", None) != kind.__name__:
        raise StateCorruptError(f"$.kind: must be {kind.__name__!r}")
    try:
        return cast("R", _CODECS[kind].from_json(record))
    except MisfitError as misfit:
        raise StateCorruptError(str(misfit)) from None


def _parse(data: bytes) -> Json:
    try:
        value = json.loads(
            data.decode(), object_pairs_hook=json_object, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as cause:
        raise StateCorruptError(f"$: {len(data)} bytes, not JSON: {cause}") from None
    match value:
        case RepeatedKey(key):
            raise StateCorruptError(f"$: the key {key!r} stands twice")
        case dict():
            return value
        case _:
            raise StateCorruptError("$: must be an object")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _current(record: Json) -> Json:
    """Take the version off and bring an older record up to date."""
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
