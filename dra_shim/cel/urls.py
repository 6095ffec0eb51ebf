"""URLs in CEL, with the operations of Kubernetes.

A value is a tagged map, {"url": text}. The syntax is that of url.ParseRequestURI in Go: an absolute
URL or path. A ValueError becomes a failure of the expression.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs, quote, unquote

Tagged = Mapping[str, str]

_URL: Final = "url"
_FORM: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?"
    r"(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?"
)
_ESCAPE: Final = "%[0-9A-Fa-f]{2}"
_AUTHORITY: Final = re.compile(
    rf"(?:(?:[A-Za-z0-9\-._~!$&'()*+,;=:]|{_ESCAPE})*@)?"  # user and password
    rf"(?P<host>\[[^\]]+\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=<>\"]|[^\x00-\x7f]|{_ESCAPE})*)"
    r"(?P<port>:[0-9]*)?"
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_PATH: Final = re.compile(rf"(?:[^%]|{_ESCAPE})*")
_ENCODED: Final = re.compile(rf"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@\[\]/]|{_ESCAPE})*")
_UNESCAPED: Final = "$&+,/:;=@~"


def url(text: str) -> Tagged:
    """Return the URL of a text such as "https://example.com/x"."""
    _parsed(text)
    return {_URL: text}


def is_url(text: str) -> bool:
    """Return whether the text is a URL."""
    try:
        _parsed(text)
    except ValueError:
        return False
    return True


def scheme(value: Tagged) -> str:
    """Return the scheme in lower case, "" without one."""
    return (_of(value)["scheme"] or "").lower()


def host(value: Tagged) -> str:
    """Return the host with its port."""
    return (_of(value)["authority"] or "").rpartition("@")[2]


def hostname(value: Tagged) -> str:
    """Return the host without port and brackets."""
    found = _AUTHORITY.fullmatch(host(value))
    return found["host"].strip("[]") if found else ""


def port(value: Tagged) -> str:
    """Return the port, "" without one."""
    found = _AUTHORITY.fullmatch(host(value))
    return (found["port"] or "").lstrip(":") if found else ""


def escaped_path(value: Tagged) -> str:
    """Return the path in its escaped form."""
    path: str = _of(value)["path"]
    return path if _ENCODED.fullmatch(path) else quote(unquote(path), safe=_UNESCAPED)


def query(value: Tagged) -> Mapping[str, list[str]]:
    """Return the values of each name in the query."""
    return parse_qs(_of(value)["query"] or "", keep_blank_values=True)


def _of(value: Tagged) -> re.Match[str]:
    if _URL not in value:
        raise ValueError("the value is not of type url")
    return _parsed(value[_URL])


def _parsed(text: str) -> re.Match[str]:
    found = None if _CONTROL.search(text) else _FORM.fullmatch(text)
    if (
        found is None
        or not (found["scheme"] or text.startswith("/"))
        or not _AUTHORITY.fullmatch(found["authority"] or "")
        or not _PATH.fullmatch(found["path"])
    ):
        raise ValueError(f'"{text}" is not a URL such as https://example.com/x')
    return found
