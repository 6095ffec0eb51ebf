"""Replacement of fields of a dataclass."""

import dataclasses
from dataclasses import dataclass, field

import pytest

from dranet_nri.component.replace import replace
from dranet_nri.model import Link


@dataclass(frozen=True, slots=True)
class One:
    only: str


@dataclass
class Derived:
    first: int
    second: int = 2
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = self.first + self.second


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        (One("a"), {"only": "bc"}),
        (One("a"), {}),
        (Derived(1), {"second": 5}),
        (Link(index=1, name="eth0", mtu=1500), {"name": "eth1", "index": 7}),
    ],
)
def test_replaces_as_the_standard_library_does(value: Link, changes: dict[str, object]) -> None:
    before = repr(value)

    changed = replace(value, **changes)  # type: ignore[arg-type]

    assert changed == dataclasses.replace(value, **changes)  # type: ignore[arg-type]
    assert repr(value) == before


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(TypeError, match="colour"):
        replace(One("a"), colour="red")  # type: ignore[call-arg]
