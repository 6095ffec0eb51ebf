"""The check of the rules of the source tree (hack/tree_rules.py)."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
CHECK = ROOT / "hack/tree_rules.py"


def check(*directories: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, CHECK, *directories], cwd=ROOT, capture_output=True, text=True, check=False
    )


def package(directory: Path, **modules: str) -> Path:
    """Write a package with one room, which has these modules; return the package."""
    write(directory / "room", **modules)
    return directory


def write(directory: Path, **modules: str) -> Path:
    directory.mkdir(parents=True)
    for name, text in modules.items():
        (directory / f"{name}.py").write_text(text)
    return directory


def test_second_definition_is_reported_with_both_locations(tmp_path: Path) -> None:
    first = package(tmp_path / "first", links="class Link: ...\n")
    second = package(tmp_path / "second", stub="\nclass Link: ...\nclass Mux: ...\n")

    result = check(first, second)

    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        "class Link is defined 2 times; rename all but one:",
        f"  {first}/room/links.py:1",
        f"  {second}/room/stub.py:2",
    ]


def test_names_of_private_and_generated_classes_can_repeat(tmp_path: Path) -> None:
    first = package(tmp_path / "first", links="class _State: ...\nclass Link: ...\n")
    second = package(tmp_path / "second", stub="class _State: ...\n")
    write(second / "_gen", nri_pb2="class Link: ...\n")

    result = check(first, second)

    assert (result.returncode, result.stdout) == (0, "")


def test_missing_directory_is_an_error(tmp_path: Path) -> None:
    result = check(tmp_path / "none")

    assert result.returncode == 1
    assert result.stderr == f"tree_rules.py: {tmp_path}/none is not a directory\n"


def test_room_of_more_than_18_modules_fails(tmp_path: Path) -> None:
    full = package(
        tmp_path / "full", __init__="", **{f"module{number}": "" for number in range(18)}
    )
    over = package(
        tmp_path / "over", __init__="", **{f"module{number}": "" for number in range(19)}
    )

    result = check(full, over)

    assert result.returncode == 1
    assert result.stdout == f"{over}/room has 19 modules, at most 18 are allowed; split the room\n"


def test_other_module_in_the_root_of_a_package_fails(tmp_path: Path) -> None:
    plugin = write(
        tmp_path / "dranet_nri", __init__="", __main__="", cli="", errors="", settings=""
    )
    shim = write(tmp_path / "dra_shim", __init__="", __main__="", cli="", errors="")

    result = check(plugin, shim)

    assert result.returncode == 1
    assert result.stdout == f"{shim}/errors.py: not a root module; move it into a room\n"


def test_module_of_more_than_400_lines_fails(tmp_path: Path) -> None:
    modules = package(tmp_path / "package", full="\n" * 400, over="\n" * 401)

    result = check(modules)

    assert result.returncode == 1
    assert result.stdout == (
        f"{modules}/room/over.py has 401 lines, at most 400 are allowed; split the module\n"
    )
