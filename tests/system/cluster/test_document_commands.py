"""The recorded flags of kubectl and Helm are those of the programs under test."""

from __future__ import annotations

from pathlib import Path

from tests.manifests.document_commands import read_flags, recorded_flags


def recorded_and_read(name: str, program: Path) -> tuple[dict[str, list[str]], ...]:
    """Return the recorded flags of a program by subcommand, and those that it lists."""
    recorded = {key: value for key, value in recorded_flags().items() if key.split()[0] == name}
    return recorded, {key: read_flags(program, key.split()[1:]) for key in recorded}


def test_recorded_flags_match_kubectl(programs: Path) -> None:
    recorded, read = recorded_and_read("kubectl", programs / "kubectl")

    assert recorded == read


def test_recorded_flags_match_helm(helm: Path) -> None:
    recorded, read = recorded_and_read("helm", helm)

    assert recorded == read
