"""Allocated claim from the API server: its devices, parameters and consumers.

The server validated the claim, so fields of newer versions are ignored. `spec` is not read:
`status` contains everything that the node needs. Only the parameters come from a user, and are
validated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dra_shim.resourceapi.allocation_result import consumed_of, device_of, result_items
from dra_shim.resourceapi.slice_types import DeviceId
from dranet_nri.config import ConfigEntry, ConfigSource, Node, Violations
from dranet_nri.config.json_cursor import (
    Fields,
    items_of,
    object_of,
    required,
    required_text,
    text_of,
)
from dranet_nri.model import DRIVER_NAME, ObjectRef, parse_uid

# Set by the controller that creates claims from templates (k8s.io/api/resource).
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"


@dataclass(frozen=True, slots=True)
class Result:
    """One allocated device of this driver.

    Attributes:
        request: "req", or "req/sub" for firstAvailable.
        device: driver, pool, device.
        share_id: id of a share of the device, "" for the whole device.
        admin_access: the claim only observes the device.
        consumed: (capacity, amount) of a share.
    """

    request: str
    device: DeviceId
    share_id: str = ""
    admin_access: bool = False
    consumed: tuple[tuple[str, Fraction], ...] = ()


@dataclass(frozen=True, slots=True)
class Consumer:
    """Consumer of a claim; resource is "pods", or for example "podgroups" of another group."""

    resource: str
    name: str
    uid: str

    def __str__(self) -> str:
        """Return the name, with the kind as a prefix unless it is a pod."""
        return self.name if self.resource == "pods" else f"{self.resource}/{self.name}"


@dataclass(frozen=True, slots=True)
class AllocatedClaim:
    """Allocation of a claim from this driver.

    Attributes:
        allocated: whether it has an allocation, also if only from other drivers.
        results: devices of this driver, in the order of the allocation.
        configs: parameters of class and claim for this driver, in the order of the allocation.
        pod_claim_name: its name in the pod if it was created from a template, otherwise "".
    """

    ref: ObjectRef
    allocated: bool = False
    results: tuple[Result, ...] = ()
    configs: tuple[ConfigEntry, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    pod_claim_name: str = ""


def read_allocated(document: Mapping[str, object]) -> AllocatedClaim:
    """Return the allocation of a ResourceClaim (v1, v1beta2 or v1beta1, with the same status).

    Raises:
        ConfigError: the document is invalid; names the path.
    """
    findings = Violations()
    node = Node(document, "", findings)
    fields = node.present()
    metadata = required(node, fields, "metadata")
    status = fields.get("status") or Node({}, "status", findings)
    status_fields = status.present()
    allocation = status_fields.get("allocation")
    ref, pod_claim_name = _metadata(metadata) if metadata else (ObjectRef("", "", ""), "")
    claim = AllocatedClaim(
        ref,
        allocated=allocation is not None,
        results=tuple(_results(status)),
        configs=tuple(_configs(allocation)) if allocation else (),
        consumers=tuple(map(_consumer, items_of(status_fields, "reservedFor"))),
        pod_claim_name=pod_claim_name,
    )
    findings.raise_if_any()
    return claim


def _metadata(node: Node) -> tuple[ObjectRef, str]:
    fields = node.present()
    ref = ObjectRef(
        required_text(node, fields, "namespace"),
        required_text(node, fields, "name"),
        required_text(node, fields, "uid", parse_uid),
    )
    return ref, text_of(object_of(fields, "annotations"), POD_CLAIM_NAME)


def _results(status: Node) -> Iterator[Result]:
    for item in result_items(status):
        fields = item.present()
        device, share, admin = device_of(item, fields)
        if device[0] == DRIVER_NAME:
            request = required_text(item, fields, "request")
            yield Result(request, device, share, admin, consumed_of(fields))


def _configs(allocation: Node) -> Iterator[ConfigEntry]:
    """Read `devices.config`; the paths in messages are those in claim and class."""
    devices = object_of(allocation.present(), "devices")
    counts = dict.fromkeys(ConfigSource, 0)
    for item in items_of(devices, "config"):
        fields = item.present()
        source = required(item, fields, "source")
        word = source.word(list(ConfigSource)) if source else None
        if word is None:
            continue
        origin = ConfigSource(word)
        place = f"{_PLACES[origin]}[{counts[origin]}].opaque.parameters"
        counts[origin] += 1
        yield from _config(fields, origin, place)


_PLACES: Final = {
    ConfigSource.CLASS: "class spec.config",
    ConfigSource.CLAIM: "claim spec.devices.config",
}


def _config(fields: Fields, origin: ConfigSource, place: str) -> Iterator[ConfigEntry]:
    opaque = object_of(fields, "opaque")
    if text_of(opaque, "driver") != DRIVER_NAME or "parameters" not in opaque:
        return
    parameters = opaque["parameters"].value
    if not isinstance(parameters, Mapping):
        opaque["parameters"].report("must be an object")
        return
    requests = items_of(fields, "requests")
    names = tuple(name for request in requests if (name := request.text()) is not None)
    yield ConfigEntry(origin, DRIVER_NAME, parameters, names, place)


def _consumer(node: Node) -> Consumer:
    fields = node.present()
    group = text_of(fields, "apiGroup")
    resource = required_text(node, fields, "resource")
    return Consumer(
        f"{resource}.{group}" if group else resource,
        required_text(node, fields, "name"),
        required_text(node, fields, "uid"),
    )
