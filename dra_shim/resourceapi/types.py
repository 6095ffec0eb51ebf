"""Claims, templates and classes, independent of the API version."""

from dataclasses import dataclass
from fractions import Fraction

from dra_shim.resourceapi.slice_types import AllocatedResult, ResourceSlice, Taint
from dra_shim.resourceapi.workloads import Workload
from dranet_nri.config import ConfigEntry
from dranet_nri.model import NetworkConfig


@dataclass(frozen=True, slots=True)
class Cel:
    """Expression of a selector, and its path in the document."""

    expression: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """Taints that a request tolerates; an empty field matches all.

    Attributes:
        exists: operator Exists, which matches any value.
        effect: "NoSchedule" or "NoExecute".
    """

    key: str = ""
    value: str = ""
    exists: bool = False
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the taint is tolerated, by the rules for taints of nodes."""
        if self.effect not in {"", taint.effect}:
            return False
        if self.key not in {"", taint.key}:
            return False
        return self.exists or self.value == taint.value


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """Devices of one class: `exactly`, or one entry of `firstAvailable`.

    Attributes:
        name: name in the allocation result, "req" or "req/sub".
        count: number of devices; ignored with all_devices.
        all_devices: allocationMode All.
        capacity: (name, amount) required of each device.
    """

    name: str
    device_class: str
    selectors: tuple[Cel, ...] = ()
    count: int = 1
    all_devices: bool = False
    admin_access: bool = False
    capacity: tuple[tuple[str, Fraction], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """One entry of `requests`; more than one alternative, or a "/", means firstAvailable."""

    name: str
    alternatives: tuple[DeviceRequest, ...]


@dataclass(frozen=True, slots=True)
class Constraint:
    """Devices must have the same value of an attribute, or pairwise different values.

    Attributes:
        attribute: fully qualified name.
        requests: "req" or "req/sub"; empty for all.
        distinct: whether it is a distinctAttribute.
    """

    attribute: str
    requests: tuple[str, ...] = ()
    distinct: bool = False
    path: str = ""

    @property
    def kind(self) -> str:
        """Return the name of its field."""
        return "distinctAttribute" if self.distinct else "matchAttribute"

    def covers(self, request: str) -> bool:
        """Return whether the constraint applies to a request, or to the request of a subrequest."""
        main = request.partition("/")[0]
        return not self.requests or request in self.requests or main in self.requests


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    """`spec` of a claim; each of `configs` for this driver is a valid entry, maybe not complete.

    Attributes:
        violations: why the spec of a stored claim was not read.
    """

    requests: tuple[ClaimRequest, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    configs: tuple[ConfigEntry, ...] = ()
    violations: tuple[str, ...] = ()

    @property
    def alternatives(self) -> tuple[DeviceRequest, ...]:
        """Return the alternatives of all requests."""
        return tuple(
            alternative for request in self.requests for alternative in request.alternatives
        )


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A claim; namespace and uid are "" if the document has none.

    Attributes:
        allocated: its allocated devices, from the status, without adminAccess.
    """

    namespace: str
    name: str
    uid: str
    spec: ClaimSpec
    allocated: tuple[AllocatedResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceClaimTemplate:
    """A template of claims; namespace is "" if the document has none."""

    namespace: str
    name: str
    spec: ClaimSpec


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """Selectors and configuration that a request inherits.

    Attributes:
        violations: why the spec of a stored class was not read.
    """

    name: str
    selectors: tuple[Cel, ...] = ()
    configs: tuple[ConfigEntry, ...] = ()
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameters:
    """A bare NetworkConfig, without apiVersion and kind."""

    config: NetworkConfig


@dataclass(frozen=True, slots=True)
class OtherObject:
    """An object of another kind in the same file, which is ignored."""

    kind: str
    name: str


Document = (
    ResourceClaim
    | ResourceClaimTemplate
    | DeviceClass
    | ResourceSlice
    | Parameters
    | Workload
    | OtherObject
)
