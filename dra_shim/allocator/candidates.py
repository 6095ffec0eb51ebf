"""Per request: each device of the node with a verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra_shim.cel import Selector, SelectorError, compile_selector
from dra_shim.claims import Cel, ClaimSpec, Constraint, DeviceClass, DeviceRequest
from dranet_nri.model import DRIVER_NAME, AttributeValue, Device


@dataclass(frozen=True, slots=True)
class Stock:
    """What a node has.

    Attributes:
        devices: publishable devices, in the order they are published.
        in_use: device name → who has it, as messages say it.
        excluded: (name, why) of what the inventory does not publish.
    """

    devices: tuple[Device, ...]
    in_use: Mapping[str, str] = field(default_factory=dict)
    excluded: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device as one request sees it: free to take, out for a reason, or a selector failed."""

    device: Device
    reason: str = ""
    failure: SelectorError | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """One request of one claim: which claim, how many, of what, under which constraints."""

    claim: int
    label: str
    request: DeviceRequest
    candidates: tuple[Candidate, ...]
    constraints: tuple[Constraint, ...]


Claims = Sequence[tuple[str, ClaimSpec]]


def slots_of(claims: Claims, classes: Mapping[str, DeviceClass], stock: Stock) -> tuple[Slot, ...]:
    """Return a slot per request, in order; the claims are of the supported kind.

    Raises:
        SelectorError: a selector is no CEL.
    """
    return tuple(
        Slot(
            index,
            label,
            part,
            _candidates(part, classes[part.device_class], stock),
            tuple(each for each in spec.constraints if each.covers(part.name)),
        )
        for index, (label, spec) in enumerate(claims)
        for request in spec.requests
        for part in request.alternatives
    )


def attribute_of(device: Device, name: str, driver: str = DRIVER_NAME) -> AttributeValue | None:
    """Return an attribute by qualified name; the driver's own may be published without a domain."""
    value = device.attribute(name)
    if value is None and name.startswith(f"{driver}/"):
        return device.attribute(name.removeprefix(f"{driver}/"))
    return value


def typed_attribute(device: Device, name: str) -> tuple[str, AttributeValue] | None:
    """Return an attribute with its type, so that true is not 1; None if the device has none."""
    value = attribute_of(device, name)
    return None if value is None else (type(value).__name__, value)


def _candidates(request: DeviceRequest, cls: DeviceClass, stock: Stock) -> tuple[Candidate, ...]:
    selectors = [
        *(_compiled(cel, f"selector of class {cls.name}") for cel in cls.selectors),
        *(_compiled(cel, "selector of the request") for cel in request.selectors),
    ]
    return tuple(_verdict(device, selectors, stock) for device in stock.devices)


def _compiled(cel: Cel, owner: str) -> tuple[str, Selector]:
    return owner, compile_selector(cel.expression)


def _verdict(device: Device, selectors: Sequence[tuple[str, Selector]], stock: Stock) -> Candidate:
    holder = stock.in_use.get(device.name)
    if holder is not None:
        return Candidate(device, f"in use by {holder}")
    for owner, selector in selectors:
        try:
            if not selector.matches(device):
                return Candidate(
                    device, f"{owner} is false: {' '.join(selector.expression.split())}"
                )
        except SelectorError as error:
            return Candidate(device, failure=error)
    return Candidate(device)
