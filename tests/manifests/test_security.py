"""SECURITY.md: every test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
BOUNDARIES = TEXT.partition("## Boundaries")[2].partition("\n## ")[0]


def defined_in(path: Path) -> set[str]:
    """Return the names of the test functions of a file."""
    return {
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize(("file", "name"), NAMED.findall(TEXT))
def test_tests_of_boundaries_exist(file: str, name: str) -> None:
    assert name in defined_in(ROOT / file)


def test_each_boundary_has_a_test() -> None:
    boundaries = re.split(r"^\d\. ", BOUNDARIES, flags=re.MULTILINE)[1:]

    assert [bool(NAMED.search(boundary)) for boundary in boundaries] == [True] * 5
