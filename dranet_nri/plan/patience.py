"""How long the way home is tried, and what a record says of its tries.

Rules:
1. A way home that fails is counted from one: what failed before, an attach say, was no try of it.
2. Patience is counted in tries in a row that left nothing but what the host does not take. One
   after which a device is still in its pod, or has not its own name, is no such try.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dranet_nri.model import Failure

DETACH_FAILED: Final = "NetworkDeviceDetachFailed"  # a device is not back, or not usable
RESTORE_FAILED: Final = "NetworkDeviceRestoreFailed"  # all are, but for what the host refuses
MAX_RESTORE_TRIES: Final = 10  # before what the host no longer takes stops keeping a NIC from pods
MAX_MESSAGE: Final = 2000  # characters; so that no failure outgrows its record


@dataclass(frozen=True, slots=True)
class Return:
    """What one try to bring a device home came to.

    Attributes:
        home: whether it is home.
        text: why it is not, or what is missing; "" if there is nothing to tell.
        usable: it is on the host under its own name, set, addressed and up.
    """

    home: bool
    text: str = ""
    usable: bool = False


def is_patient(before: Failure | None) -> bool:
    """Whether what the host refuses still keeps a device from being home.

    Args:
        before: why the last try failed, None if it did not.
    """
    if before is None or before.reason != RESTORE_FAILED:
        return True
    return before.count < MAX_RESTORE_TRIES


def why_not_home(returns: Sequence[Return], before: Failure | None, wall_s: int) -> Failure | None:
    """Return what to record of a try, as last before if there is nothing new to tell.

    Args:
        returns: of each device.
        before: why the last try failed, None if it did not.
        wall_s: Unix seconds.
    """
    told = [each for each in returns if each.text]
    if not told:
        return before
    restoring = all(each.usable or each.home for each in returns) and all(
        each.usable for each in told
    )
    reason = RESTORE_FAILED if restoring else DETACH_FAILED
    count = before.count + 1 if before and before.reason == reason else 1
    message = "; ".join(each.text for each in told)
    return Failure(reason, message[:MAX_MESSAGE], wall_s, count)
