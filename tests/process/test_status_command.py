"""`dranet-nri status`: a table without rows is no health."""

import json
from pathlib import Path

import pytest

from dranet_nri.cli import main
from dranet_nri.heartbeat import Stuck
from tests.process.heartbeat_bench import ago, beat

HEADER = "DEVICE  STATE  POD  CLAIM  IN POD AS  REASON"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a plugin's directory that it has not written into yet."""
    directory = tmp_path / "run"
    directory.mkdir()
    return directory


def shown(run: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    """Run the verb; return its status and what it printed."""
    places = ("--run-dir", str(run), "--allocations-dir", str(run.parent / "allocations"))
    code = main(["status", *places, *flags])
    return code, capsys.readouterr().out


def test_a_plugin_that_is_well_is_not_talked_about(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(run)

    assert shown(run, capsys) == (0, f"{HEADER}\n")


def test_a_plugin_that_never_ran_is_said_in_one_line(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = shown(run, capsys)

    assert code == 1
    assert text.splitlines() == [
        HEADER,
        f"the plugin: no heartbeat in {run}: not started, or it cannot write there",
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"beat_s": 40.0}, "no heartbeat for 40 s, at most 30 s: it ended, hangs, or cannot write it"),
        ({"round_began_s": 700.0}, "a round of repairs has been at work for 700 s"),
    ],
    ids=["silent", "hangs"],
)
def test_a_plugin_that_is_not_at_work_fails_the_verb(
    run: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, float], said: str
) -> None:
    beat(run, **{name: ago(seconds) for name, seconds in changed.items()})

    assert shown(run, capsys) == (1, f"{HEADER}\nthe plugin: {said}\n")


def test_a_plugin_without_a_runtime_fails_the_verb(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(run, serving=False, trouble="nri.sock: No such file")

    assert shown(run, capsys) == (
        1,
        f"{HEADER}\nthe plugin: not connected to the runtime: nri.sock: No such file\n",
    )


def test_a_stuck_thread_is_said_and_fails_nothing(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(run, stuck=(Stuck(ago(312), "default/nics", "move link eth1"),))

    code, text = shown(run, capsys)

    assert code == 0
    assert text.splitlines()[-1].startswith("the plugin: stuck in the kernel for 312 s: move link")


def test_scripts_get_it_beside_what_they_had(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    beat(run)
    well, text = shown(run, capsys, "--output", "json")
    beat(run, serving=False, trouble="refused")
    waiting, other = shown(run, capsys, "--output", "json")
    (run / "heartbeat.json").write_text("{")
    dead, third = shown(run, capsys, "--output", "json")

    assert (well, waiting, dead) == (0, 1, 1)
    at_work = {"alive": True, "connected": True, "troubles": [], "remarks": []}
    assert json.loads(text) == {"devices": [], "warnings": {}, "broken": {}, "plugin": at_work}
    trouble = "not connected to the runtime: refused"
    alone = {"alive": True, "connected": False, "troubles": [trouble], "remarks": []}
    assert json.loads(other)["plugin"] == alone
    assert [json.loads(third)["plugin"][each] for each in ("alive", "connected")] == [False, False]


def test_a_record_that_cannot_be_used_is_said_as_ever(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(run)
    (run.parent / "allocations").mkdir()
    (run.parent / "allocations/u7.json").write_text("{")

    code, text = shown(run, capsys)

    assert code == 1
    assert "record of claim u7 cannot be used" in text
    assert "the plugin" not in text
