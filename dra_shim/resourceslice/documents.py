"""Slice documents: written in each version of the API; only fields for the controller are read.

Origin: k8s.io/api/resource v1, v1beta2, v1beta1 (devices under `basic`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from dra_shim.cel.values import OneOrMore
from dra_shim.kubeapi import Document, Object, name_of, object_at, objects_at, uid_of, version_of
from dra_shim.resourceapi import Capacity, CounterValue, SliceDevice, Taint
from dra_shim.resourceslice.layout import SliceContent
from dranet_nri.model import DRIVER_NAME, AttributeValue, Version

FLAT: Final = "v1beta1"  # only in this version devices are under `basic`
_SUFFIXES: Final = tuple("EPTGMk")
# In Python, a bool is an int.
_TYPES: Final = {"bool": bool, "int": int, "string": str, "version": Version}

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SlicePool:
    """Common fields of all slices of a pool.

    Attributes:
        node: name of the node and of the pool.
        node_uid: UID of the Node that owns it.
        version: API version of written documents.
    """

    node: str
    node_uid: str
    version: str = "v1"


@dataclass(frozen=True, slots=True)
class PublishedSlice:
    """A slice on the server.

    Attributes:
        version: resourceVersion.
        generation: generation of its pool.
        owners: UIDs of the Nodes that own it.
        devices: names of its devices.
        spec: its normalized spec.
        document: the whole document.
    """

    name: str
    uid: str
    version: str
    pool: str
    generation: int
    owners: tuple[str, ...]
    devices: tuple[str, ...]
    spec: Spec
    document: Document = field(compare=False)


def read_published(document: Document) -> PublishedSlice:
    """Return the fields of a slice that the controller uses; invalid fields count as missing."""
    spec = object_at(document, "spec")
    pool = object_at(spec, "pool")
    generation = pool.get("generation")
    return PublishedSlice(
        name_of(document),
        uid_of(document),
        version_of(document),
        str(pool.get("name") or ""),
        generation if isinstance(generation, int) else 0,
        tuple(str(owner.get("uid")) for owner in _owners(document) if _is_node(owner)),
        tuple(str(device.get("name")) for device in _devices(spec)),
        normalized(spec),
        document,
    )


def normalized(spec: Spec) -> Spec:
    """Return a normalized spec: without times of taints and without empty fields."""
    found: Spec = _normalized(spec)
    return found


def spec_of(pool: SlicePool, content: SliceContent, generation: int, slices: int) -> Object:
    """Return the spec of a slice.

    Args:
        pool: common fields of all slices.
        content: content of this slice.
        generation: generation of the pool.
        slices: number of slices in this generation.
    """
    spec: Object = {
        "driver": DRIVER_NAME,
        "nodeName": pool.node,
        "pool": {"name": pool.node, "generation": generation, "resourceSliceCount": slices},
    }
    if content.counters:
        return {**spec, "sharedCounters": _counters(content.counters, "name")}
    return {**spec, "devices": [_device(pool, device) for device in content.devices]}


def new_document(pool: SlicePool, content: SliceContent, spec: Spec) -> Object:
    """Return the document of a new slice."""
    owners = [_owner(pool)]
    return {"metadata": {"name": content.name, "ownerReferences": owners}, "spec": dict(spec)}


def changed_document(pool: SlicePool, previous: PublishedSlice, spec: Spec) -> Object:
    """Return a published slice with another spec, owned by the current Node.

    Metadata of other writers and the times of unchanged taints stay.
    """
    metadata = object_at(previous.document, "metadata")
    owners = [owner for owner in _owners(previous.document) if not _is_node(owner)]
    return {
        **previous.document,
        "metadata": {**metadata, "ownerReferences": [*owners, _owner(pool)]},
        "spec": _with_times(spec, object_at(previous.document, "spec")),
    }


def first_device(document: Document) -> Spec:
    """Return the first device of a slice, in any version; empty if there is none."""
    return next(map(_body, objects_at(document, "spec", "devices")), {})


def _owner(pool: SlicePool) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "name": pool.node,
        "uid": pool.node_uid,
        "controller": True,
    }


# --------------------------------------------------------------------------- writing


def _device(pool: SlicePool, device: SliceDevice) -> Object:
    body: Object = {}
    if device.attributes:
        body["attributes"] = {name: _attribute(value) for name, value in device.attributes}
    if device.capacity:
        body["capacity"] = {amount.name: _capacity(amount) for amount in device.capacity}
    if device.counters:
        body["consumesCounters"] = _counters(device.counters, "counterSet")
    if device.taints:
        body["taints"] = [_taint(taint) for taint in device.taints]
    if device.shared:
        body["allowMultipleAllocations"] = True
    return {"name": device.name, **({"basic": body} if pool.version == FLAT else body)}


def _attribute(value: OneOrMore) -> Object:
    if isinstance(value, tuple):
        return {f"{_kind(value[0])}s": [_plain(element) for element in value]}
    return {_kind(value): _plain(value)}


def _kind(value: AttributeValue) -> str:
    return next(name for name, type_ in _TYPES.items() if isinstance(value, type_))


def _plain(value: AttributeValue) -> bool | int | str:
    return value.text if isinstance(value, Version) else value


def _capacity(capacity: Capacity) -> Object:
    written: Object = {"value": quantity(capacity.value)}
    policy = capacity.policy
    if policy.default is None or policy.minimum is None:
        return written
    bounds = {"min": policy.minimum, "max": policy.maximum, "step": policy.step}
    limits = {name: quantity(value) for name, value in bounds.items() if value is not None}
    written["requestPolicy"] = {"default": quantity(policy.default), "validRange": limits}
    return written


def quantity(amount: Fraction) -> str:
    """Return a whole amount in the canonical form of the server: "100G", "1500M", "7"."""
    assert amount.denominator == 1, "this driver publishes whole amounts only"
    for power, suffix in zip(range(len(_SUFFIXES), 0, -1), _SUFFIXES, strict=True):
        if amount and amount % 1000**power == 0:
            return f"{amount // 1000**power}{suffix}"
    return str(amount)


def _counters(counters: Sequence[CounterValue], title: str) -> list[Object]:
    """Return counters by counter set, ordered by the names of the sets."""
    names = sorted({counter.set for counter in counters})
    return [
        {
            title: name,
            "counters": {
                counter.name: {"value": quantity(counter.value)}
                for counter in counters
                if counter.set == name
            },
        }
        for name in names
    ]


def _taint(taint: Taint) -> Object:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect}


def _with_times(spec: Spec, previous: Spec) -> Spec:
    """Return the spec with timeAdded of the taints that the published spec has too."""
    times: dict[tuple[object, ...], object] = {}
    for device in _devices(previous):
        for taint in objects_at(_body(device), "taints"):
            times[(device.get("name"), *_taint_key(taint))] = taint.get("timeAdded")

    def timed(device: Spec, taint: Spec) -> Spec:
        time = times.get((device.get("name"), *_taint_key(taint)))
        return {**taint, "timeAdded": time} if time else taint

    def with_body(device: Spec) -> Spec:
        body = _body(device)
        if not body.get("taints"):
            return device
        taints = [timed(device, taint) for taint in objects_at(body, "taints")]
        if "basic" in device:
            return {**device, "basic": {**body, "taints": taints}}
        return {**device, "taints": taints}

    if "devices" not in spec:
        return spec
    return {**spec, "devices": [with_body(device) for device in _devices(spec)]}


def _taint_key(taint: Spec) -> tuple[object, ...]:
    return taint.get("key"), taint.get("value"), taint.get("effect")


# --------------------------------------------------------------------------- reading


def _normalized(value: Any) -> Any:  # noqa: ANN401 - whatever JSON may be
    if isinstance(value, Mapping):
        fields = {
            name: _normalized(member) for name, member in value.items() if name != "timeAdded"
        }
        return {name: member for name, member in fields.items() if member not in (None, [], {})}
    return [_normalized(element) for element in value] if isinstance(value, list) else value


def _devices(spec: Spec) -> list[Spec]:
    return objects_at(spec, "devices")


def _owners(document: Document) -> list[Spec]:
    return objects_at(document, "metadata", "ownerReferences")


def _is_node(owner: Spec) -> bool:
    return owner.get("kind") == "Node"


def _body(device: Spec) -> Spec:
    return object_at(device, "basic") or device
