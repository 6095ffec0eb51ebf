"""Named formats of strings, with texts that Kubernetes accepts and refuses."""

import pytest

from dra_shim.cel.formats import FORMATS, validate

ACCEPTED = {
    "dns1123Label": ["a", "0", "a-b", "a" * 63],
    "dns1123Subdomain": ["a", "a.b-c.0", ".".join(["a" * 63] * 3)],
    "dns1035Label": ["a", "a-0"],
    "dns1123LabelPrefix": ["a", "a-", "0-b-"],
    "dns1123SubdomainPrefix": ["a.b-", "mysubdomain.prefix.-"],
    "dns1035LabelPrefix": ["a-", "a0-"],
    "qualifiedName": ["a", "A_b.c", "a.b/C", "a/b"],
    "labelValue": ["", "a", "A_b.c-d"],
    "portName": ["http", "a-1", "1a"],
    "uri": ["http://example.com/x", "/a"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567e89b12d3a456426614174000"],
    "byte": ["aGVsbG8=", "aGVsbA==", "aGVs", "aGVsaGVs"],
    "date": ["2026-11-27", "2024-02-29"],
    "datetime": [
        *("2026-11-27T10:00:00Z", "2026-11-27t10:00:00z"),
        *("2026-11-27T23:59:59.5+01:00", "2026-11-27T00:00:00-12:00"),
    ],
}
REFUSED = {
    "dns1123Label": ["", "A", "-a", "a-", "a.b", "a" * 64, "a\n"],
    "dns1123Subdomain": ["", "a..b", ".a", "A.b", ".".join(["a" * 50] * 5 + ["a"])],
    "dns1035Label": ["", "0a", "a-"],
    "dns1123LabelPrefix": ["", "-", "Ab-"],
    "dns1123SubdomainPrefix": ["-", ".a-"],
    "dns1035LabelPrefix": ["0-a", "-"],
    "qualifiedName": ["", "/a", "a/", "a/b/c", "A/b", "-a", "a" * 64],
    "labelValue": ["-a", "a/b", "a" * 64],
    "portName": ["", "1", "a--b", "-a", "a-", "A", "a" * 16],
    "uri": ["", "a b", "example.com"],
    "uuid": ["", "123e4567", "123e4567-e89b-12d3-a456-42661417400g"],
    "byte": ["", "a", "aGVsbG8", "aGVsbG8==", "===="],
    "date": ["", "2026-02-29", "26-11-27", "20261127", "2026-11-27T"],
    "datetime": [
        *("", "2026-11-27", "2026-11-27T24:00:00Z", "2026-11-27T10:60:00Z"),
        *("2026-11-27T10:00:00", "2026-02-30T10:00:00Z", "2026-11-27 10:00:00Z"),
    ],
}


def test_each_format_has_texts() -> None:
    assert ACCEPTED.keys() == REFUSED.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", ACCEPTED)
def test_text_of_the_format_has_no_failures(name: str) -> None:
    assert [text for text in ACCEPTED[name] if validate({"format": name}, text)] == []


@pytest.mark.parametrize("name", REFUSED)
def test_text_of_another_form_has_a_failure(name: str) -> None:
    assert [text for text in REFUSED[name] if not validate({"format": name}, text)] == []
