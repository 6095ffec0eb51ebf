"""Documents: links lead somewhere, manifests are valid, commands and attributes exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import dra_shim.cli
import dranet_nri.cli
from dra_shim.status.reasons import EVENT_TYPES
from dranet_nri.inventory.attribute_names import ATTRIBUTE_NAMES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "manifests/docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "manifests/examples").rglob("*.md"))
DOCUMENTS = [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "SECURITY.md", *EXAMPLES]
DIRECTORIES = ("dra_shim", "dranet_nri", "manifests", "tests")
ALL_PAGES = [
    *ROOT.glob("*.md"),
    *(path for directory in DIRECTORIES for path in (ROOT / directory).rglob("*.md")),
]
PROGRAMS = {"dranet-nri": dranet_nri.cli, "dra-shim": dra_shim.cli}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")
INLINE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
PROGRAM_CALL = re.compile(
    r"(?:^|(?<=-- )|(?<=\$ ))(?:dranet-nri|dra-shim|\./hack/[\w/-]+)(?:\s|$).*"
)
END = re.compile(r"\s(?:&&|\||#|>).*")
MAX_LINE = 100


def name(path: Path) -> str:
    """Return a path as seen from the root."""
    return str(path.relative_to(ROOT))


def prose(path: Path) -> str:
    """Return a document without its blocks of code."""
    return INDENTED.sub("", FENCE.sub("", path.read_text()))


def anchors(path: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    found: list[str] = []
    for heading in HEADING.findall(prose(path)):
        text = LINK.sub(r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return set(found)


def links() -> Iterator[tuple[str, str]]:
    """Yield each relative link, after the document that has it."""
    for path in sorted(ALL_PAGES):
        for _, target in LINK.findall(prose(path)):
            if not re.match(r"\w+:", target):
                yield name(path), target


def manifests() -> Iterator[tuple[str, str]]:
    """Yield each block of YAML, after where it is; examples have parts of requests."""
    for path in DOCUMENTS[: -len(EXAMPLES)]:
        blocks = [text for language, text in FENCE.findall(path.read_text()) if language == "yaml"]
        yield from ((f"{name(path)}-{nth}", text) for nth, text in enumerate(blocks, 1))


def blocks(path: Path) -> Iterator[str]:
    """Yield the blocks of a document that hold no YAML."""
    text = path.read_text()
    yield from (block for language, block in FENCE.findall(text) if language != "yaml")
    yield from INDENTED.findall(FENCE.sub("", text))


def commands() -> Iterator[tuple[str, str]]:
    """Yield each call of the programs in a block, after the document that has it."""
    for path in DOCUMENTS:
        for block in blocks(path):
            for line in block.replace("\\\n", " ").splitlines():
                for command in PROGRAM_CALL.findall(line.strip()):
                    yield name(path), " ".join(END.sub("", command).split())


def quoted() -> Iterator[tuple[str, str]]:
    """Yield each call of the programs in a sentence, after the document; a name alone is none."""
    for path in DOCUMENTS:
        for text in INLINE.findall(prose(path)):
            if PROGRAM_CALL.match(text) and text not in PROGRAMS:
                yield name(path), " ".join(text.split())


LINKS, MANIFESTS = list(links()), list(manifests())
COMMANDS, QUOTED = list(commands()), list(quoted())


@pytest.mark.parametrize(("document", "target"), LINKS)
def test_links_have_existing_targets(document: str, target: str) -> None:
    path = ROOT / document
    file, _, anchor = target.partition("#")
    found = (path.parent / file).resolve() if file else path

    assert found.exists(), target
    assert found.is_relative_to(ROOT)
    assert not anchor or anchor in anchors(found), sorted(anchors(found))


def test_readme_links_every_page() -> None:
    targets = {target.partition("#")[0] for page, target in LINKS if page == "README.md"}

    assert targets >= {name(path) for path in PAGES[1:]}


@pytest.mark.parametrize(
    "text", [text for _, text in MANIFESTS], ids=[path for path, _ in MANIFESTS]
)
def test_manifest_in_a_document_is_valid(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "block.yaml").write_text(text)

    status = dra_shim.cli.main(["validate", str(tmp_path / "block.yaml")])

    assert (status, capsys.readouterr().err) == (0, "")


def test_readme_has_a_template_and_a_pod() -> None:
    text = dict(MANIFESTS)["README.md-1"]

    assert "kind: ResourceClaimTemplate" in text
    assert "kind: Pod" in text


def flags_of(program: str, command: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Return the flags in the help of a command."""
    with pytest.raises(SystemExit) as ended:
        PROGRAMS[program].main([command, "--help"])
    assert ended.value.code == 0, command
    return set(re.findall(r"(?<![\w-])-[\w-]+", capsys.readouterr().out))


def usage_of(script: str) -> str:
    """Return the comments at the margin of a script."""
    return "".join(re.findall(r"^#.*\n", (ROOT / script).read_text(), re.MULTILINE))


def check_script(arguments: list[str]) -> None:
    """Fail if a script of hack/, or an argument of it, does not exist."""
    usage = usage_of(arguments[0])
    for word in arguments[1:]:
        if word.startswith("-") and "PYTEST ARGUMENTS" in usage and word not in usage:
            return  # what follows is pytest's
        assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", usage), word


@pytest.mark.parametrize("command", sorted({command for _, command in COMMANDS + QUOTED}))
def test_command_and_flags_in_a_document_exist(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = shlex.split(re.sub(r"\[.*?\]", "", command))
    if arguments[0] not in PROGRAMS:
        check_script(arguments)
        return
    commands = {command for command, _ in PROGRAMS[arguments[0]].PROGRAM.commands}
    given = {word.partition("=")[0] for word in arguments if word.startswith("-")}

    assert arguments[1] in commands
    assert given <= flags_of(arguments[0], arguments[1], capsys)


@pytest.mark.parametrize(
    "command", sorted({command for _, command in COMMANDS if command.split()[0] in PROGRAMS})
)
def test_command_in_a_block_is_complete(command: str) -> None:
    program, *arguments = shlex.split(command.replace("$POD_UID", "uid"))

    PROGRAMS[program].PROGRAM.parse(arguments)


def test_files_of_commands_exist() -> None:
    named = {
        (name(path), word)
        for path in PAGES
        for block in blocks(path)
        for word in re.findall(r"(?<![\w/.-])(?:manifests|hack)/[\w./-]+", block)
    }

    assert len(named) >= 4
    assert [(page, word) for page, word in sorted(named) if not (ROOT / word).exists()] == []


def test_attribute_page_lists_every_attribute() -> None:
    text = (ROOT / "manifests/docs/attributes.md").read_text()
    listed = set(INLINE.findall(text))

    assert {
        attribute
        for attribute in ATTRIBUTE_NAMES
        if not {attribute, attribute.split("/")[1]} & listed
    } == set()


def test_documents_have_links_manifests_and_commands() -> None:
    assert len(LINKS) > 80
    assert len(MANIFESTS) >= 4
    assert len(COMMANDS) >= 20
    assert len(QUOTED) >= 20


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_lines_fit_the_page(path: Path) -> None:
    long = [line for line in path.read_text().splitlines() if len(line) > MAX_LINE]

    assert long == []


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("README.md", r"(?:dranet-nri:|Version )(\d+\.\d+\.\d+)"),
        ("CHANGELOG.md", r"\A.*?^## (\S+)"),
        ("Containerfile", r"dranet-nri:(\S+)"),
        ("manifests/docs/install.md", r"dranet-nri[:-](\d+\.\d+\.\d+)"),
        ("manifests/base/kustomization.yaml", r"newTag: (\S+)"),
        ("manifests/helm/dranet-nri/Chart.yaml", r"^(?:version|appVersion): (\S+)"),
    ],
)
def test_files_have_the_project_version(path: str, pattern: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    found = re.findall(pattern, (ROOT / path).read_text(), re.MULTILINE | re.DOTALL)

    assert set(found) == {project["version"]}


def test_troubleshooting_has_every_warning_event() -> None:
    """The table of all Events is generated (hack/gen-reference --check)."""
    page = ROOT / "manifests/docs/troubleshooting.md"
    sections = re.split(r"^## ", prose(page).partition("<!-- end -->")[2], flags=re.MULTILINE)
    named = {reason for section in sections for reason in INLINE.findall(section)}

    assert not {event.reason for event in EVENT_TYPES if event.warning} - named


def test_documented_events_are_posted() -> None:
    """`NetworkDevice…` and `Claim…` in a document are reasons of Events or of conditions."""
    conditions = {"NetworkDeviceReady", "NetworkDeviceDetaching", "NetworkDeviceDetached"}
    named = {
        reason
        for path in PAGES
        for reason in re.findall(r"`((?:NetworkDevice|RDMADevice|Claim)[A-Z]\w+)`", prose(path))
    }

    assert named - conditions <= {event.reason for event in EVENT_TYPES}
