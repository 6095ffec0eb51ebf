"""The walkthroughs of manifests/examples: complete, with the figures that the programs print."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.manifests.document_commands import commands

EXAMPLES = Path(__file__).parents[2] / "manifests/examples"
READMES = sorted(EXAMPLES.glob("*/README.md"))
STORIES = ("scale-out", "numa-training", "aks-infiniband", "gke-nccl")
# registry/name:tag; a registry has a dot.
IMAGE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+/[a-z0-9/._-]+:[\w.-]+")
# A word in capitals; it is not one of SQL ("SELECT), nor a value that a flag has (=ALLOW).
PLACEHOLDER = re.compile(r"(?<=[ |=])(?!ALLOW)[A-Z]{4,}(?=[ /-]|$)")
KINDS = {
    "job": "Job",
    "mpijob": "MPIJob",
    "pod": "Pod",
    "service": "Service",
    "statefulset": "StatefulSet",
}
OBJECT = re.compile(rf"(?:^|[ =])({'|'.join(KINDS)})[/ ]([a-z0-9-]+)")
FILE = re.compile(
    r"(?:(?:apply|delete) -[fk]|kubectl kustomize|dra-shim explain|python3) (?!https:|- |-$)(\S+)"
)
JOB_OF_LABEL = re.compile(r"(batch.kubernetes.io|training.kubeflow.org)/job-name=([a-z0-9-]+)")
MEASURED = {
    "scale-out": (
        "COLLECTIVES_RESULT",
        {"all_gather_gb_s": 46.59, "all_reduce_gb_s": 46.93},
        {"all_gather_gb_s": 29.20, "all_reduce_gb_s": 29.68},
    ),
    "numa-training": (
        "MFU_RESULT",
        {"step_ms": 55.496, "tflops_per_gpu": 356.62, "mfu_percent": 36.06},
        {"step_ms": 60.951, "tflops_per_gpu": 324.70, "mfu_percent": 32.83},
    ),
}


def images() -> Iterator[tuple[str, str]]:
    """Yield the image of each container, after the file that has it."""
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield from ((str(path.relative_to(EXAMPLES)), image) for image in found(document))


def lines(path: Path) -> Iterator[str]:
    """Yield the lines with a command in a document's indented blocks."""
    programs = {arguments[0] for arguments in commands(path)} | {"dra-shim", "python3", "for"}
    for line in path.read_text().splitlines():
        if line.startswith("    ") and line.split()[0] in programs:
            yield line.strip()


def found(value: Any) -> Iterator[str]:
    """Yield the images in a document."""
    match value:
        case dict():
            for key, part in value.items():
                yield from [part] if key == "image" else found(part)
        case list():
            for part in value:
                yield from found(part)


@pytest.mark.parametrize(("file", "image"), sorted(set(images())))
def test_image_has_registry_and_tag(file: str, image: str) -> None:
    assert IMAGE.fullmatch(image), file


@pytest.mark.parametrize("story", STORIES)
def test_walkthrough_has_all_parts(story: str) -> None:
    text = (EXAMPLES / story / "README.md").read_text()

    head = text.partition("\n## ")[0]
    assert "┌" in head  # the picture
    assert "\nPlaceholders: " in head
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert titles[0] in {"Choose", "Set up", "What it needs"}
    assert titles[-1] == "Clean up"
    assert "How to read it: " in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("    ")) <= 100


@pytest.mark.parametrize("story", STORIES)
def test_placeholders_of_commands_are_listed_at_the_top(story: str) -> None:
    path = EXAMPLES / story / "README.md"
    (line,) = re.findall(r"^Placeholders: (.+?)\.$", path.read_text(), re.MULTILINE | re.DOTALL)

    found = {word for text in lines(path) for word in PLACEHOLDER.findall(text)}

    assert found
    assert found <= set(re.findall(r"`([A-Z]+)`", line))


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.parent.name)
def test_files_of_commands_exist(path: Path) -> None:
    for text in lines(path):
        for name in FILE.findall(text):
            assert (path.parent / name).exists(), text


@pytest.mark.parametrize("story", ["aks-infiniband", "gke-nccl"])
def test_edits_of_manifests_in_commands_change_them(story: str) -> None:
    directories = (EXAMPLES / story, EXAMPLES.parent / "base")
    files = [str(path) for directory in directories for path in directory.rglob("*.yaml")]
    edits = re.findall(r"\| sed '([^']+)' \|", (EXAMPLES / story / "README.md").read_text())

    assert edits
    for edit in edits:
        call = ("sed", "--quiet", f"{edit}p", *files)
        assert subprocess.run(call, capture_output=True, check=True, timeout=60).stdout, edit


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.parent.name)
def test_objects_of_commands_are_in_the_manifests(path: Path) -> None:
    known = {
        (document["kind"], document["metadata"]["name"])
        for file in path.parent.rglob("*.yaml")
        for document in yaml.safe_load_all(file.read_text())
        if "metadata" in document
    }

    for text in lines(path):
        named = {(KINDS[kind], name) for kind, name in OBJECT.findall(text)}
        named |= {
            ("Job" if domain.startswith("batch") else "MPIJob", name)
            for domain, name in JOB_OF_LABEL.findall(text)
        }
        assert named <= known, text


@pytest.mark.parametrize("story", MEASURED)
def test_table_of_a_walkthrough_matches_compare(
    story: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, *runs = MEASURED[story]
    for run, name in zip(runs, ("aligned", "unaligned"), strict=True):
        (tmp_path / name).write_text(f"noise\n{kind} {json.dumps(run)}\n")
    main = runpy.run_path(str(EXAMPLES / "compare.py"))["main"]

    assert main([str(tmp_path / "aligned"), str(tmp_path / "unaligned")]) == 0
    assert capsys.readouterr().out in (EXAMPLES / story / "README.md").read_text()


@pytest.mark.parametrize(
    ("aligned", "unaligned", "expected"),
    [
        pytest.param("nothing", "nothing", "did the run end?", id="no result"),
        pytest.param('MFU_RESULT {"a": 1}', 'COLLECTIVES_RESULT {"a": 1}', "one kind", id="kinds"),
    ],
)
def test_incomparable_logs_are_refused(
    aligned: str, unaligned: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "aligned").write_text(aligned)
    (tmp_path / "unaligned").write_text(unaligned)
    main = runpy.run_path(str(EXAMPLES / "compare.py"))["main"]

    try:
        assert main([str(tmp_path / "aligned"), str(tmp_path / "unaligned")]) == 1
        message = capsys.readouterr().err
    except SystemExit as error:
        message = str(error)
    assert expected in message
