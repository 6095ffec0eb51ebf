"""`dra-shim release` and `validate` from the command line, and invalid command lines."""

import os
import subprocess
import sys
from errno import EACCES
from math import inf
from pathlib import Path

import pytest

from dra_shim.cli import main
from dra_shim.commands.documents import read_text
from dranet_nri.errors import ConfigError
from dranet_nri.state.store import AllocationStore
from tests.dra_shim.commands.shim_bench import CLAIM, CLASS, ENVIRONMENT, TEMPLATE, Shim, command
from tests.dranet_nri.state.directories import unreadable
from tests.dranet_nri.state.examples import allocation_of

pytestmark = pytest.mark.process


@pytest.fixture
def shim(tmp_path: Path) -> Shim:
    return Shim(tmp_path)


# --------------------------------------------------------------------------- release


@pytest.mark.parametrize(
    "selection", [("--claim", "default/fast"), ("--claim", "fast"), ("--pod", "p1"), ()]
)
def test_release_removes_an_allocation_by_name_pod_or_uid(
    shim: Shim, selection: tuple[str, ...]
) -> None:
    shim.allocate("--pod-name", "default/train")
    with shim.records() as reader:
        (record,) = reader.records()

    done = shim.release(*(selection or ("--claim-uid", record.claim.uid)))
    again = shim.release(*(selection or ("--claim-uid", record.claim.uid)))

    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "released claim default/fast of pod default/train: pci-0000-02-00-0, pci-0000-03-00-0\n",
        "",
    )
    assert again.returncode == 0
    assert again.stdout.startswith("nothing to release: ")
    with shim.records() as reader:
        assert reader.records() == ()


def test_a_released_claim_gets_a_new_nonce(shim: Shim) -> None:
    first = shim.allocate("--container", "main=fast")
    shim.release("--pod", "p1")
    second = shim.allocate("--container", "main=fast")

    assert first.stdout.split()[-1] != second.stdout.split()[-1]


@pytest.fixture
def allocations(shim: Shim) -> Path:
    """Return the directory of the records."""
    directory = shim.directory / "state/allocations"
    directory.mkdir(parents=True)
    return directory


def test_release_quarantines_a_newer_record_only_if_its_uid_is_given(
    shim: Shim, allocations: Path
) -> None:
    shim.allocate()
    (allocations / "u9.json").write_text('{"version": 99}')

    other = shim.release("--pod", "p1")
    left = (allocations / "u9.json").exists()
    named = shim.release("--claim-uid", "u9")

    assert other.returncode == 0
    assert left
    assert (
        "the record of claim u9 was not removed: it cannot be used: $.version: 99" in other.stderr
    )
    assert "run dra-shim release --claim-uid u9, which quarantines it" in other.stderr
    assert named.stdout.startswith("quarantined the record of claim u9: $.version: 99")
    assert "bytes kept in state/allocations/quarantine/u9.json.1; remove it" in named.stdout
    assert not (allocations / "u9.json").exists()


def test_release_quarantines_a_corrupt_record_once_and_then_reports_its_path(
    shim: Shim, allocations: Path
) -> None:
    (allocations / "u9.json").write_text("{torn")

    first, again = (shim.release("--claim-uid", "u9") for _ in range(2))
    other = shim.release("--pod", "p1")

    message = (
        "bytes kept in state/allocations/quarantine/u9.json.1; remove it when its pod has ended"
    )
    assert [result.returncode for result in (first, again, other)] == [0, 0, 0]
    assert first.stdout.startswith("quarantined the record of claim u9: $: 5 bytes, not JSON")
    assert again.stdout.startswith(
        "nothing to release: the record of claim u9 was quarantined: $: 5 bytes, not JSON"
    )
    assert message in first.stdout
    assert message in again.stdout
    assert (other.stdout, other.stderr) == ("nothing to release: pod p1 has no allocation\n", "")
    assert [path.name for path in (allocations / "quarantine").iterdir()] == ["u9.json.1"]


def test_release_reports_the_quarantine_of_another_claims_corrupt_record(
    shim: Shim, allocations: Path
) -> None:
    (allocations / "u9.json").write_text("{torn")

    done = shim.release("--pod", "p1")

    assert done.returncode == 0
    assert done.stderr.startswith("dra-shim: the record of claim u9 was quarantined: ")
    assert len(done.stderr.splitlines()) == 1
    assert not (allocations / "u9.json").exists()


def test_release_fails_if_a_corrupt_record_cannot_be_quarantined(
    shim: Shim, allocations: Path
) -> None:
    (allocations / "u9.json").write_text("{torn")
    (allocations / "quarantine").touch()

    done = shim.release("--claim-uid", "u9")
    other = shim.release("--pod", "p1")

    assert (done.returncode, done.stdout) == (1, "")
    assert "quarantine" in done.stderr
    assert "was not removed: it cannot be used: $: 5 bytes, not JSON" in other.stderr
    assert (allocations / "u9.json").read_text() == "{torn"


@pytest.mark.parametrize(
    ("times", "expected", "quarantined"),
    [
        (inf, "quarantined the record of claim u9: u9.json: cannot be read: Input/", True),
        (
            2,
            "removed the record of claim u9; the first attempt failed: u9.json: ",
            False,
        ),
    ],
    ids=["for-good", "while-it-is-opened"],
)
def test_release_reports_the_removal_of_an_unreadable_record(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    times: float,
    expected: str,
    *,
    quarantined: bool,
) -> None:
    directories = ["--state-dir", str(tmp_path), "--run-dir", str(tmp_path / "run")]
    record = allocation_of("u9", "p9")
    with AllocationStore(tmp_path / "allocations") as store:
        store.put(record)

    with unreadable():
        other = main(["release", "--pod", "p1", *directories])
    left_alone = capsys.readouterr().err
    with unreadable(times):
        named = main(["release", "--claim-uid", "u9", *directories])

    assert (other, named) == (0, 0)
    assert "u9 was not removed: it cannot be used: u9.json: cannot be read: Input/" in left_alone
    assert capsys.readouterr().out.startswith(expected)
    assert not (tmp_path / "allocations/u9.json").exists()
    message = tmp_path / "allocations/quarantine/u9.json.1"
    assert message.exists() is quarantined
    with unreadable():
        main(["release", "--pod", "p1", *directories])
    assert ("was quarantined: u9.json.1: cannot be read" in capsys.readouterr().err) is quarantined


# --------------------------------------------------------------------------- validate


def test_valid_documents_are_listed_with_exit_status_0(shim: Shim) -> None:
    pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    nameless = "---\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
    shim.write("all.yaml", f"{CLAIM}---{CLASS}---{TEMPLATE}{pod}{nameless}")

    done = shim.run("validate", "all.yaml", "-", stdin='{"interface": {"mtu": 9000}}')

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "all.yaml: ResourceClaim default/fast is valid",
        "all.yaml: DeviceClass dranet is valid",
        "all.yaml: ResourceClaimTemplate one is valid",
        "all.yaml: Pod p was not checked",
        "all.yaml: Kustomization was not checked",
        "standard input: NetworkConfig is valid",
    ]


def test_kustomization_and_directory_below_a_directory_are_no_manifests(shim: Shim) -> None:
    claims, overlay = shim.directory / "claims", shim.directory / "overlay"
    for directory, name in ((claims, "kustomization.yaml"), (overlay, "kustomization.yml")):
        directory.mkdir()
        (directory / name).write_text("resources: [claim.yaml]\nnamespace: ml\n")
    (claims / "claim.yaml").write_text(CLAIM)
    (claims / "old.yaml").mkdir()

    done = shim.run("validate", "claims")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "claims/claim.yaml: ResourceClaim default/fast is valid\n"
    done = shim.run("validate", "overlay")
    assert (done.returncode, done.stderr) == (
        1,
        "dra-shim: overlay: no manifest (.json, .yaml, .yml) is below it; check the path, and "
        "render a kustomization first, as by kubectl kustomize\n",
    )


def test_directory_that_cannot_be_read_is_an_error(
    shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shim.directory / "claims/hidden").mkdir(parents=True)
    (shim.directory / "claims/claim.yaml").write_text(CLAIM)
    scandir = os.scandir

    def refused(path: str) -> object:
        if path == "claims/hidden":
            raise PermissionError(EACCES, os.strerror(EACCES), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    done = shim.run("validate", "claims")

    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "dra-shim: claims/hidden: cannot be read: Permission denied; check the path\n",
    )


def test_closed_standard_input_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(ConfigError, match="is closed; name a file, or redirect it"):
        read_text("-")


def test_each_error_is_one_line_with_file_path_value_and_rule(shim: Shim) -> None:
    shim.write("bad.yaml", CLAIM.replace("mtu: 4000", "mtu: 4").replace("count: 2", "count: two"))
    shim.write("cel.yaml", CLASS.replace("driver ==", "driver +"))
    shim.write("empty.yaml", "---\n")

    done = shim.run("validate", "bad.yaml", "claim.yaml", "cel.yaml", "empty.yaml", "none.yaml")

    assert done.returncode == 1
    assert done.stdout == "claim.yaml: ResourceClaim default/fast is valid\n"
    assert done.stderr.splitlines() == [
        'bad.yaml: spec.devices.requests[0].exactly.count: "two": must be a whole number, without '
        "quotes or a fraction",
        "bad.yaml: spec.devices.config[0].opaque.parameters.interface.mtu: 4: must be 68 to "
        "2147483647",
        'cel.yaml: spec.selectors[0].cel.expression: "device.driver + "dra.net"": gives string; it '
        "must give true or false",
        "empty.yaml: document: holds nothing; check the path",
        "none.yaml: cannot be read: No such file or directory; check the path",
    ]  # fmt: skip


# --------------------------------------------------------------------------- usage


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("validate",),
        ("allocate", "--claim", "claim.yaml"),
        ("allocate", "--claim", "claim.yaml", "--pod", "../x"),
        ("allocate", "--claim", "claim.yaml", "--pod", "p1", "--container", "main"),
        ("allocate", "--claim", "claim.yaml", "--pod", "p1", "--pod-name", "A/b"),
        ("release",),
        ("release", "--pod", "p", "--claim", "c"),
        ("alocate",),
    ],
    ids=" ".join,
)
def test_invalid_command_line_exits_with_2_and_refers_to_the_help(
    shim: Shim, arguments: tuple[str, ...]
) -> None:
    done = shim.run(*arguments)

    assert done.returncode == 2
    error, hint = done.stderr.splitlines()
    assert error.startswith("dra-shim")
    assert hint.endswith("--help' shows the usage")


def test_help_lists_the_exit_statuses(tmp_path: Path) -> None:
    done = subprocess.run(
        command("--help"), cwd=tmp_path, env=ENVIRONMENT, capture_output=True,
        text=True, check=False, timeout=50,
    )  # fmt: skip

    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert "Exit status: 0 success, 1 refused, failed, or a problem" in text
