"""The check that each public class name has one meaning (hack/public_names.py)."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
CHECK = ROOT / "hack/public_names.py"


def check(*directories: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, CHECK, *directories], cwd=ROOT, capture_output=True, text=True, check=False
    )


def package(directory: Path, **modules: str) -> Path:
    directory.mkdir()
    for name, text in modules.items():
        (directory / f"{name}.py").write_text(text)
    return directory


def test_a_second_definition_fails_and_is_named_with_both_places(tmp_path: Path) -> None:
    first = package(tmp_path / "first", links="class Link: ...\n")
    second = package(tmp_path / "second", stub="\nclass Link: ...\nclass Mux: ...\n")

    result = check(first, second)

    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        "class Link is defined 2 times; rename all but one:",
        f"  {first}/links.py:1",
        f"  {second}/stub.py:2",
    ]


def test_private_classes_and_generated_code_may_repeat_names(tmp_path: Path) -> None:
    first = package(tmp_path / "first", links="class _Seen: ...\nclass Link: ...\n")
    second = package(tmp_path / "second", stub="class _Seen: ...\n")
    package(second / "_gen", nri_pb2="class Link: ...\n")

    result = check(first, second)

    assert (result.returncode, result.stdout) == (0, "")


def test_a_directory_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    result = check(tmp_path / "none")

    assert result.returncode == 1
    assert result.stderr == f"public_names.py: {tmp_path}/none is not a directory\n"
