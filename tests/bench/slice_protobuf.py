"""ResourceSlices in Kubernetes' protobuf encoding, as clients of client-go send them.

Only what a slice of a node driver has. An unknown field is an error: a slice that lost one would
be published again and again.

Source: k8s.io/api/resource/v1/generated.proto and k8s.io/apimachinery/pkg/apis/meta/v1.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

MAGIC: Final = b"k8s\0"  # before a runtime.Unknown
RAW: Final = 2  # the field of runtime.Unknown with the object
_VARINT, _FIXED64, _BYTES = 0, 1, 2  # wire types
_INT64_SIGN: Final = 1 << 63

Schema = Mapping[int, tuple[str, Any]]  # field → name and kind: a type, a message, or [repeated]


class MapOf:
    """A map from text to messages of a schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema


_OWNER: Final[Schema] = {
    1: ("kind", str), 3: ("name", str), 4: ("uid", str), 5: ("apiVersion", str),
    6: ("controller", bool), 7: ("blockOwnerDeletion", bool),
}  # fmt: skip
_METADATA: Final[Schema] = {
    1: ("name", str), 2: ("generateName", str), 3: ("namespace", str), 4: ("selfLink", str),
    5: ("uid", str), 6: ("resourceVersion", str), 7: ("generation", int),
    8: ("creationTimestamp", bytes), 13: ("ownerReferences", [_OWNER]),
    17: ("managedFields", bytes),
}  # fmt: skip
_ATTRIBUTE: Final[Schema] = {
    2: ("int", int), 3: ("bool", bool), 4: ("string", str), 5: ("version", str),
    6: ("ints", [int]), 8: ("strings", [str]),
}  # fmt: skip
_QUANTITY: Final[Schema] = {1: ("string", str)}
_DEVICE: Final[Schema] = {
    1: ("name", str), 2: ("attributes", MapOf(_ATTRIBUTE)),
    3: ("capacity", MapOf({1: ("value", _QUANTITY)})),
}  # fmt: skip
_POOL: Final[Schema] = {1: ("name", str), 2: ("generation", int), 3: ("resourceSliceCount", int)}
_SPEC: Final[Schema] = {
    1: ("driver", str), 2: ("pool", _POOL), 3: ("nodeName", str), 6: ("devices", [_DEVICE]),
}  # fmt: skip
_SLICE: Final[Schema] = {1: ("metadata", _METADATA), 2: ("spec", _SPEC)}


def decode_slice(data: bytes) -> dict[str, Any]:
    """Return the document of a slice; times and managed fields are left out.

    Raises:
        ValueError: the data is no protobuf of Kubernetes, or has a field that is not known here.
    """
    if not data.startswith(MAGIC):
        raise ValueError(f"no protobuf of Kubernetes: {data[:8]!r}")
    raw = dict(_fields(data[len(MAGIC) :]))[RAW]
    document = _message(raw, _SLICE)
    for name in ("creationTimestamp", "managedFields"):
        document["metadata"].pop(name, None)
    return document


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield number, value
        elif kind == _BYTES:
            length, position = _varint(data, position)
            yield number, data[position : position + length]
            position += length
        else:
            raise ValueError(f"field {number} has wire type {kind}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def _message(data: bytes, schema: Schema) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for number, value in _fields(data):
        if number not in schema:
            raise ValueError(
                f"field {number} is not one of {[name for name, _ in schema.values()]}"
            )
        name, kind = schema[number]
        if isinstance(kind, MapOf):
            entry = _message(value, {1: ("key", str), 2: ("value", kind.schema)})
            document.setdefault(name, {})[entry["key"]] = entry.get("value", {})
        elif isinstance(kind, list):
            document.setdefault(name, []).append(_value(value, kind[0]))
        else:
            document[name] = _value(value, kind)
    return document


def _value(value: Any, kind: Any) -> Any:
    if kind is _QUANTITY:
        return _message(value, _QUANTITY).get("string", "0")
    if isinstance(kind, Mapping):
        return _message(value, kind)
    if kind is str:
        return value.decode()
    if kind is int and value >= _INT64_SIGN:
        return value - 2 * _INT64_SIGN
    return kind(value)
