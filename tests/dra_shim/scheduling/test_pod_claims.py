"""From the documents of a pod to its claims, and which container lists which."""

import argparse

import pytest

from dra_shim.resourceapi import (
    Cel,
    ClaimRequest,
    ClaimSpec,
    DeviceClass,
    DeviceRequest,
    Document,
    OtherObject,
    ResourceClaim,
    ResourceClaimTemplate,
)
from dra_shim.scheduling.pod_claims import claims_of_pod, classes_of
from dra_shim.settings.common import (
    ContainerListing,
    container_listing,
    namespaced_name,
    pod_from,
    uid,
)
from dranet_nri.errors import ConfigError
from dranet_nri.model import ContainerClaim, ObjectRef

POD = ObjectRef("ml", "train-0", "p1")
SPEC = ClaimSpec((ClaimRequest("nic", (DeviceRequest("nic", "dranet"),)),))
CLAIM = ResourceClaim("", "fast", "c1", SPEC)
TEMPLATE = ResourceClaimTemplate("ml", "aligned", SPEC)


def refused(documents: list[Document], listings: list[ContainerListing]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        claims_of_pod(documents, POD, listings)
    return caught.value.violations


def test_claims_and_templates_get_the_namespace_of_the_pod() -> None:
    documents: list[Document] = [OtherObject("Pod", "x"), CLAIM, DeviceClass("dranet"), TEMPLATE]

    claim, generated = claims_of_pod(documents, POD, [])

    assert (claim.ref, claim.template, claim.label) == (
        ObjectRef("ml", "fast", "c1"), "", "fast",
    )  # fmt: skip
    assert (generated.ref, generated.template, generated.label) == (
        ObjectRef("ml", "train-0-aligned", ""), "aligned", "aligned",
    )  # fmt: skip


def test_long_generated_name_is_valid() -> None:
    pod = ObjectRef("ml", "p" * 253, "p1")

    (claim,) = claims_of_pod([TEMPLATE], pod, [])

    assert len(claim.ref.name) == 253
    assert claim.ref.name.endswith("p-aligned")


def test_containers_list_claims_by_pod_claim_name() -> None:
    listings = [
        container_listing("main=fast"),
        container_listing("main=fast"),
        container_listing("side=aligned/nic"),
    ]

    claim, generated = claims_of_pod([CLAIM, TEMPLATE], POD, listings)

    assert claim.containers == (ContainerClaim("main"),)
    assert generated.containers == (ContainerClaim("side", "nic"),)


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        ("main=fats", "no claim 'fats' (did you mean \"fast\"?); the pod has fast"),
        ("main=fast/nick", "claim fast has no request 'nick' (did you mean \"nic\"?); it has nic"),
    ],
)
def test_unknown_claim_or_request_is_refused_with_known_names(listing: str, expected: str) -> None:
    assert refused([CLAIM], [container_listing(listing)]) == (f"container main: {expected}",)


def test_claim_without_requests_has_none_to_list() -> None:
    empty = ResourceClaim("ml", "fast", "", ClaimSpec())

    (line,) = refused([empty], [container_listing("main=fast/nic")])

    assert line.endswith("it has none")


def test_missing_claim_reports_both_errors() -> None:
    assert refused([DeviceClass("x")], [container_listing("main=fast")]) == (
        "no ResourceClaim or ResourceClaimTemplate among the --claim files",
        "container main: no claim 'fast'; the pod has none",
    )


def test_claim_of_another_namespace_is_refused() -> None:
    (line,) = refused([ResourceClaim("other", "fast", "", SPEC)], [])

    assert line.startswith("claim fast: is of namespace other, pod ml/train-0 is not; give")


def test_two_claims_with_one_name_are_refused() -> None:
    assert refused([CLAIM, CLAIM], []) == ("claim fast: given twice; keep one, or rename it",)


def test_repeated_equal_class_counts_once() -> None:
    first = DeviceClass("a", (Cel("true", "x"),))
    again = DeviceClass("a", (Cel("true", "y"),))

    assert classes_of([first, CLAIM, again]) == {"a": first}


def test_different_classes_with_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="class a: given twice and different"):
        classes_of([DeviceClass("a"), DeviceClass("a", (Cel("true"),))])


# --------------------------------------------------------------------------- flags


@pytest.mark.parametrize(
    "text", ["main", "main=", "=fast", "main=/nic", "main=fast/", "Main=fast", ""]
)
def test_incomplete_container_flag_is_a_usage_error(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        container_listing(text)


def test_names_without_a_namespace_are_in_default() -> None:
    assert namespaced_name("fast") == ("default", "fast")
    assert namespaced_name("ml/fast") == ("ml", "fast")


@pytest.mark.parametrize("text", ["A/b", "a/B", "a/", "a/b/c"])
def test_invalid_name_is_a_usage_error(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        namespaced_name(text)


def test_uid_that_could_be_a_path_is_a_usage_error() -> None:
    assert uid("a-b.c") == "a-b.c"
    with pytest.raises(argparse.ArgumentTypeError):
        uid("../x")


def test_pod_without_a_name_is_named_by_its_uid() -> None:
    args = argparse.Namespace(pod="p1", pod_name=None)

    assert pod_from(args) == ObjectRef("default", "p1", "p1")
