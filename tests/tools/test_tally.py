"""The last lines of hack/test: they name the failures, because CI keeps only the end of a log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process


SCRIPT = Path(__file__).parents[2] / "hack/box/tally.py"

WELL = '<testcase classname="tests.a" name="test_well" time="1"/>'
UNWELL = """<testcase classname="tests.a" name="test_unwell" time="2">
<failure message="AssertionError: the NIC is away&#10;second line">traceback</failure></testcase>"""
LATE = """<testcase classname="tests.a" name="test_late" time="2">
<error message="failed on teardown">traceback</error></testcase>"""
LEFT_OUT = """<testcase classname="tests.a" name="test_left_out" time="0">
<skipped message="no KVM here"/></testcase>"""


def report(directory: Path, tier: str, *cases: str) -> None:
    """Write what pytest writes of a tier with these cases."""
    numbers = {
        "tests": len(cases),
        "failures": sum("<failure" in case for case in cases),
        "errors": sum("<error" in case for case in cases),
        "skipped": sum("<skipped" in case for case in cases),
    }
    attributes = " ".join(f'{name}="{number}"' for name, number in numbers.items())
    (directory / f"{tier}.xml").write_text(
        f'<testsuites><testsuite time="3" {attributes}>{"".join(cases)}</testsuite></testsuites>'
    )


def tally(directory: Path, *options: str | Path, ci: str = "true") -> tuple[int, list[str]]:
    """Return the exit status of the script and the lines that it printed."""
    command = (sys.executable, SCRIPT, *options, directory)
    ran = subprocess.run(command, env={"CI": ci}, capture_output=True, text=True)
    return ran.returncode, (ran.stdout + ran.stderr).splitlines()


def budgets(directory: Path, table: str) -> tuple[str | Path, ...]:
    """Write a table of budgets; return the options that name it."""
    file = directory / "budgets.toml"
    file.write_text(table)
    return "--budgets", file


def test_summary_of_a_passed_run_is_the_last_line(tmp_path: Path) -> None:
    report(tmp_path, "pure", WELL)
    report(tmp_path, "vm", WELL, WELL)
    status, lines = tally(tmp_path)
    assert status == 0
    assert lines[-1] == "3 passed, 0 failed, 0 skipped"


def test_failures_are_listed_with_reasons_at_the_end(tmp_path: Path) -> None:
    report(tmp_path, "host", WELL, UNWELL, LATE)
    (tmp_path / "host.status").write_text("1\n")
    status, lines = tally(tmp_path)
    assert status == 1
    assert lines[-3:] == [
        "failure host: tests.a::test_unwell: AssertionError: the NIC is away",
        "error host: tests.a::test_late: failed on teardown",
        "1 passed, 2 failed, 0 skipped",
    ]


@pytest.mark.parametrize("reported", [True, False])
def test_failed_tier_without_a_failed_test_is_a_failure(tmp_path: Path, *, reported: bool) -> None:
    report(tmp_path, "pure", WELL)
    if reported:
        report(tmp_path, "vm", WELL)
    (tmp_path / "vm.status").write_text("124\n")
    status, lines = tally(tmp_path)
    assert status == 1
    assert lines[-2] == "broken vm: exit status 124, and no test of it failed"
    assert lines[-1].endswith(" passed, 1 failed, 0 skipped")


@pytest.mark.parametrize(("ci", "expected"), [("true", 1), ("", 0)])
def test_skipped_test_fails_only_in_ci(tmp_path: Path, ci: str, expected: int) -> None:
    report(tmp_path, "kernel", WELL, LEFT_OUT)
    status, lines = tally(tmp_path, ci=ci)
    assert status == expected
    assert "skipped kernel: tests.a::test_left_out: no KVM here" in lines


def test_run_without_tests_is_a_failure(tmp_path: Path) -> None:
    status, lines = tally(tmp_path)
    assert status == 1
    assert lines[-1] == "error: no test ran"


def test_table_shows_cost_and_budget_of_each_tier(tmp_path: Path) -> None:
    report(tmp_path, "pure", WELL, WELL)
    (tmp_path / "pure.cost").write_text("61.4 120.2\n")
    (tmp_path / "check.cost").write_text("30.0 40.0\n")
    table = budgets(tmp_path, "pure = 100\ncheck = 40\nemulated = 900\n")

    status, lines = tally(tmp_path, *table)

    assert status == 0
    assert lines[:4] == [
        "   wall     CPU  budget",
        "   30 s    40 s    40 s  check",
        "   61 s   120 s   100 s  pure, 2 tests",
        "not run: emulated",
    ]


@pytest.mark.parametrize(
    ("cpu", "failed"), [("149.9", False), ("150.1", True)], ids=["within", "above"]
)
def test_tier_above_one_and_a_half_times_its_budget_fails(
    tmp_path: Path, cpu: str, *, failed: bool
) -> None:
    report(tmp_path, "pure", WELL)
    (tmp_path / "pure.cost").write_text(f"9999.0 {cpu}\n")

    status, lines = tally(tmp_path, *budgets(tmp_path, "pure = 100\n"))

    line = (
        "over budget pure: 150 s of CPU, more than 1.5 times its budget of 100 s "
        "(this machine is 1.00 times slower)"
    )
    assert (line in lines) is failed
    assert lines[-1] == f"1 passed, {int(failed)} failed, 0 skipped"
    assert status == int(failed)


@pytest.mark.parametrize(
    ("cpu", "failed"), [("299.9", False), ("300.1", True)], ids=["within", "above"]
)
def test_budgets_are_scaled_by_the_median_speed_of_the_tiers(
    tmp_path: Path, cpu: str, *, failed: bool
) -> None:
    report(tmp_path, "pure", WELL)
    for tier, cost in (("a", "100"), ("b", "200"), ("c", "200"), ("d", "210"), ("pure", cpu)):
        (tmp_path / f"{tier}.cost").write_text(f"1.0 {cost}\n")
    table = "".join(f"{tier} = 100\n" for tier in ("a", "b", "c", "d", "pure"))

    status, lines = tally(tmp_path, *budgets(tmp_path, table))

    line = (
        "over budget pure: 300 s of CPU, more than 1.5 times its budget of 100 s "
        "(this machine is 2.00 times slower)"
    )
    assert (line in lines) is failed
    assert status == int(failed)


def test_tier_without_a_budget_fails(tmp_path: Path) -> None:
    report(tmp_path, "pure", WELL)
    (tmp_path / "pure.cost").write_text("1.0 1.0\n")

    status, lines = tally(tmp_path, *budgets(tmp_path, "check = 100\n"))

    assert status == 1
    assert lines[-2] == "over budget pure: the table has no budget for it"


def test_no_tier_fails_for_cost_without_a_budget_table(tmp_path: Path) -> None:
    report(tmp_path, "pure", WELL)
    (tmp_path / "pure.cost").write_text("1.0 99999.0\n")

    assert tally(tmp_path)[0] == 0
