"""ResourceSlices and their devices, independent of the API version."""

from dataclasses import dataclass
from fractions import Fraction

from dra_shim.cel.values import OneOrMore

DeviceId = tuple[str, str, str]  # driver, pool, device


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a device; effect NoSchedule, NoExecute, or None, which only informs."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        """Return key=value:effect, as kubectl writes it."""
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Policy:
    """Rounding of a request for part of a capacity (CapacityRequestPolicy).

    Attributes:
        default: what a request that does not ask consumes; None for all of it.
        values: what may be consumed, ascending; empty for no such list.
        low: the least that is consumed; None for no range.
        high: the most that may be asked.
        step: consumed is low plus a multiple of it.
    """

    default: Fraction | None = None
    values: tuple[Fraction, ...] = ()
    low: Fraction | None = None
    high: Fraction | None = None
    step: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """One capacity of a device, named like an attribute."""

    name: str
    value: Fraction
    policy: Policy = Policy()


@dataclass(frozen=True, slots=True)
class CounterValue:
    """One counter of a counter set: what a pool has of it, or what a device consumes."""

    set: str
    name: str
    value: Fraction


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """A device as its driver publishes it.

    Attributes:
        attributes: (name, value or values); a name without a domain is of the driver's.
        counters: what it consumes of its pool when allocated.
        shared: allowMultipleAllocations.
        node: the one node it is for, "" if the slice says, or any.
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
        """Return what identifies it."""
        return self.driver, self.pool, self.name

    @property
    def lists(self) -> bool:
        """Return whether an attribute has several values, or may have."""
        return any(isinstance(value, tuple) for _, value in self.attributes)

    @property
    def amounts(self) -> tuple[tuple[str, Fraction], ...]:
        """Return (name, amount) of its capacity."""
        return tuple((amount.name, amount.value) for amount in self.capacity)

    def attribute(self, name: str) -> OneOrMore | None:
        """Return an attribute by its qualified name; the driver's own may lack the domain."""
        known = dict(self.attributes)
        value = known.get(name)
        if value is None and name.startswith(f"{self.driver}/"):
            return known.get(name.removeprefix(f"{self.driver}/"))
        return value


@dataclass(frozen=True, slots=True)
class AllocatedResult:
    """A device that a claim has, or its share of one.

    Attributes:
        share_id: of its share, "" if it has the device for itself.
        consumed: (capacity, amount) of its share.
    """

    device: DeviceId
    share_id: str = ""
    consumed: tuple[tuple[str, Fraction], ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Part of a pool.

    Attributes:
        count: how many slices the pool has in this generation.
        node: the one node it is for, "" for several or any.
        counters: of the pool; a slice holds these or devices.
    """

    name: str
    driver: str
    pool: str
    generation: int = 1
    count: int = 1
    node: str = ""
    offers: tuple[SliceDevice, ...] = ()
    counters: tuple[CounterValue, ...] = ()
