"""Optional configuration: what an attach leaves out after the kernel refused it.

Rules:
1. Inherited configuration is left out if the refusal is permanent. The attach fails if it is
   temporary (no memory, a busy device), or if the configuration is claimed.
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
from dranet_nri.plan.refusals import explained
from dranet_nri.plan.settings.rate import NOT_LIMITED, LimitRate

MAX_WARNINGS: Final = 6  # lines; a NIC may have hundreds of routes, and its record has bounds
# IPv6 is off, another one exists, a gateway is unreachable, or the kernel does not support it.
PERMANENT: Final = frozenset(
    {EACCES, EADDRNOTAVAIL, EAFNOSUPPORT, EEXIST, EHOSTUNREACH, EINVAL, ENETDOWN, ENETUNREACH}
    | {ENOENT, EOPNOTSUPP, EPERM}
)

Refused = Sequence[tuple[Op, KernelError]]


def is_optional(inherited: Collection[Inherited], op: Op, error: KernelError) -> bool:
    """Whether the refused operation is optional, so that the attach continues without it."""
    match op:
        case AddAddress(address=what) | AddRoute(route=what):
            return what in inherited and error.code in PERMANENT
        case AddRule(rule=what) | AddNeighbour(neighbour=what):
            return what in inherited and error.code in PERMANENT
        case LimitRate():
            return error.code in NOT_LIMITED
        case _:
            return False


def warning_lines(planned: Sequence[str], refused: Refused) -> tuple[str, ...]:
    """Return the warnings about the pod's configuration, with a count of those left out.

    Args:
        planned: warnings of the plan, the most important first.
        refused: operations that the kernel refused.
    """
    lines = (
        *planned,
        *(
            f"left out, because the kernel refused it: {explained(error, op)}"
            for op, error in refused
        ),
    )
    more = len(lines) - MAX_WARNINGS
    return (*lines[:MAX_WARNINGS], f"{more} more like these") if more > 0 else lines
