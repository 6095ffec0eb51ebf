"""What claims may ask for and this version cannot allocate: refused by name, before any search."""

from collections.abc import Iterator, Mapping

from dra_shim.allocator.errors import AllocationError
from dra_shim.claims import MAX_DEVICES, ClaimSpec, DeviceClass, Request


def check_supported(label: str, spec: ClaimSpec, classes: Mapping[str, DeviceClass]) -> None:
    """Refuse a claim that asks for more than this version can do.

    Raises:
        AllocationError: names each request or constraint and what it asks for.
    """
    lines = [f"claim {label}: {reason}" for reason in _reasons(spec, classes)]
    if lines:
        raise AllocationError(lines)


def _reasons(spec: ClaimSpec, classes: Mapping[str, DeviceClass]) -> Iterator[str]:
    if not spec.requests:
        yield "requests no device; add a request"
    for request in spec.requests:
        yield from _request_reasons(request, classes)
    for constraint in spec.constraints:
        if constraint.distinct:
            yield (
                f"{constraint.path}: distinctAttribute is not supported by this version; remove it"
            )
    total = sum(part.count for request in spec.requests for part in request.alternatives)
    if total > MAX_DEVICES:
        yield f"asks for {total} devices; a claim holds at most {MAX_DEVICES}, use several claims"


def _request_reasons(request: Request, classes: Mapping[str, DeviceClass]) -> Iterator[str]:
    title = f"request {request.name}"
    if [part.name for part in request.alternatives] != [request.name]:
        yield f"{title}: firstAvailable is not supported by this version; use exactly"
        return
    (part,) = request.alternatives
    for asked, what in (
        (part.every, "allocationMode All is"),
        (part.admin_access, "adminAccess is"),
        (bool(part.capacity), "capacity requests are"),
    ):
        if asked:
            yield f"{title}: {what} not supported by this version; remove it"
    if part.device_class not in classes:
        known = ", ".join(sorted(classes)) or "none"
        yield (
            f"{title}: class {part.device_class!r} is not among the given files (found: {known}); "
            "add the file that holds it"
        )
