"""Named formats of strings in CEL: names, labels, URIs, UUIDs, base64, dates.

A value is a tagged map, {"format": name}. Formats and names are those of
k8s.io/apiserver/pkg/cel/library, and of the packages that it uses: apimachinery's validation, and
strfmt of kube-openapi. The texts of failures are not those of Kubernetes.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date
from functools import partial
from typing import Final

from dra_shim.cel.urls import is_url

Tagged = Mapping[str, str]
_Form = Callable[[str], bool]

_FORMAT: Final = "format"
_LABEL: Final = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME: Final = "(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_TIME: Final = re.compile(
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})"
)


def of_name(name: str) -> Tagged:
    """Return the format with this name."""
    return {_FORMAT: name}


def named(name: str) -> list[Tagged]:
    """Return the format with this name; an empty list if there is none."""
    return [of_name(name)] if name in FORMATS else []


def validate(value: Tagged, text: str) -> list[list[str]]:
    """Return an empty list if the text has the format; else a list with the failures."""
    name = value.get(_FORMAT, "")
    if name not in FORMATS:
        raise ValueError("the value is not a format")
    return [] if FORMATS[name](text) else [[f'"{text}" does not have the format {name}']]


def _form(pattern: str, most: int | None = None, flags: int = 0) -> _Form:
    """Return the check for a pattern and a number of characters."""
    compiled = re.compile(pattern, flags)
    return lambda text: (most is None or len(text) <= most) and bool(compiled.fullmatch(text))


def _prefix(form: _Form, text: str) -> bool:
    """Whether a text is valid before a generated suffix: it may end with a dash."""
    return form(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _is_qualified_name(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    return (not slash or _subdomain(prefix)) and _qualified(name)


def _is_date(text: str) -> bool:
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat() == text
    return False


def _is_datetime(text: str) -> bool:
    day, _, time = text.lower().partition("t")
    return _is_date(day) and bool(_TIME.fullmatch(time))


_label, _label_1035 = _form(_LABEL, 63), _form("[a-z](?:[-a-z0-9]*[a-z0-9])?", 63)
_subdomain, _qualified = _form(rf"{_LABEL}(?:\.{_LABEL})*", 253), _form(_NAME, 63)

FORMATS: Final[Mapping[str, _Form]] = {
    "dns1123Label": _label,
    "dns1123Subdomain": _subdomain,
    "dns1035Label": _label_1035,
    "dns1123LabelPrefix": partial(_prefix, _label),
    "dns1123SubdomainPrefix": partial(_prefix, _subdomain),
    "dns1035LabelPrefix": partial(_prefix, _label_1035),
    "qualifiedName": _is_qualified_name,
    "labelValue": _form(f"(?:{_NAME})?", 63),
    "portName": _form("(?=[^a-z]*[a-z])[a-z0-9]+(?:-[a-z0-9]+)*", 15),
    "uri": is_url,
    "uuid": _form("[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", flags=re.IGNORECASE | re.ASCII),
    "byte": _form("(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{2}(?:==|[A-Za-z0-9+/](?:=|[A-Za-z0-9+/]))"),
    "date": _is_date,
    "datetime": _is_datetime,
}
