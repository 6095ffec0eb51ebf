"""hack/test --changed selects the tiers of the rooms that a change touches."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hack.box.changed import EVERY, ROOMS, room_of

pytestmark = pytest.mark.process


ROOT = Path(__file__).parents[2]
PARENTS = ("dranet_nri", "dra_shim", "hack", "manifests", "tests")
TIERS = (
    "vm", "cluster-vm", "cluster", "host", "process", "cluster-oldest", "check", "pure", "kernel",
)  # fmt: skip
IDENTITY = {
    f"GIT_{role}_{what}": "test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


def git(repository: Path, *arguments: str) -> None:
    """Run git there, as nobody in particular."""
    command = ("git", "-c", "commit.gpgsign=false", *arguments)
    subprocess.run(command, cwd=repository, env=os.environ | IDENTITY, check=True)


def write(repository: Path, *files: str, text: str = "new\n") -> None:
    """Write the files."""
    for file in files:
        (repository / file).parent.mkdir(parents=True, exist_ok=True)
        (repository / file).write_text(text)


def commit(repository: Path) -> None:
    """Commit everything."""
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "change")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a checkout on the branch `work`, which has not left `main`."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    write(
        tmp_path, "LICENSE", "tests/system/host/test_a.py", "dranet_nri/plan/ops.py", text="old\n"
    )
    commit(tmp_path)
    git(tmp_path, "switch", "--quiet", "--create", "work")
    return tmp_path


def changed(repository: Path, *options: str) -> tuple[list[str], list[str]]:
    """Return the selected tiers, and the lines that say why."""
    command = (sys.executable, str(ROOT / "hack/box/changed.py"), *options, *TIERS)
    ran = subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True)
    return ran.stdout.splitlines(), ran.stderr.splitlines()


@pytest.mark.parametrize("parent", PARENTS)
def test_table_has_every_room(parent: str) -> None:
    rooms = {
        f"{parent}/{path.name}"
        for path in (ROOT / parent).iterdir()
        if not path.name.startswith(".") and path.name != "__pycache__"
    }

    missing = {room for room in rooms if room_of(room) is None}

    assert missing == set()


def test_paths_of_the_table_exist() -> None:
    assert [room for room in ROOMS if not (ROOT / room).exists()] == []


def test_tiers_of_the_table_exist() -> None:
    default = re.search(r"^default=\((.*)\)$", (ROOT / "hack/test").read_text(), re.MULTILINE)
    assert default is not None

    named = {tier for tiers in ROOMS.values() if tiers != EVERY for tier in tiers.split()}

    assert named == set(default[1].split()) == set(TIERS)


def test_no_change_selects_nothing(repository: Path) -> None:
    assert changed(repository) == ([], [])


def test_document_selects_only_the_check(repository: Path) -> None:
    write(repository, "LICENSE")

    assert changed(repository) == (["check"], ["check: LICENSE"])


def test_document_selects_the_tests_that_read_it(repository: Path) -> None:
    write(repository, "README.md")

    assert changed(repository)[0] == ["check", "pure"]


def test_file_outside_all_rooms_selects_every_tier(repository: Path) -> None:
    write(repository, "new/room.txt")

    tiers, reasons = changed(repository)

    assert tuple(tiers) == TIERS
    assert reasons[0] == "vm: new/room.txt (in no room of the table)"


def test_committed_uncommitted_and_untracked_files_count(repository: Path) -> None:
    write(repository, "tests/system/host/test_a.py")
    commit(repository)
    write(repository, "LICENSE")
    write(repository, "tests/system/kernel/test_b.py")

    assert changed(repository) == (
        ["host", "check", "kernel"],
        [
            "host: tests/system/host/test_a.py",
            "check: LICENSE and 2 more",
            "kernel: tests/system/kernel/test_b.py",
        ],
    )


def test_moved_file_counts_at_both_paths(repository: Path) -> None:
    (repository / "tests/system/kernel").mkdir()
    git(repository, "mv", "tests/system/host/test_a.py", "tests/system/kernel/test_a.py")
    commit(repository)

    assert changed(repository)[0] == ["host", "check", "kernel"]


def test_newer_commits_of_the_base_do_not_count(repository: Path) -> None:
    git(repository, "switch", "--quiet", "main")
    write(repository, "new.txt")
    commit(repository)
    git(repository, "switch", "--quiet", "work")

    assert changed(repository)[0] == []


def test_base_can_be_given(repository: Path) -> None:
    write(repository, "new.txt")
    commit(repository)
    write(repository, "tests/system/kernel/test_b.py")
    commit(repository)

    assert changed(repository, "--base", "HEAD~1")[0] == ["check", "kernel"]
