"""Objects of resource.k8s.io as typed values, or all API rules that they violate.

manifests.py          YAML or JSON text → plain documents
types.py              claims, templates and classes
slice_types.py        slices and their devices
claim_spec.py         `spec.devices` of a claim: requests, constraints, configuration
requirements.py       tolerations and capacity of a request
slice_spec.py         `spec` of a slice: devices, counters, taints
allocation_result.py  `status.allocation` of a claim: its devices
allocated_claim.py    a claim to prepare: its devices, parameters and pods
pod.py                a pod of a claim: the containers that list it, its phase
workloads.py          objects with pods: the claims of the pods, and their containers
decode.py             one document → one value, by apiVersion and kind
"""

from dra_shim.resourceapi.allocated_claim import AllocatedClaim, Consumer, Result, read_allocated
from dra_shim.resourceapi.allocation_result import recorded_amounts
from dra_shim.resourceapi.claim_spec import MAX_DEVICES
from dra_shim.resourceapi.decode import parse_document, parse_manifests, parse_stored
from dra_shim.resourceapi.pod import PodUse, has_ended, read_pod_use
from dra_shim.resourceapi.slice_types import (
    AllocatedResult,
    Capacity,
    CounterValue,
    DeviceId,
    Policy,
    ResourceSlice,
    SliceDevice,
    Taint,
)
from dra_shim.resourceapi.types import (
    Cel,
    ClaimRequest,
    ClaimSpec,
    Constraint,
    DeviceClass,
    DeviceRequest,
    Document,
    OtherObject,
    Parameters,
    ResourceClaim,
    ResourceClaimTemplate,
    Toleration,
)
from dra_shim.resourceapi.workloads import PodClaimEntry, PodContainer, PodSpec, Workload

__all__ = [
    "MAX_DEVICES",
    "AllocatedClaim",
    "AllocatedResult",
    "Capacity",
    "Cel",
    "ClaimRequest",
    "ClaimSpec",
    "Constraint",
    "Consumer",
    "CounterValue",
    "DeviceClass",
    "DeviceId",
    "DeviceRequest",
    "Document",
    "OtherObject",
    "Parameters",
    "PodClaimEntry",
    "PodContainer",
    "PodSpec",
    "PodUse",
    "Policy",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
    "Result",
    "SliceDevice",
    "Taint",
    "Toleration",
    "Workload",
    "has_ended",
    "parse_document",
    "parse_manifests",
    "parse_stored",
    "read_allocated",
    "read_pod_use",
    "recorded_amounts",
]
