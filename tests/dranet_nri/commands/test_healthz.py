"""Probe results for a heartbeat that is fresh, stale, of another boot, or missing."""

import json
import re
from pathlib import Path

import pytest

from dranet_nri.cli import main
from dranet_nri.state import heartbeat
from dranet_nri.state.heartbeat import HungCall
from tests.dranet_nri.telemetry.heartbeat_bench import ago, beat

pytestmark = pytest.mark.process


def probed(run: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    """Run the command; return its status and its line."""
    status = main(["healthz", "--run-dir", str(run), *flags])
    return status, capsys.readouterr().out.rstrip("\n")


def test_healthy_plugin_passes_both_probes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(tmp_path)

    assert probed(tmp_path, capsys) == (0, "ok")
    assert probed(tmp_path, capsys, "--ready") == (0, "ok")


def test_stale_heartbeat_fails_with_its_age(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(tmp_path, beat_s=ago(40))

    status, output = probed(tmp_path, capsys)

    assert status == 1
    assert (
        output == "no heartbeat for 40 s, at most 30 s: the plugin ended, hangs, or cannot write it"
    )
    assert probed(tmp_path, capsys, "--max-age", "100") == (0, "ok")


def test_disconnected_plugin_is_alive_and_not_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(tmp_path, serving=False, error="/run/nri.sock: No such file")

    assert probed(tmp_path, capsys) == (0, "ok")
    assert probed(tmp_path, capsys, "--ready") == (
        1,
        "not served by the runtime: /run/nri.sock: No such file",
    )


def test_plugin_without_an_answer_from_the_runtime_is_not_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(tmp_path, serving=False)

    status, output = probed(tmp_path, capsys, "--ready")

    assert status == 1
    assert "not answered yet" in output


@pytest.mark.parametrize(
    ("changed", "output"),
    [
        ({"round_began_s": 700.0, "round_due_s": None}, "has run for 700 s"),
        ({"round_due_s": 700.0}, "a reconcile round is 700 s late"),
        ({"beat_s": -100.0}, "of another boot"),
    ],
    ids=["hangs", "late", "boot"],
)
def test_state_that_a_restart_can_repair_fails_the_liveness_probe(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changed: dict[str, float | None],
    output: str,
) -> None:
    beat(tmp_path, **{name: s if s is None else ago(s) for name, s in changed.items()})

    status, line = probed(tmp_path, capsys)

    assert status == 1
    assert output in line


def test_hung_thread_is_reported_and_passes_the_probe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(tmp_path, hung=(HungCall(ago(312), "default/nics", "move link eth1"),))

    status, output = probed(tmp_path, capsys, "--ready")

    assert status == 0
    reported = r"ok; hung in the kernel for 3\d\d s: move link eth1 \(claim default/nics\)"
    assert re.fullmatch(reported, output)


def test_hung_thread_without_a_claim_is_reported_without_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(tmp_path, hung=(HungCall(ago(312), "", "query TCX programs"),))

    status, output = probed(tmp_path, capsys)

    assert status == 0
    assert re.fullmatch(r"ok; hung in the kernel for 3\d\d s: query TCX programs", output)


def test_missing_heartbeat_is_reported_with_the_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, output = probed(tmp_path, capsys)

    assert status == 1
    assert output.startswith(f"no heartbeat in {tmp_path}: not started")


WELL = {"version": 1, "pid": 1, "beat_s": 1.5, "serving": True, "error": "", "hung": []}
NO_ROUND = {"round_began_s": None, "round_due_s": None}


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("", "not a heartbeat"),
        ("[]", "not a heartbeat"),
        ("{}", "not a heartbeat"),
        (json.dumps({**WELL, **NO_ROUND, "version": 2}), "version 2, this program reads 1"),
        (json.dumps(WELL), "not a heartbeat"),
        (json.dumps({**WELL, **NO_ROUND, "beat_s": "now"}), "beat_s: 'now'"),
        (json.dumps({**WELL, **NO_ROUND, "beat_s": float("nan")}), "NaN is not a time"),
        (json.dumps({**WELL, **NO_ROUND, "more": 1}), "not a heartbeat"),
        (json.dumps({**WELL, **NO_ROUND, "hung": [{"since_s": 1}]}), "not a heartbeat"),
    ],
)
def test_invalid_heartbeat_file_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, output: str
) -> None:
    (tmp_path / heartbeat.NAME).write_text(text)

    status, line = probed(tmp_path, capsys)

    assert status == 1
    assert output in line
    assert "\n" not in line


@pytest.mark.parametrize("age", ["0", "-1", "nan"])
def test_max_age_must_be_above_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], age: str
) -> None:
    assert main(["healthz", "--run-dir", str(tmp_path), f"--max-age={age}"]) == 1
    assert "must be above 0 seconds" in capsys.readouterr().err
