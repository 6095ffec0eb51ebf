"""Documents of resource.k8s.io → typed values, or every rule of the API server they break.

manifests.py   YAML or JSON text → plain documents
names.py       the name rules of Kubernetes
kinds.py       what a claim, a template and a class are here
devices.py     `spec.devices` of a claim: requests, constraints, configuration
parse.py       one document → one value, by apiVersion and kind
"""

from dra_shim.claims.devices import MAX_DEVICES
from dra_shim.claims.kinds import (
    Cel,
    ClaimSpec,
    Constraint,
    DeviceClass,
    DeviceRequest,
    Document,
    OtherObject,
    Parameters,
    Request,
    ResourceClaim,
    ResourceClaimTemplate,
)
from dra_shim.claims.manifests import load_manifests
from dra_shim.claims.names import parse_label, parse_subdomain
from dra_shim.claims.parse import parse_document, parse_manifests

__all__ = [
    "MAX_DEVICES",
    "Cel",
    "ClaimSpec",
    "Constraint",
    "DeviceClass",
    "DeviceRequest",
    "Document",
    "OtherObject",
    "Parameters",
    "Request",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "load_manifests",
    "parse_document",
    "parse_label",
    "parse_manifests",
    "parse_subdomain",
]
