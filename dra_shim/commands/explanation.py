"""Explanation of an allocation, as text and as a document.

Rules:
1. The output begins with the decision and the allocated devices, then has one line per request and
   reason, with the number of devices. `--verbose` adds all checks of all devices.
2. A device counts under the first of its reasons: selectors, then taints, then its owner, then
   capacity, then constraints.
3. A selector that fails for a missing value is an error only if it prevents the allocation.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dra_shim.cel.values import show_amount
from dra_shim.scheduling.allocator import (
    AlternativeReport,
    Check,
    CheckOutcome,
    DeviceReport,
    Grant,
)
from dranet_nri.component.output import WIDTH

MAX_NAMED: Final = 4  # devices that a line names; for more it has only the count
_SAME_ROOT: Final = "matchAttribute resource.kubernetes.io/pcieRoot"
_ROOT_REMEDY: Final = (
    "adjacent devices can have different PCIe roots: with Data Direct (ConnectX-8) the "
    "NIC's is another than the GPU's, and some virtual machines show none in common; match "
    "resource.kubernetes.io/numaNode instead"
)
_FIRST_REASONS: Final = ("selector", "usability", "availability", "capacity")


@dataclass(frozen=True, slots=True)
class Explanation:
    """Result for the claims of one pod.

    Attributes:
        title: the pod or its workload; "" for claims without a pod.
        alternatives: all checks of all devices.
        grants: (grant, name of its claim in messages, its configuration).
        reasons: reasons why the claims cannot be allocated, empty if they can.
        unpublished: (device, reason) of excluded devices.
    """

    title: str
    alternatives: tuple[AlternativeReport, ...]
    grants: tuple[tuple[Grant, str, object], ...]
    reasons: tuple[str, ...]
    unpublished: tuple[tuple[str, str], ...] = ()

    @property
    def is_allocatable(self) -> bool:
        """Return whether the claims can be allocated."""
        return not self.reasons


def lines_of(found: Explanation, *, verbose: bool) -> Iterator[str]:
    """Yield the lines of the explanation, at most 100 columns wide.

    Args:
        found: the explanation.
        verbose: with all checks of all devices.
    """
    for line in _lines(found, verbose=verbose):
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        yield from textwrap.wrap(
            line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
            drop_whitespace=True,
        )  # fmt: skip


def document_of(found: Explanation) -> dict[str, object]:
    """Return the explanation as plain JSON values."""
    title = {"workload": found.title} if found.title else {}
    return {
        **title,
        "allocatable": found.is_allocatable,
        "reasons": list(found.reasons),
        "decision": [_grant_document(*given) for given in found.grants],
        "requests": [
            {
                "claim": alternative.claim,
                "request": alternative.request,
                "description": alternative.description,
                "blocked": alternative.blocked,
                "devices": [
                    {
                        **_device_id(report.device.id),
                        "chosen": report.chosen,
                        "checks": [_check_document(check) for check in report.checks],
                    }
                    for report in alternative.devices
                ],
            }
            for alternative in found.alternatives
        ],
        "unpublished": [{"device": name, "reason": why} for name, why in found.unpublished],
    }


# --------------------------------------------------------------------------- the summary


def _lines(found: Explanation, *, verbose: bool) -> Iterator[str]:
    title = f"{found.title}: " if found.title else ""
    yield f"decision: {title}the claims {'can' if found.is_allocatable else 'cannot'} be met"
    yield from (f"  {line}" for line in _grant_lines(found))
    yield from (f"  {line}" for line in found.reasons)
    if not found.is_allocatable and _fails_by_root(found):
        yield f"  {_ROOT_REMEDY}"
    for alternative in found.alternatives:
        yield f"claim {alternative.claim}: request {alternative.request}: {alternative.description}"
        if alternative.blocked:
            yield f"  cannot be met: {alternative.blocked}"
        yield from (f"  {line}" for line in _reason_lines(alternative, found))
    if verbose:
        yield "checks:"
        for alternative in found.alternatives:
            yield from (f"  {line}" for line in _check_lines(alternative, found))


def _grant_lines(found: Explanation) -> Iterator[str]:
    for grant, label, _ in found.grants:
        line = f"claim {label}: request {grant.request}: {'/'.join(grant.device.id)}"
        if grant.admin_access:
            line += ", adminAccess: it is not moved"
        elif grant.share_id:
            amounts = [f"{name} {show_amount(value)}" for name, value in grant.consumed]
            line += f", shared: {', '.join(amounts) or 'no capacity'}"
        yield line


def _reason_lines(alternative: AlternativeReport, found: Explanation) -> Iterator[str]:
    """Yield a line for each reason, with its devices."""
    groups: dict[str, list[str]] = {}
    for report in alternative.devices:
        if not report.chosen:
            text = _reason(report, is_allocatable=found.is_allocatable)
            groups.setdefault(text, []).append(report.device.name)
    for name, why in found.unpublished:
        groups.setdefault(f"not published: {why}", []).append(name)
    for text, names in sorted(groups.items(), key=lambda group: -len(group[1])):
        yield f"{_count(names)}: {text}"


def _count(names: Sequence[str]) -> str:
    count = f"{len(names)} device{'s' if len(names) > 1 else ''}"
    return count if len(names) > MAX_NAMED else f"{count} ({', '.join(names)})"


def _reason(report: DeviceReport, *, is_allocatable: bool) -> str:
    failed = sorted(
        (
            check
            for check in report.checks
            if check.outcome in (CheckOutcome.FAILED, CheckOutcome.ERROR)
        ),
        key=_rank,
    )
    if not failed:
        return "not needed" if is_allocatable else "no reason of its own"
    check = failed[0]
    if check.outcome is CheckOutcome.ERROR and not is_allocatable:
        # The error of a selector names the device, and so does the group.
        text = check.text.replace(f"on device {report.device.name}: ", "")
        return f"error: {check.what}: {text}"
    if _rank(check) == len(_FIRST_REASONS):
        return f"{check.what}: {_without_value(check)}"
    return f"{check.what}: {check.text}"


def _rank(check: Check) -> int:
    kinds = (rank for rank, kind in enumerate(_FIRST_REASONS) if check.what.startswith(kind))
    return next(kinds, len(_FIRST_REASONS))


def _without_value(check: Check) -> str:
    """Return the text of a constraint's check without the value that differs by device."""
    own = f"is {check.values[0][1]}" if check.values else ""
    rest = check.text.removeprefix(own).lstrip(",; ")
    return rest or check.text


def _fails_by_root(found: Explanation) -> bool:
    reports = (report for alternative in found.alternatives for report in alternative.devices)
    checks = (check for report in reports for check in report.checks)
    return any(
        check.what == _SAME_ROOT and check.outcome is CheckOutcome.FAILED for check in checks
    )


# --------------------------------------------------------------------------- every check


def _check_lines(alternative: AlternativeReport, found: Explanation) -> Iterable[str]:
    yield f"claim {alternative.claim}: request {alternative.request}: {alternative.description}"
    for report in alternative.devices:
        yield f"  device {'/'.join(report.device.id)}{': chosen' if report.chosen else ''}"
        for check in report.checks:
            yield f"    {_check_text(check, is_allocatable=found.is_allocatable)}"


def _check_text(check: Check, *, is_allocatable: bool) -> str:
    values = ", ".join(f"{name} is {value}" for name, value in check.values)
    shown = f"  [{values}]" if values and f"is {check.values[0][1]}" != check.text else ""
    harmless = is_allocatable and check.outcome is CheckOutcome.ERROR
    outcome = CheckOutcome.FAILED if harmless else check.outcome
    return f"{outcome:<6}  {check.what}: {check.text}{shown}"


def _grant_document(grant: Grant, label: str, config: object) -> dict[str, object]:
    return {
        "claim": label,
        "request": grant.request,
        **_device_id(grant.device.id),
        "adminAccess": grant.admin_access,
        "shareID": grant.share_id,
        "consumedCapacity": {name: show_amount(value) for name, value in grant.consumed},
        "config": config,
    }


def _check_document(check: Check) -> dict[str, object]:
    return {
        "check": check.what,
        "outcome": str(check.outcome),
        "text": check.text,
        "values": dict(check.values),
    }


def _device_id(identity: tuple[str, str, str]) -> dict[str, str]:
    return dict(zip(("driver", "pool", "device"), identity, strict=True))
