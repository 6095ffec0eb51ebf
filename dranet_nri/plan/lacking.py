"""What a pod does without, because its kernel refuses it and nobody claimed it.

Rules:
1. That is what is inherited, and refused for a reason that lasts. An attach fails for what may pass
   (no memory, a busy device), and for whatever is claimed.
"""

from collections.abc import Collection, Iterator, Sequence
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

MAX_NAMED: Final = 3  # of them in warnings
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
        case _:
            return False


def told_of(refused: Refused) -> Iterator[str]:
    """Yield what the pod should know of what was refused: a few, and how many more."""
    for op, error in refused[:MAX_NAMED]:
        yield f"left out, for the kernel refused it: {explained(error, op)}"
    if len(refused) > MAX_NAMED:
        yield f"left out, for the kernel refused it: {len(refused) - MAX_NAMED} more of the host"
