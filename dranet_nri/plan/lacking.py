"""Inherited configuration that a pod can lack after the kernel refused it.

Rules:
1. Inherited configuration is left out if the reason of the refusal lasts. The attach fails if the
   reason may pass (no memory, a busy device), or if the claim asks for the configuration.
"""

from collections.abc import Collection, Sequence
from errno import (
    EACCES,
    EADDRNOTAVAIL,
    EAFNOSUPPORT,
    EEXIST,
    EHOSTUNREACH,
    EINVAL,
    ENETDOWN,
    ENETUNREACH,
    ENOENT,
    EOPNOTSUPP,
    EPERM,
)
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.plan.inherit import Inherited
from dranet_nri.plan.ops import AddAddress, AddNeighbour, AddRoute, AddRule, Op
from dranet_nri.plan.rate import NOT_LIMITED, LimitRate
from dranet_nri.plan.refusals import explained

MAX_WARNINGS: Final = 6  # lines; a NIC may have hundreds of routes, and its record has bounds
# IPv6 is off, another one has its place, there is no way to a gateway, or no such thing.
LASTING: Final = frozenset(
    {EACCES, EADDRNOTAVAIL, EAFNOSUPPORT, EEXIST, EHOSTUNREACH, EINVAL, ENETDOWN, ENETUNREACH}
    | {ENOENT, EOPNOTSUPP, EPERM}
)

Refused = Sequence[tuple[Op, KernelError]]


def may_lack(inherited: Collection[Inherited], op: Op, error: KernelError) -> bool:
    """Whether the pod can do without what the kernel refused."""
    match op:
        case AddAddress(address=what) | AddRoute(route=what):
            return what in inherited and error.code in LASTING
        case AddRule(rule=what) | AddNeighbour(neighbour=what):
            return what in inherited and error.code in LASTING
        case LimitRate():
            return error.code in NOT_LIMITED
        case _:
            return False


def warning_lines(planned: Sequence[str], refused: Refused) -> tuple[str, ...]:
    """Return what the pod should know of what it gets: some lines, and how many more there are.

    Args:
        planned: what was known beforehand, the weightiest first.
        refused: what the kernel refused then.
    """
    lines = (
        *planned,
        *(f"left out, for the kernel refused it: {explained(error, op)}" for op, error in refused),
    )
    more = len(lines) - MAX_WARNINGS
    return (*lines[:MAX_WARNINGS], f"{more} more like these") if more > 0 else lines
