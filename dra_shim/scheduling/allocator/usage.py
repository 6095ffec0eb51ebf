"""Usage during a search: devices, capacity, counters, and the values that constraints compare.

Rules:
1. distinctAttribute means pairwise different, as documented in the API. Schedulers up to 1.35 keep
   one value per request, so that of three devices the third is compared only with the second. A
   claim that is met only that way is refused here, and no claim is allocated that they would
   refuse.
2. A device with adminAccess is free after the search. During the search, it consumes counters and
   capacity like any other, is allocated to a claim only once, and a later request of the pod cannot
   have it exclusively.
3. Values are compared as sets, a single value as a set of one (KEP-5491): sets match if they
   intersect, and are distinct if they do not.
4. All shares of a shared device consume the counters of its pool once.
5. A pool with an overdrawn counter allocates no device that consumes counters.
"""

from fractions import Fraction

from dra_shim.cel.values import show_amount
from dra_shim.resourceapi import Constraint, DeviceId, SliceDevice
from dra_shim.scheduling.allocator.candidates import Candidate, RequestAlternative, show_attribute
from dra_shim.scheduling.allocator.pools import PoolSet
from dranet_nri.model import AttributeValue

# With the type, because True == 1 in Python.
Values = frozenset[tuple[str, AttributeValue]]


class Usage:
    """Usage during one search. Devices are released in reverse order."""

    def __init__(self, pool_set: PoolSet) -> None:
        """Start with the devices that are in use."""
        self._takers: dict[DeviceId, list[RequestAlternative]] = {}
        self._shared = frozenset(pool_set.shares)
        self._consumed = {
            (device, name): amount
            for device, amounts in pool_set.shares.items()
            for name, amount in amounts.items()
        }
        self._compared: dict[tuple[int, Constraint], list[Values]] = {}
        self._left: dict[tuple[str, str, str, str], Fraction] = {}
        for pool in pool_set.pools:
            for counter in pool.counters:
                key = (pool.driver, pool.name, counter.set, counter.name)
                self._left[key] = counter.value
            for device in (*pool.devices, *pool.elsewhere):
                if device.id in pool_set.in_use or device.id in pool_set.shares:
                    self._draw(device, -1)

    def unavailable(self, alternative: RequestAlternative, candidate: Candidate) -> str:
        """Return why a device is not available to an alternative now, "" if it is."""
        return self.taken(alternative, candidate) or self.exhausted(candidate)

    def violation(self, alternative: RequestAlternative, candidate: Candidate) -> str:
        """Return how a device violates a constraint of an alternative, "" if it does not."""
        conflicts = (
            self.conflict(alternative, candidate.device, constraint)
            for constraint in alternative.constraints
        )
        return next(filter(None, conflicts), "")

    def taken(self, alternative: RequestAlternative, candidate: Candidate) -> str:
        """Return the owner of an exclusive device, "" if there is none."""
        takers = self._takers.get(candidate.device.id, [])
        if candidate.device.shared:
            return ""
        if alternative.request.admin_access:
            takers = [taker for taker in takers if taker.claim == alternative.claim]
        return (
            f"given to claim {takers[0].label} request {takers[0].request.name}" if takers else ""
        )

    def exhausted(self, candidate: Candidate) -> str:
        """Return the exhausted capacity or counter, "" if there is none."""
        device = candidate.device
        values = dict(device.amounts)
        for name, amount in candidate.share.amounts:
            left = values[name] - self._consumed.get((device.id, name), Fraction())
            if amount > left:
                return f"capacity {name}: needs {show_amount(amount)}, {show_amount(left)} is left"
        if self._draws_already(device):
            return ""
        for used in device.counters:
            left = self._left.get((device.driver, device.pool, used.set, used.name), Fraction())
            if used.value > left:
                return (
                    f"counter {used.set}/{used.name}: needs {show_amount(used.value)}, "
                    f"{show_amount(left)} is left"
                )
        return self._overdrawn(device) if device.counters else ""

    def conflict(
        self, alternative: RequestAlternative, device: SliceDevice, constraint: Constraint
    ) -> str:
        """Return how a device violates a constraint, "" if it does not."""
        values = values_of(device, constraint.attribute)
        if not values:
            return f"{constraint.kind} {constraint.attribute}: the device has no such attribute"
        others = self._compared.get((alternative.claim, constraint), [])
        if constraint.distinct:
            common = next((other & values for other in others if other & values), None)
            if common:
                shown = _shown(common)
                return f"{constraint.kind} {constraint.attribute}: another device has {shown} too"
        elif not values.intersection(*others):
            return (
                f"{constraint.kind} {constraint.attribute}: is {_shown(values)}, "
                f"other devices have {_shown(others[0].intersection(*others))}"
            )
        return ""

    def reserve(self, alternative: RequestAlternative, candidate: Candidate) -> None:
        """Reserve a device that has no conflict."""
        device = candidate.device
        if not self._draws_already(device):
            self._draw(device, -1)
        self._takers.setdefault(device.id, []).append(alternative)
        self._consume(candidate, 1)
        for constraint in alternative.constraints:
            values = values_of(device, constraint.attribute)
            assert values, "a device without the attribute has a conflict"
            self._compared.setdefault((alternative.claim, constraint), []).append(values)

    def release(self, alternative: RequestAlternative, candidate: Candidate) -> None:
        """Release the device that was reserved last."""
        device = candidate.device
        self._takers[device.id].pop()
        self._consume(candidate, -1)
        if not self._draws_already(device):
            self._draw(device, 1)
        for constraint in alternative.constraints:
            self._compared[alternative.claim, constraint].pop()

    def _draws_already(self, device: SliceDevice) -> bool:
        return device.shared and (device.id in self._shared or bool(self._takers.get(device.id)))

    def _overdrawn(self, device: SliceDevice) -> str:
        for (driver, pool, group, name), left in self._left.items():
            if left < 0 and (driver, pool) == (device.driver, device.pool):
                return (
                    f"counter {group}/{name} of the pool is overdrawn by {show_amount(-left)}, so "
                    "the scheduler allocates no device of it that consumes counters; free a device "
                    f"of {group}"
                )
        return ""

    def _consume(self, candidate: Candidate, sign: int) -> None:
        for name, amount in candidate.share.amounts:
            key = (candidate.device.id, name)
            self._consumed[key] = self._consumed.get(key, Fraction()) + sign * amount

    def _draw(self, device: SliceDevice, sign: int) -> None:
        for used in device.counters:
            key = (device.driver, device.pool, used.set, used.name)
            self._left[key] = self._left.get(key, Fraction()) + sign * used.value


def values_of(device: SliceDevice, name: str) -> Values:
    """Return the values of an attribute with their type; none if the device does not have it."""
    value = device.attribute(name)
    if value is None:
        return frozenset()
    several = value if isinstance(value, tuple) else (value,)
    return frozenset((type(entry).__name__, entry) for entry in several)


def _shown(values: Values) -> str:
    several = tuple(sorted((value for _, value in values), key=show_attribute))
    return show_attribute(several if len(several) > 1 else several[0])
