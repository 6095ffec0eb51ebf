"""The promises broken on purpose: two of them here, and the table in step with the program."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.prove.breaking import CHECKOUT, Outcome, line, parse, problem_of, prove
from tests.prove.breaks import BREAKS
from tests.prove.promise import Break

pytestmark = pytest.mark.process


REPRESENTATIVE = ("a cut list of pods", "a NIC below the node's uplink")
REPORT = """<testsuites><testsuite>
<testcase name="a"/>
<testcase name="b"><failure message="AssertionError: assert 1 == 2">…</failure></testcase>
<testcase name="c"><error message="collection failure">…</error></testcase>
<testcase name="d"><skipped message="no root">…</skipped></testcase>
</testsuite></testsuites>"""


def test_representative_break_of_each_kind_is_detected() -> None:
    chosen = [breakage for breakage in BREAKS if breakage.what.startswith(REPRESENTATIVE)]

    verdicts = list(prove(chosen))

    assert [verdict.problem for verdict in verdicts] == ["", ""]
    assert line(verdicts[0]) == (
        "| a NIC below the node's uplink can be claimed"
        " | safety: the ports of a bridge uplink are excluded down to the nic |"
    ) or line(verdicts[0]).startswith("| a cut list of pods is taken for the whole | session: ")


@pytest.mark.parametrize("breakage", BREAKS, ids=lambda breakage: breakage.what)
def test_every_break_names_unique_text_and_an_existing_test(
    breakage: Break,
) -> None:
    source = (CHECKOUT / breakage.file).read_text()
    path, _, name = breakage.test.partition("::")

    assert breakage.apply(source) != source
    compile(breakage.apply(source), breakage.file, "exec")
    assert f"def {name}(" in (CHECKOUT / path).read_text()


def test_breaks_use_defined_names_only(tmp_path: Path) -> None:
    for number, breakage in enumerate(BREAKS):
        source = (CHECKOUT / breakage.file).read_text()
        (tmp_path / f"{number}.py").write_text(breakage.apply(source))

    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821"]
    subprocess.run([*command, str(tmp_path)], check=True)


def test_moved_or_repeated_text_of_a_break_is_reported() -> None:
    moved = Break("x", "a.py", "pass", "fail", "tests/x.py::test_x")

    for source, count in (("", 0), ("pass; pass", 2)):
        with pytest.raises(ValueError, match=f"a.py: stands there {count} times, not once"):
            moved.apply(source)


def test_test_that_fails_on_unchanged_code_ends_the_proof(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("pass")
    (tmp_path / "test_a.py").write_text("def test_a():\n    assert False\n")

    with pytest.raises(ValueError, match="before anything is broken: assert False"):
        list(prove([Break("x", "a.py", "pass", "fail", "test_a.py::test_a")], tmp_path))


def test_only_a_failed_assertion_detects_a_break() -> None:
    found = parse(REPORT)

    assert found == Outcome(
        1, ("AssertionError: assert 1 == 2", "error: collection failure", "skipped: no root")
    )
    assert problem_of(found) == "no assertion: error: collection failure"
    assert problem_of(Outcome(0, ("assert 1 == 2", "Failed: DID NOT RAISE <class 'X'>"))) == ""
    assert problem_of(Outcome(3, ("KeyError: 'x'\nmore",))) == "no assertion: KeyError: 'x'"
    assert problem_of(Outcome(0, ("Failed: Timeout (>60.0s)",))).startswith("no assertion")
    assert problem_of(Outcome(3, ())) == "passes all the same"
    assert problem_of(Outcome(0, ())) == "no test ran"
