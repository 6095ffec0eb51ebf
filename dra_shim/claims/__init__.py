"""Documents of resource.k8s.io → typed values, or every rule of the API server they break.

manifests.py   YAML or JSON text → plain documents
names.py       the name rules of Kubernetes
kinds.py       what a claim, a template and a class are here
offers.py      what a slice and its devices are here
devices.py     `spec.devices` of a claim: requests, constraints, configuration
needs.py       what a request tolerates and asks of a capacity
slices.py      `spec` of a slice: devices, counters, taints
taken.py       `status` of a claim: what it has
allocated.py   a claim that is to be prepared: its devices, parameters and pods
pods.py        a pod that has it: which containers list it, whether it ended
workloads.py   what makes pods: the claims that they have and list
parse.py       one document → one value, by apiVersion and kind
"""

from dra_shim.claims.allocated import AllocatedClaim, Consumer, Result, read_allocated
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
    Toleration,
)
from dra_shim.claims.names import parse_label, parse_subdomain
from dra_shim.claims.offers import (
    Capacity,
    Counter,
    DeviceId,
    Offer,
    Policy,
    ResourceSlice,
    Taint,
    Taken,
)
from dra_shim.claims.parse import parse_document, parse_manifests
from dra_shim.claims.pods import PodUse, is_over, read_pod_use
from dra_shim.claims.taken import recorded_amounts
from dra_shim.claims.workloads import PodClaimEntry, PodContainer, PodSpec, Workload

__all__ = [
    "MAX_DEVICES",
    "AllocatedClaim",
    "Capacity",
    "Cel",
    "ClaimSpec",
    "Constraint",
    "Consumer",
    "Counter",
    "DeviceClass",
    "DeviceId",
    "DeviceRequest",
    "Document",
    "Offer",
    "OtherObject",
    "Parameters",
    "PodClaimEntry",
    "PodContainer",
    "PodSpec",
    "PodUse",
    "Policy",
    "Request",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
    "Result",
    "Taint",
    "Taken",
    "Toleration",
    "Workload",
    "is_over",
    "parse_document",
    "parse_label",
    "parse_manifests",
    "parse_subdomain",
    "read_allocated",
    "read_pod_use",
    "recorded_amounts",
]
