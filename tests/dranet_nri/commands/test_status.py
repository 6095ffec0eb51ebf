"""`dranet-nri status`: state of the plugin besides the table of devices."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dranet_nri.cli import main
from dranet_nri.model import Phase
from dranet_nri.state.heartbeat import HungCall
from dranet_nri.state.store import AllocationStore, AttachmentStore
from tests.dranet_nri.state.examples import ATTACHMENT
from tests.dranet_nri.telemetry.heartbeat_bench import ago, beat

pytestmark = pytest.mark.process


HEADER = "DEVICE  STATE  POD  CLAIM  IN POD AS  REASON"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a plugin's directory that it has not written into yet."""
    directory = tmp_path / "run"
    directory.mkdir()
    return directory


def shown(run: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    """Run the command; return its status and what it printed."""
    places = ("--run-dir", str(run), "--allocations-dir", str(run.parent / "allocations"))
    code = main(["status", *places, *flags])
    return code, capsys.readouterr().out


def test_healthy_plugin_adds_no_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    beat(run)

    assert shown(run, capsys) == (0, f"{HEADER}\n")


def test_plugin_that_never_ran_is_reported_in_one_line(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = shown(run, capsys)

    assert code == 1
    assert text.splitlines() == [
        HEADER,
        f"the plugin: no heartbeat in {run}: not started, or it cannot write there",
    ]


@pytest.mark.parametrize(
    ("changed", "output"),
    [
        (
            {"beat_s": 40.0},
            "no heartbeat for 40 s, at most 30 s: the plugin ended, hangs, or cannot write it",
        ),
        ({"round_began_s": 700.0}, "a reconcile round has run for 700 s"),
    ],
    ids=["silent", "hangs"],
)
def test_stale_plugin_fails_the_command(
    run: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, float], output: str
) -> None:
    beat(run, **{name: ago(seconds) for name, seconds in changed.items()})

    assert shown(run, capsys) == (1, f"{HEADER}\nthe plugin: {output}\n")


def test_disconnected_plugin_fails_the_command(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(run, serving=False, error="nri.sock: No such file")

    assert shown(run, capsys) == (
        1,
        f"{HEADER}\nthe plugin: not served by the runtime: nri.sock: No such file\n",
    )


def test_hung_thread_is_reported_and_does_not_fail_the_command(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(run, hung=(HungCall(ago(312), "default/nics", "move link eth1"),))

    code, text = shown(run, capsys)

    assert code == 0
    assert text.splitlines()[-1].startswith("the plugin: hung in the kernel for 312 s: move link")


def test_json_output_has_the_state_of_the_plugin(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(run)
    well, text = shown(run, capsys, "--output", "json")
    beat(run, serving=False, error="refused")
    waiting, other = shown(run, capsys, "--output", "json")
    (run / "heartbeat.json").write_text("{")
    dead, third = shown(run, capsys, "--output", "json")

    assert (well, waiting, dead) == (0, 1, 1)
    at_work = {"alive": True, "connected": True, "problems": [], "remarks": []}
    nothing: dict[str, object] = {"devices": [], "warnings": {}, "corrupt": {}, "quarantined": {}}
    assert json.loads(text) == nothing | {"plugin": at_work}
    trouble = "not served by the runtime: refused"
    alone = {"alive": True, "connected": False, "problems": [trouble], "remarks": []}
    assert json.loads(other)["plugin"] == alone
    assert [json.loads(third)["plugin"][key] for key in ("alive", "connected")] == [False, False]


def damage(run: Path, *records: str) -> Path:
    """Tear a claim's records; return the directory of the allocations."""
    for directory in ("allocations", "run/attachments"):
        (run.parent / directory).mkdir(exist_ok=True)
    for record in records:
        (run.parent / record).write_text("{torn")
    return run.parent / "allocations"


def test_corrupt_record_fails_the_command_and_is_reported_with_file_and_remedy(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(run)
    allocations = damage(run, "allocations/u7.json")

    code, text = shown(run, capsys)

    assert code == 1
    (line,) = text.splitlines()[1:]
    assert line.startswith("record of claim u7 cannot be used: $: 5 bytes, not JSON")
    assert f"({allocations}/u7.json); delete its pod, or run dra-shim release" in line


def test_quarantined_record_is_reported_and_does_not_fail_the_command(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(run)
    allocations = damage(run, "allocations/u7.json")
    with AllocationStore(allocations):
        pass

    code, text = shown(run, capsys)
    coded, document = shown(run, capsys, "--output", "json")

    assert (code, coded) == (0, 0)
    (line,) = text.splitlines()[1:]
    assert line.startswith("record of claim u7 was quarantined: ")
    assert f"bytes kept in {allocations}/quarantine/u7.json.1; remove it when" in line
    assert json.loads(document)["corrupt"] == {}
    assert json.loads(document)["quarantined"].keys() == {"u7"}

    (allocations / "quarantine/u7.json.1").unlink()
    assert shown(run, capsys) == (0, f"{HEADER}\n")


def test_both_corrupt_records_of_a_claim_are_reported(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(run)
    damage(run, "allocations/u7.json", "run/attachments/u7.json")

    _, text = shown(run, capsys)
    _, document = shown(run, capsys, "--output", "json")

    for report in (text, json.loads(document)["corrupt"]["u7"]):
        assert "allocations/u7.json" in report
        assert "attachments/u7.json" in report


def test_device_not_returned_to_the_host_is_reported_with_the_search_command(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(run)
    detaching = replace(ATTACHMENT, phase=Phase.DETACHING, failure=None)
    with AttachmentStore(run / "attachments") as store:
        store.put(detaching)

    _, text = shown(run, capsys, "--output", "json")

    reasons = {row["state"]: row["reason"] for row in json.loads(text)["devices"]}
    assert reasons["restored"] == ""
    assert f"(the pod's was {detaching.netns.inode}): lsns --type net" in reasons["detaching"]
