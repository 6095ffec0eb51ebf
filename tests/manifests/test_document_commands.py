"""Commands of kubectl, Helm, clouds and others in the documents: subcommand and flags exist."""

from __future__ import annotations

import pytest

from dra_shim.kubectl.cli import PROGRAM
from tests.manifests.document_commands import (
    DOCUMENTS,
    commands,
    flags,
    known_flags,
    recorded_flags,
    subcommand,
)

RECORDED = recorded_flags()
COMMANDS = sorted({tuple(arguments) for path in DOCUMENTS for arguments in commands(path)})
PLUGIN = [arguments for arguments in COMMANDS if arguments[:2] == ("kubectl", "dranet")]
OTHERS = [arguments for arguments in COMMANDS if arguments not in PLUGIN]


@pytest.mark.parametrize("arguments", OTHERS, ids=" ".join)
def test_documented_command_has_existing_subcommand_and_flags(arguments: tuple[str, ...]) -> None:
    found = subcommand([*arguments], RECORDED)

    assert found, "unknown subcommand, or not in recorded_flags.json"
    assert flags([*arguments]) <= known_flags(found, RECORDED)


@pytest.mark.parametrize("arguments", PLUGIN, ids=" ".join)
def test_documented_kubectl_plugin_command_and_flags_exist(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    command = arguments[2:3] or ("status",)
    assert command[0] in dict(PROGRAM.commands)

    with pytest.raises(SystemExit):
        PROGRAM.main([*command, "--help"])
    text = capsys.readouterr().out
    assert {flag for flag in flags([*arguments]) if flag not in text} == set()


def test_documents_have_commands_of_each_program() -> None:
    assert {arguments[0] for arguments in OTHERS} == {
        *("az", "ctr", "gcloud", "helm", "kubectl", "pip", "podman", "skopeo"),
    }
    assert len(OTHERS) > 40
    assert len(PLUGIN) > 5
