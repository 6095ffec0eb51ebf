"""`--version` of both programs."""

import tomllib
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import pytest

from dra_shim import cli as shim
from dranet_nri import cli as plugin

pytestmark = pytest.mark.process


PROGRAMS = [(plugin.main, "dranet-nri"), (shim.main, "dra-shim")]
Main = Callable[[Sequence[str]], int]


@pytest.mark.parametrize(("main", "name"), PROGRAMS, ids=[name for _, name in PROGRAMS])
def test_version_is_that_of_the_project(
    main: Main, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]

    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{name} {project['version']}\n"


def test_version_of_an_uninstalled_source_tree_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    with pytest.raises(SystemExit):
        plugin.main(["--version"])

    assert capsys.readouterr().out == "dranet-nri of a source tree, not installed\n"
