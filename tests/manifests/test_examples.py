"""Rules common to all examples."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_shim.pool import NO_CARRIER, UNHEALTHY, VANISHED
from dra_shim.resourceapi import (
    ResourceClaim,
    ResourceClaimTemplate,
    Taint,
    parse_document,
    parse_manifests,
)
from dra_shim.resourceapi.manifests import load_manifests
from tests.dra_shim.resourceapi.claim_documents import claim, exactly
from tests.dra_shim.scheduling.story_nodes import EXAMPLES, example

FILES = sorted(EXAMPLES.rglob("*.yaml"))


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object within a document, from outside in."""
    if isinstance(value, dict):
        yield value
        for entry in value.values():
            yield from objects(entry)
    elif isinstance(value, list):
        for element in value:
            yield from objects(element)


def all_objects(directory: Path) -> list[dict[str, Any]]:
    """Return every object in the files of a directory and those below."""
    return [
        object_
        for path in sorted(directory.rglob("*.yaml"))
        for document in load_manifests(path.read_text())
        for object_ in objects(document)
    ]


def test_examples_are_found() -> None:
    assert len(FILES) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_manifests_are_valid(path: Path) -> None:
    assert parse_manifests(path.read_text())


def test_images_are_pinned() -> None:
    every = all_objects(EXAMPLES)
    tagged = {container["name"] for container in every if "newTag" in container}
    images = {container["image"] for container in every if isinstance(container.get("image"), str)}

    assert images
    for image in images:
        assert ":" in image or image in tagged, image


@pytest.mark.parametrize("story", sorted(path for path in EXAMPLES.iterdir() if path.is_dir()))
def test_claims_of_pods_and_containers_exist(story: Path) -> None:
    every = all_objects(story)
    claims = {
        container["metadata"]["name"]
        for container in every
        if "Resource" in container.get("kind", "")
    }
    for pod in (container for container in every if "resourceClaims" in container):
        names = {entry["name"] for entry in pod["resourceClaims"]}
        for entry in pod["resourceClaims"]:
            assert {entry.get("resourceClaimName"), entry.get("resourceClaimTemplateName")} & claims
        for container in pod["containers"]:
            listed = container.get("resources", {}).get("claims", [])
            assert {ref["name"] for ref in listed} <= names


def test_both_versions_of_the_gke_templates_are_equal() -> None:
    texts = []
    for version in ("v1", "v1beta1"):
        found = example(f"gke-nccl/{version}/templates.yaml")
        specs = [document.spec for document in found if isinstance(document, ResourceClaimTemplate)]
        texts.append(re.sub(r"path='[^']*'", "", str(specs)))

    assert texts[0] == texts[1]
    assert "pcieRoot" in texts[0]


def test_mpijobs_differ_only_in_names() -> None:
    aligned, unaligned = (
        (EXAMPLES / f"numa-training/mpijob-{case}.yaml").read_text()
        for case in ("aligned", "unaligned")
    )

    assert unaligned.replace("unaligned", "aligned") == aligned
    assert len(set(aligned.splitlines()) - set(unaligned.splitlines())) == 2


def test_patches_of_requests_are_valid_and_tolerate_missing_carrier() -> None:
    text = (EXAMPLES / "dranet-style/README.md").read_text()
    more: dict[str, Any] = {}
    for addition in re.findall("```yaml\n(.*?)```", text, re.DOTALL):
        more |= yaml.safe_load(addition)

    parsed = parse_document(claim(requests=[exactly(**more)]))

    assert isinstance(parsed, ResourceClaim)
    (request,) = parsed.spec.requests[0].alternatives
    assert request.selectors
    (toleration,) = request.tolerations
    assert toleration.tolerates(Taint(UNHEALTHY, NO_CARRIER))
    assert not toleration.tolerates(Taint(UNHEALTHY, VANISHED))
