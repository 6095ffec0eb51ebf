"""Claims of one pod: named claims from documents, and the containers that list them.

Rules:
1. A claim has the namespace of its pod; a document without one is assumed to have it.
2. A claim from a template is named after pod and template, so that the same pod has the same claim.
   Containers list it by the name of the template.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dra_shim.resourceapi import (
    ClaimSpec,
    DeviceClass,
    Document,
    ResourceClaim,
    ResourceClaimTemplate,
)
from dra_shim.settings.common import ContainerListing
from dranet_nri.component.replace import replace
from dranet_nri.config import did_you_mean
from dranet_nri.errors import ConfigError
from dranet_nri.model import ContainerClaim, ObjectRef

MAX_NAME: Final = 253  # length of a claim name, a DNS subdomain


@dataclass(frozen=True, slots=True)
class PodClaim:
    """One claim of the pod.

    Attributes:
        ref: uid "" until it is known.
        template: name of its template, "" for a direct claim.
        containers: the containers that list it.
    """

    ref: ObjectRef
    spec: ClaimSpec
    template: str = ""
    containers: tuple[ContainerClaim, ...] = ()

    @property
    def label(self) -> str:
        """Return the name by which containers list the claim."""
        return self.template or self.ref.name


def claims_of_pod(
    documents: Sequence[Document], pod: ObjectRef, listings: Sequence[ContainerListing]
) -> tuple[PodClaim, ...]:
    """Return the claims and the claims from templates, in the order of the documents.

    Raises:
        ConfigError: there is no claim, two have the same name, one has another namespace, or a
            container lists an unknown claim or request.
    """
    violations: list[str] = []
    claims: list[PodClaim] = []
    for document in documents:
        if not isinstance(document, ResourceClaim | ResourceClaimTemplate):
            continue
        claim = _claim(document, pod)
        if document.namespace not in {"", pod.namespace}:
            violations.append(
                f"claim {document.name}: is of namespace {document.namespace}, pod {pod} is not; "
                "give the pod's with --pod-name NS/NAME, or correct the claim's"
            )
        if any(other.label == claim.label for other in claims):
            violations.append(f"claim {claim.label}: given twice; keep one, or rename it")
        claims.append(claim)
    if not claims:
        violations.append("no ResourceClaim or ResourceClaimTemplate among the --claim files")
    for listing in listings:
        violations += _listing_violations(listing, claims)
    if violations:
        raise ConfigError(violations)
    return tuple(
        replace(
            claim,
            containers=tuple(
                dict.fromkeys(listing.entry for listing in listings if listing.claim == claim.label)
            ),
        )
        for claim in claims
    )


def classes_of(documents: Sequence[Document]) -> dict[str, DeviceClass]:
    """Return the DeviceClasses by name; identical duplicates are merged.

    Raises:
        ConfigError: two classes with the same name differ.
    """
    classes: dict[str, DeviceClass] = {}
    for document in documents:
        if isinstance(document, DeviceClass):
            other = classes.setdefault(document.name, document)
            if _content(other) != _content(document):
                raise ConfigError([f"class {document.name}: given twice and different; keep one"])
    return classes


def _claim(document: ResourceClaim | ResourceClaimTemplate, pod: ObjectRef) -> PodClaim:
    if isinstance(document, ResourceClaim):
        return PodClaim(ObjectRef(pod.namespace, document.name, document.uid), document.spec)
    generated = f"{pod.name}-{document.name}"[-MAX_NAME:].lstrip("-.")
    return PodClaim(ObjectRef(pod.namespace, generated, ""), document.spec, document.name)


def _content(cls: DeviceClass) -> object:
    return (
        [cel.expression for cel in cls.selectors],
        [(entry.driver, entry.parameters) for entry in cls.configs],
    )


def _listing_violations(listing: ContainerListing, claims: Sequence[PodClaim]) -> list[str]:
    entry = listing.entry
    named = [claim for claim in claims if claim.label == listing.claim]
    if not named:
        labels = [claim.label for claim in claims]
        hint = did_you_mean(listing.claim, labels)
        listed = ", ".join(labels) or "none"
        return [
            f"container {entry.container}: no claim {listing.claim!r}{hint}; the pod has {listed}"
        ]
    requests = [request.name for request in named[0].spec.requests]
    if entry.request and entry.request not in requests:
        hint = did_you_mean(entry.request, requests)
        listed = ", ".join(requests) or "none"
        return [
            f"container {entry.container}: claim {listing.claim} has no request "
            f"{entry.request!r}{hint}; it has {listed}"
        ]
    return []
