"""Lock files: what they allow, and that everything is installed from them by hash."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.process


ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
RUN = PROJECT["project"]["dependencies"]
BUILD = PROJECT["dependency-groups"]["build"]
REQUIREMENTS = {
    "run": RUN,
    "box": [*RUN, *EXTRAS["box"]],
    "build": [*BUILD, *PROJECT["build-system"]["requires"]],
    "dev": [*RUN, *EXTRAS["box"], *BUILD, *EXTRAS["dev"]],
}
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
# Where packages are installed. hack/fuzz has a tool of its own, which is no part of anything else.
INSTALLERS = ("Containerfile", "hack/lib.sh", "hack/box/make-site", "hack/box/make-oci-layer")


def locked(name: str) -> dict[str, tuple[str, list[str]]]:
    """Return package -> version and hashes of a lock file."""
    entries = (LOCKS / f"{name}.txt").read_text().replace("\\\n", " ").splitlines()
    found: dict[str, tuple[str, list[str]]] = {}
    for entry in entries:
        requirement, *_ = entry.partition(" --hash")
        parsed = Requirement(requirement.strip())
        (pin,) = parsed.specifier
        assert pin.operator == "=="
        found[canonicalize_name(parsed.name)] = pin.version, _HASH.findall(entry)
    return found


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_lock_satisfies_the_requirements_of_the_project(name: str) -> None:
    lock = locked(name)
    requirements = [Requirement(text) for text in REQUIREMENTS[name]]

    refused = [
        str(requirement)
        for requirement in requirements
        if requirement.name != PROJECT["project"]["name"]
        and not requirement.specifier.contains(lock[canonicalize_name(requirement.name)][0])
    ]

    assert refused == []


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_locked_packages_have_hashes(name: str) -> None:
    assert [package for package, (_, hashes) in locked(name).items() if not hashes] == []


def test_image_and_tests_have_the_same_packages() -> None:
    run, box = locked("run"), locked("box")

    assert run.items() <= box.items()


def test_the_build_backend_is_pinned() -> None:
    for text in PROJECT["build-system"]["requires"]:
        assert [specifier.operator for specifier in Requirement(text).specifier] == ["=="]


def commands() -> Iterator[tuple[str, str]]:
    """Yield each command that lets pip install, with its file."""
    for file in INSTALLERS:
        text = (ROOT / file).read_text().replace("\\\n", " ")
        for line in text.splitlines():
            if line.lstrip().startswith("#"):
                continue
            for command in line.split("&&"):
                if re.search(r'(pip"?|"\$@") (install|wheel)\b', command):
                    yield file, command.strip()


def test_packages_are_installed_only_by_hash() -> None:
    found = list(commands())

    assert {file for file, _ in found} == {"Containerfile", "hack/lib.sh"}
    assert [
        command
        for _, command in found
        if "--require-hashes" not in command and "--no-deps" not in command
    ] == []


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Return a wheel of a package that has one module."""
    path = tmp_path / "index/thing-1.0-py3-none-any.whl"
    path.parent.mkdir()
    files = {
        "thing.py": b"VALUE = 1\n",
        "thing-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
        "thing-1.0.dist-info/WHEEL": (
            b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},"
        f"{len(data)}\n"
        for name, data in files.items()
    )
    with ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr("thing-1.0.dist-info/RECORD", f"{record}thing-1.0.dist-info/RECORD,,\n")
    return path


def install(wheel: Path, options: str) -> subprocess.CompletedProcess[str]:
    """Install a lock file of one line, as hack/ does, from the directory of the wheel alone."""
    lock = wheel.parent.parent / "lock.txt"
    lock.write_text(f"thing==1.0 {options}\n")
    return subprocess.run(
        ["bash", "-c", 'source "$1"/hack/lib.sh; install_locked "$2" "$3" -m pip', "-",
         ROOT, lock, sys.executable],
        env={"PATH": "/usr/bin:/bin", "HOME": str(wheel.parent.parent), "PIP_NO_INDEX": "1",
             "PIP_FIND_LINKS": str(wheel.parent), "PIP_TARGET": str(wheel.parent.parent / "site"),
             "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def sha256(wheel: Path) -> str:
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_package_with_the_locked_hash_is_installed(wheel: Path) -> None:
    done = install(wheel, f"--hash=sha256:{sha256(wheel)}")

    assert done.returncode == 0, done.stderr
    assert (wheel.parent.parent / "site/thing.py").exists()


def test_package_with_another_hash_is_refused(wheel: Path) -> None:
    other = hashlib.sha256(b"another file").hexdigest()

    done = install(wheel, f"--hash=sha256:{other}")

    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (wheel.parent.parent / "site").exists()


def test_package_without_a_hash_is_refused(wheel: Path) -> None:
    done = install(wheel, "")

    assert done.returncode != 0
    assert "--require-hashes" in done.stderr
    assert not (wheel.parent.parent / "site").exists()
