"""ResourceSlices and their devices, independent of the API version."""

from dataclasses import dataclass
from fractions import Fraction

from dra_shim.cel.values import OneOrMore

DeviceId = tuple[str, str, str]  # driver, pool, device


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a device; effect NoSchedule, NoExecute, or None, which is informational."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        """Return key=value:effect, as in kubectl."""
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Policy:
    """Rounding of a request for a part of a capacity (CapacityRequestPolicy).

    Attributes:
        default: consumption of a request without an amount; None for the whole capacity.
        values: allowed consumption, ascending; empty without a list.
        minimum: minimum consumption; None without a range.
        maximum: maximum of a request, None without one.
        step: consumption is the minimum plus a multiple of it; None for any.
    """

    default: Fraction | None = None
    values: tuple[Fraction, ...] = ()
    minimum: Fraction | None = None
    maximum: Fraction | None = None
    step: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """One capacity of a device, named like an attribute."""

    name: str
    value: Fraction
    policy: Policy = Policy()


@dataclass(frozen=True, slots=True)
class CounterValue:
    """One counter of a counter set: amount in the pool, or consumption of a device."""

    set: str
    name: str
    value: Fraction


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """A published device.

    Attributes:
        attributes: (name, value or values); a name without a domain has that of the driver.
        counters: counters of the pool that it consumes when allocated.
        shared: allowMultipleAllocations.
        node: name of its node, "" if the slice has it, or for several nodes.
    """

    driver: str
    pool: str
    name: str
    attributes: tuple[tuple[str, OneOrMore], ...] = ()
    capacity: tuple[Capacity, ...] = ()
    counters: tuple[CounterValue, ...] = ()
    taints: tuple[Taint, ...] = ()
    shared: bool = False
    node: str = ""

    @property
    def id(self) -> DeviceId:
        """Return its identity."""
        return self.driver, self.pool, self.name

    @property
    def lists(self) -> bool:
        """Return whether an attribute has, or can have, several values."""
        return any(isinstance(value, tuple) for _, value in self.attributes)

    @property
    def amounts(self) -> tuple[tuple[str, Fraction], ...]:
        """Return (name, amount) pairs of its capacity."""
        return tuple((amount.name, amount.value) for amount in self.capacity)

    def attribute(self, name: str) -> OneOrMore | None:
        """Return an attribute by its qualified name; the driver's own can lack the domain."""
        attributes = dict(self.attributes)
        value = attributes.get(name)
        if value is None and name.startswith(f"{self.driver}/"):
            return attributes.get(name.removeprefix(f"{self.driver}/"))
        return value


@dataclass(frozen=True, slots=True)
class AllocatedResult:
    """An allocated device, or a share of one.

    Attributes:
        share_id: id of the share, "" for the whole device.
        consumed: (capacity, amount) pairs of the share.
    """

    device: DeviceId
    share_id: str = ""
    consumed: tuple[tuple[str, Fraction], ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Part of a pool.

    Attributes:
        count: number of slices of the pool in this generation.
        node: name of its node, "" for several nodes.
        counters: counter sets of the pool; a slice has either these or devices.
    """

    name: str
    driver: str
    pool: str
    generation: int = 1
    count: int = 1
    node: str = ""
    devices: tuple[SliceDevice, ...] = ()
    counters: tuple[CounterValue, ...] = ()
