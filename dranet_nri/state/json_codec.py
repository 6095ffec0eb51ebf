"""JSON codec for frozen dataclasses, exact in both directions.

Rules:
1. Strict both ways: every value that `to_json` accepts, `from_json` accepts and returns equal.
2. A field with its default value is omitted. So a changed default is a changed record format.
3. The JSON of large values is cached: a claim's record is written four times and changes little.
   The key is the identity of the value, which is safe because values are immutable.
4. A `CodecError` has the path of its value; each enclosing container adds its step.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import partial
from types import NoneType, UnionType
from typing import Final, TypeVar, get_args, get_origin, get_type_hints

from dranet_nri.errors import InvalidValueError
from dranet_nri.model import (
    AttachedDevice,
    AttributeValue,
    Device,
    LinkState,
    NetworkConfig,
    Version,
)

T = TypeVar("T")
Rule = Callable[..., object]  # takes the value, raises InvalidValueError if it is invalid
Rules = Mapping[type, Mapping[str, Rule]]

WHOLE: Final = ""  # the rules entry for the dataclass itself, after its fields
_CACHED_TYPES: Final = frozenset({AttachedDevice, Device, LinkState, NetworkConfig})
_MAX_CACHED: Final = 64  # values of each of these types; a pod has up to 32 NICs
_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 64) - 1  # nsfs device and inode numbers are unsigned 64-bit
_NAMES: Final[dict[type, str]] = {dict: "an object", list: "a list", NoneType: "null"}
_ATTRIBUTES: Final = tuple[tuple[str, AttributeValue], ...]


class CodecError(InvalidValueError):
    """A value is invalid for its place in the record.

    Attributes:
        rule: the error and the expected value.
        path: steps to the value, outermost first ("devices", "[0]", "config").
    """

    def __init__(self, rule: str) -> None:
        """Start at the innermost place."""
        super().__init__(rule)
        self.rule = rule
        self.path: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return "$.devices[0].config: rule"."""
        steps = "".join(step if step.startswith("[") else f".{step}" for step in self.path)
        return f"${steps}: {self.rule}"

    def under(self, step: str) -> "CodecError":
        """Return self with one more enclosing part."""
        self.path = (step, *self.path)
        return self


@dataclass(frozen=True, slots=True)
class DuplicateKey:
    """Placeholder for a JSON object with a duplicate key."""

    key: str


def json_object(pairs: Iterable[tuple[str, object]]) -> dict[str, object] | DuplicateKey:
    """Build one JSON object; for json.loads(object_pairs_hook=…)."""
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            return DuplicateKey(key)
        result[key] = value
    return result


@dataclass(frozen=True, slots=True)
class Codec:
    """One type's two directions. Both raise CodecError."""

    to_json: Callable[[object], object]
    from_json: Callable[[object], object]


def codec_of(hint: object, rules: Rules, rule: Rule | None = None) -> Codec:
    """Build the codec of a type annotation.

    Args:
        hint: str, int, bool, a StrEnum, a dataclass, `X | None`, `tuple[X, ...]`, or the
            attributes of a device.
        rules: checks per dataclass and field.
        rule: check of this field; of the items where the field is a tuple or optional.

    Raises:
        TypeError: records do not support the type.
    """
    if hint == _ATTRIBUTES:
        return Codec(_attributes_to_json, _attributes_from_json)
    if hint in _SCALARS:
        check = partial(_SCALARS[hint], rule)
        return Codec(check, check)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Codec(partial(_enum, hint), partial(_enum, hint))
    if isinstance(hint, type) and is_dataclass(hint):
        shape = _Shape(hint, rules)
        return Codec(shape.to_json, shape.from_json)
    arguments = get_args(hint)
    if get_origin(hint) is tuple and arguments[1:] == (...,):
        item = codec_of(arguments[0], rules, rule)
        return Codec(partial(_items_to_json, item), partial(_items_from_json, item))
    if get_origin(hint) is UnionType and len(arguments) == 2 and arguments[1] is NoneType:
        inner = codec_of(arguments[0], rules, rule)
        return Codec(partial(_optional, inner.to_json), partial(_optional, inner.from_json))
    raise TypeError(f"no record codec for {hint}")


# --------------------------------------------------------------------------- scalars


def _kind(value: object) -> str:
    if isinstance(value, DuplicateKey):
        return f"an object with the key {value.key!r} twice"
    return _NAMES.get(type(value), type(value).__name__)


def _expect(value: object, kind: type[T]) -> T:
    """Return value if it is exactly of this type: bool is not accepted as int."""
    if type(value) is not kind:
        raise CodecError(f"is {_kind(value)}, must be {_NAMES.get(kind, kind.__name__)}")
    return value


def kernel_text(_: object) -> None:
    """Rule for byte strings of the kernel: bytes that are not UTF-8 are surrogates (PEP 383)."""


def _text(rule: Rule | None, value: object) -> str:
    text = _expect(value, str)
    if "\0" in text:
        raise CodecError(f"{text!r}: must not contain NUL")
    try:
        text.encode(errors="surrogateescape" if rule is kernel_text else "strict")
    except UnicodeEncodeError:
        raise CodecError(f"{text!r}: must be Unicode without lone surrogates") from None
    _apply(rule, text)
    return text


def _number(rule: Rule | None, value: object) -> int:
    number = _expect(value, int)
    if not _INT_MIN <= number <= _INT_MAX:
        raise CodecError("must fit in 64 bits")
    _apply(rule, number)
    return number


def _flag(rule: Rule | None, value: object) -> bool:
    flag = _expect(value, bool)
    _apply(rule, flag)
    return flag


_SCALARS: Final[Mapping[object, Callable[[Rule | None, object], object]]] = {
    str: _text,
    int: _number,
    bool: _flag,
}


def _apply(rule: Rule | None, value: object) -> None:
    if rule is not None:
        try:
            rule(value)
        except InvalidValueError as cause:
            raise CodecError(str(cause)) from None


def _enum(kind: type[StrEnum], value: object) -> object:
    try:
        return kind(str(_expect(value, kind if isinstance(value, kind) else str)))
    except ValueError:
        allowed = ", ".join(kind)
        raise CodecError(f"{value!r}: must be one of {allowed}") from None


# --------------------------------------------------------------------------- containers


def _items_to_json(item: Codec, value: object) -> object:
    return [_at(f"[{i}]", item.to_json, v) for i, v in enumerate(_expect(value, tuple))]


def _items_from_json(item: Codec, raw: object) -> object:
    return tuple(_at(f"[{i}]", item.from_json, v) for i, v in enumerate(_expect(raw, list)))


def _optional(convert: Callable[[object], object], value: object) -> object:
    return None if value is None else convert(value)


def _at(step: str, convert: Callable[[object], object], value: object) -> object:
    try:
        return convert(value)
    except CodecError as error:
        raise error.under(step) from None


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


class _Slot:
    """One field of a dataclass, and its key in JSON."""

    __slots__ = ("codec", "default", "key", "name")

    def __init__(self, field: Field[object], codec: Codec) -> None:
        self.name = field.name
        self.key = _camel(field.name)
        self.default = field.default
        self.codec = codec


class _Shape:
    """The fields of one dataclass as a JSON object."""

    def __init__(self, kind: type, rules: Rules) -> None:
        hints = get_type_hints(kind)
        checks = rules.get(kind, {})
        self._kind = kind
        self._whole = checks.get(WHOLE)
        self._slots = tuple(
            _Slot(field, codec_of(hints[field.name], rules, checks.get(field.name)))
            for field in fields(kind)
        )
        self._keys = frozenset(slot.key for slot in self._slots)
        self._cached: dict[int, tuple[object, object]] = {}  # id of a value → the value, its JSON

    def to_json(self, value: object) -> object:
        """Return an object that is shared with later calls, so it must not be changed."""
        cached = self._cached.get(id(value))
        if cached is not None:
            return cached[1]
        result = self._new_json(value)
        if self._kind in _CACHED_TYPES:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()  # atomic: several threads write records
            self._cached[id(value)] = (value, result)  # the reference keeps the id valid
        return result

    def _new_json(self, value: object) -> object:
        _expect(value, self._kind)
        result: dict[str, object] = {}
        for slot in self._slots:
            item = getattr(value, slot.name)
            if item != slot.default:
                try:
                    result[slot.key] = slot.codec.to_json(item)
                except CodecError as error:
                    raise error.under(slot.key) from None
        _apply(self._whole, value)
        return result

    def from_json(self, raw: object) -> object:
        given: dict[str, object] = _expect(raw, dict)
        unknown = sorted(given.keys() - self._keys)
        if unknown:
            raise CodecError(f"unknown field {unknown[0]!r}")
        values: dict[str, object] = {}
        for slot in self._slots:
            if slot.key in given:
                values[slot.name] = _at(slot.key, slot.codec.from_json, given[slot.key])
            elif slot.default is MISSING:
                raise CodecError(f"field {slot.key!r} is missing")
        value: object = self._kind(**values)
        _apply(self._whole, value)
        return value


# --------------------------------------------------------------------------- attributes


def _attributes_to_json(value: object) -> object:
    """Write attributes as a ResourceSlice does: {name: {"string" | "int" | …: value}}."""
    pairs: tuple[tuple[str, AttributeValue], ...] = _expect(value, tuple)
    names = [name for name, _ in pairs]
    if names != sorted(set(names)):
        raise CodecError("must be sorted by name, each name once")
    return {_attribute_name(name): _at(name, _attribute_to_json, item) for name, item in pairs}


def _attributes_from_json(raw: object) -> object:
    given: dict[str, object] = _expect(raw, dict)
    return tuple(
        (_attribute_name(name), _at(name, _attribute_from_json, given[name]))
        for name in sorted(given)
    )


def _attribute_name(name: str) -> str:
    return _text(None, name)


def _attribute_to_json(value: object) -> object:
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": _number(None, value)}
        case str():
            return {"string": _text(None, value)}
        case Version(text):
            return {"version": _text(None, text)}
        case _:
            raise CodecError(f"is {_kind(value)}, must be bool, int, str or Version")


def _attribute_from_json(raw: object) -> object:
    given: dict[str, object] = _expect(raw, dict)
    match given:
        case {"bool": flag, **rest} if not rest:
            return _expect(flag, bool)
        case {"int": number, **rest} if not rest:
            return _number(None, number)
        case {"string": text, **rest} if not rest:
            return _text(None, text)
        case {"version": text, **rest} if not rest:
            return Version(_text(None, text))
        case _:
            raise CodecError('must be one of {"bool"}, {"int"}, {"string"}, {"version"}')
