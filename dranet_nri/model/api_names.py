"""Name rules of Kubernetes. Each parser raises InvalidValueError with the rule."""

import re
from typing import Final

from dranet_nri.errors import InvalidValueError

MAX_LABEL: Final = 63
MAX_SUBDOMAIN: Final = 253
MAX_DRIVER: Final = 63  # DriverNameMaxLength, k8s.io/api/resource
MAX_IDENTIFIER: Final = 32  # DeviceMaxIDLength

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_LABEL_FORM: Final = re.compile(_LABEL)
_SUBDOMAIN_FORM: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_WORD_FORM: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_IDENTIFIER_FORM: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_label(text: str) -> str:
    """Return a DNS label (RFC 1123)."""
    if not _LABEL_FORM.fullmatch(text) or len(text) > MAX_LABEL:
        raise InvalidValueError(
            f"must be a DNS label: 1 to {MAX_LABEL} lower-case letters, digits and inner -"
        )
    return text


def parse_subdomain(text: str) -> str:
    """Return a DNS subdomain (RFC 1123): labels joined by dots, of any length each."""
    if not _SUBDOMAIN_FORM.fullmatch(text) or len(text) > MAX_SUBDOMAIN:
        raise InvalidValueError(
            "must be a DNS subdomain: lower-case letters, digits, inner - and ., "
            f"at most {MAX_SUBDOMAIN} characters"
        )
    return text


def parse_driver(text: str) -> str:
    """Return a driver name, a short DNS subdomain."""
    parse_subdomain(text)
    if len(text) > MAX_DRIVER:
        raise InvalidValueError(f"is {len(text)} characters long; at most {MAX_DRIVER} are allowed")
    return text


def parse_qualified(text: str) -> str:
    """Return a fully qualified attribute or capacity name, "domain/identifier"."""
    domain, slash, identifier = text.partition("/")
    if not slash:
        raise InvalidValueError('must have a domain in front, as in "dra.net/numaNode"')
    parse_driver(domain)
    if not _IDENTIFIER_FORM.fullmatch(identifier) or len(identifier) > MAX_IDENTIFIER:
        raise InvalidValueError(
            "must end in a C identifier after the /: "
            f"letters, digits and _, at most {MAX_IDENTIFIER} characters"
        )
    return text


def parse_attribute_name(text: str) -> str:
    """Return the name of an attribute or capacity; without a domain, the driver's is implied."""
    if "/" not in text:
        parse_qualified(f"driver/{text}")
        return text
    return parse_qualified(text)


def parse_taint_key(text: str) -> str:
    """Return the key of a taint: a label name, with or without a DNS subdomain in front."""
    domain, slash, name = text.rpartition("/")
    if slash:
        parse_subdomain(domain)
    parse_word(name)
    return text


def parse_extended_resource(text: str) -> str:
    """Return the name of an extended resource: a qualified name outside of Kubernetes' domains.

    Source: IsExtendedResourceName, k8s.io/kubernetes/pkg/apis/core/helper.
    """
    domain, slash, _ = text.partition("/")
    if not slash or domain.startswith("requests.") or domain.endswith("kubernetes.io"):
        raise InvalidValueError(
            "must be a name with a domain of your own, as in example.com/nic, without requests."
        )
    return parse_taint_key(text)


def parse_word(text: str) -> str:
    """Return a label name or value that is not empty."""
    if not _WORD_FORM.fullmatch(text) or len(text) > MAX_LABEL:
        raise InvalidValueError(
            f"must be 1 to {MAX_LABEL} letters, digits, -, _ and ., a letter or digit at both ends"
        )
    return text
