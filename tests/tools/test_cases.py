"""The table of reported cases, and what is made of the outcomes of their tests."""

import re
from pathlib import Path

import pytest

from tests.prove.case_runs import observed, outcomes_of
from tests.prove.cases import CASES, Case

pytestmark = pytest.mark.process

CHECKOUT = Path(__file__).parents[2]
REPORT = """<testsuites><testsuite>
<testcase classname="tests.a.test_a" name="test_well[1]"/>
<testcase classname="tests.a.test_a" name="test_well[2]"/>
<testcase classname="tests.a.test_a" name="test_bad[1]"/>
<testcase classname="tests.a.test_a" name="test_bad"><failure message="assert 1 == 2"/></testcase>
<testcase classname="tests.a.test_b" name="test_skipped"><skipped message="no root"/></testcase>
</testsuite></testsuites>"""
WELL, BAD, SKIPPED = (
    "tests/a/test_a.py::test_well",
    "tests/a/test_a.py::test_bad",
    "tests/a/test_b.py",
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_tests_of_all_cases_exist(case: Case) -> None:
    assert case.tests
    for test in case.tests:
        path, _, name = test.partition("::")
        text = (CHECKOUT / path).read_text()
        assert re.search(rf"^(async )?def {name or 'test_'}", text, re.MULTILINE), test


@pytest.mark.parametrize(
    ("tests", "passed", "text"),
    [
        ((WELL,), True, "as expected, 2 tests"),
        ((WELL, BAD), False, f"{BAD}: failure: assert 1 == 2"),
        ((WELL, SKIPPED), False, f"{SKIPPED}: skipped: no root"),
        ((WELL, "tests/a/test_c.py"), False, "did not run: tests/a/test_c.py"),
    ],
)
def test_case_passes_if_all_its_tests_pass(
    tests: tuple[str, ...], *, passed: bool, text: str
) -> None:
    assert observed(Case("c", "x", tests), outcomes_of(REPORT)) == (passed, text)
