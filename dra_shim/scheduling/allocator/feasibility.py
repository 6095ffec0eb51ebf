"""Claims that no search can allocate, rejected before the search."""

from collections.abc import Iterator, Mapping

from dra_shim.resourceapi import MAX_DEVICES, ClaimRequest, ClaimSpec, DeviceClass
from dra_shim.scheduling.allocator.errors import AllocationError


def check_feasible(label: str, spec: ClaimSpec, classes: Mapping[str, DeviceClass]) -> None:
    """Reject a claim without devices or with too many, and one with an unknown or invalid class.

    Raises:
        AllocationError: all invalid requests with their errors.
    """
    lines = [f"claim {label}: {reason}" for reason in _reasons(spec, classes)]
    if lines:
        raise AllocationError(lines)


def _reasons(spec: ClaimSpec, classes: Mapping[str, DeviceClass]) -> Iterator[str]:
    yield from spec.violations
    if not spec.requests and not spec.violations:
        yield "requests no device; add a request"
    for request in spec.requests:
        yield from _unusable_classes(request, classes)
    yield from too_many_devices(spec)


def too_many_devices(spec: ClaimSpec) -> Iterator[str]:
    """Yield an error for a claim that requests more devices than one can hold."""
    total = sum(
        min(alternative.count for alternative in request.alternatives) for request in spec.requests
    )
    if total > MAX_DEVICES:
        yield f"requests {total} devices; a claim holds at most {MAX_DEVICES}, use several claims"


def _unusable_classes(request: ClaimRequest, classes: Mapping[str, DeviceClass]) -> Iterator[str]:
    for alternative in request.alternatives:
        name = alternative.device_class
        if name not in classes:
            found = ", ".join(sorted(classes)) or "none"
            yield (
                f"request {alternative.name}: no class {name!r} (found: {found}); correct the "
                "name, create it, or add its file"
            )
        else:
            yield from classes[name].violations
