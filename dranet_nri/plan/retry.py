"""The retry budget of a restore, and the message that a record has of its tries.

Rules:
1. Tries are counted from the first failed restore; earlier failures, such as an attach, do not
   count.
2. The budget counts tries in a row that left only what the host refuses. A try after which a device
   is still in its pod, has another name, or lacks its RDMA device, does not count.
3. A try counts only if it came no sooner after the previous counted one than the back-off allows,
   because hooks and new devices cause early tries. So ten of them take 98 s or more, while a switch
   port with spanning tree is shut for 50 s after its link came up (IEEE 802.1D: 20 s of age, twice
   15 s of delay). A change of the clock can make one try count too early, no more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from dranet_nri.component.backoff import FIRST_DELAY_S, backoff_s
from dranet_nri.errors import KernelError
from dranet_nri.model import Device, Failure, Observed
from dranet_nri.plan.identity import why_unclear
from dranet_nri.plan.ops import Op
from dranet_nri.plan.planner import is_restored, is_usable, make_plan
from dranet_nri.plan.rdma import present_rdma, why_rdma_not_restored
from dranet_nri.plan.refusals import explained
from dranet_nri.plan.restore import RestoreTarget, is_permanent
from dranet_nri.plan.routes import absent_legs

DETACH_FAILED: Final = "NetworkDeviceDetachFailed"  # a device is not back, or not usable
RESTORE_FAILED: Final = "NetworkDeviceRestoreFailed"  # all are, but for what the host refuses
MAX_RESTORE_TRIES: Final = 10  # before what the host no longer takes stops keeping a NIC from pods
MAX_MESSAGE: Final = 2000  # characters; so that no failure outgrows its record
GONE: Final = (
    "it was deleted, moved to another namespace, or went with that of its pod; a process can keep"
    " such a namespace: lsns --type net lists them, and nsenter --net enters one"
)


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of one try to restore a device.

    Attributes:
        home: whether it is restored.
        text: why it is not, or what is missing; "" if there is nothing to report.
        usable: it is on the host under its own name, set, addressed and up.
    """

    home: bool
    text: str = ""
    usable: bool = False


def verify_restored(
    device: Device,
    wanted: RestoreTarget,
    observed: Observed,
    failed: Sequence[tuple[Op, KernelError]],
    *,
    alive: bool,
    patient: bool,
) -> RestoreResult:
    """Return whether a device is verified on the host after a try, and why not.

    What was in a namespace that is no longer alive may be missing for a while without a word.
    Without patience a usable device counts as home; what is missing is still told. So does a
    virtual device that is no more, or whose RDMA device is: nothing can return. Hardware does, by
    its PCI address, so that it is waited for.

    Args:
        device: what was published.
        wanted: how it shall be.
        observed: where it is after the try.
        failed: the operations that the kernel refused.
        alive: whether the pod's namespace is.
        patient: see has_tries_left.
    """
    known_as = f"device {device.name} ({device.key.name})"
    if _is_gone(device, observed):
        return RestoreResult(home=True, text=f"{known_as} is no more: {GONE}")
    if observed.unclear:
        return RestoreResult(home=False, text=why_unclear(device, observed.unclear))
    lost = why_rdma_not_restored(wanted.rdma, observed.rdma)
    told = [f"{known_as}: {explained(failed[0][1], failed[0][0])}"] if failed else []
    told = told or _misnamed(wanted, observed)
    told += [lost] if lost and (alive or present_rdma(wanted.rdma, observed.rdma)) else []
    if not device.key.bus:
        wanted = replace(wanted, rdma=present_rdma(wanted.rdma, observed.rdma))
    home = is_restored(wanted, observed)
    usable = home or is_usable(wanted, observed)
    if usable and not home:
        told = told or [f"{known_as}: without effect: {make_plan(wanted, observed)[0]}"]
        if is_permanent(failed) or not patient:
            tries = "" if patient else f" after {MAX_RESTORE_TRIES} tries"
            home, told[-1] = True, f"{told[-1]}; given back without it{tries}"
    if home and wanted.snapshot and not told:
        absent = absent_legs(wanted.snapshot.routes, observed.taken_host_names)
        told = [f"{known_as}: route {leg}, which is not on the host" for leg in absent]
    return RestoreResult(home=home, text="; ".join(told), usable=usable)


def _misnamed(wanted: RestoreTarget, observed: Observed) -> list[str]:
    """Return that the device is on the host under another name, if its own is taken."""
    own = wanted.snapshot.link.name if wanted.snapshot else ""
    if observed.host is None or own not in observed.taken_host_names:
        return []
    return [
        f"interface {own} is called {observed.host.link.name}: its name is taken; give the link"
        f" that has it another (ip link set {own} name NAME; ip link property del dev LINK altname"
        f" {own} if it is an alternative one)"
    ]


def _is_gone(device: Device, observed: Observed) -> bool:
    """Whether a virtual device is nowhere, so that the kernel will not return it."""
    if observed.unclear:
        return False
    return not device.key.bus and observed.host is None and observed.pod is None


def message_of(text: str) -> str:
    """Return what of a text a failure holds: names that a pod gave may be no Unicode."""
    return text.encode(errors="backslashreplace").decode()[:MAX_MESSAGE]


def has_tries_left(before: Failure | None) -> bool:
    """Whether the retry budget still covers what the host refuses.

    Args:
        before: why the last try failed, None if it did not.
    """
    if before is None or before.reason != RESTORE_FAILED:
        return True
    return before.count < MAX_RESTORE_TRIES


def restore_failure(
    returns: Sequence[RestoreResult], before: Failure | None, wall_s: int
) -> Failure | None:
    """Return what to record of a try; the previous message if there is no new one.

    A try that does not count has the count and the time of the one before it that did.

    Args:
        returns: of each device.
        before: why the last try failed, None if it did not.
        wall_s: Unix seconds.
    """
    told = [result for result in returns if result.text]
    if not told:
        return before
    restoring = all(result.usable or result.home for result in returns) and all(
        result.usable for result in told
    )
    reason = RESTORE_FAILED if restoring else DETACH_FAILED
    message = message_of("; ".join(result.text for result in told))
    if before is None or before.reason != reason:
        return Failure(reason, message, wall_s)
    if restoring and _is_before_backoff(before, wall_s):
        return replace(before, message=message)
    return Failure(reason, message, wall_s, before.count + 1)


def _is_before_backoff(before: Failure, wall_s: int) -> bool:
    """Whether the back-off would have waited for longer after the try that counted last."""
    pause_s = backoff_s(before.count - 1, FIRST_DELAY_S, inf)
    return 0 <= wall_s - before.time < int(pause_s)  # the record has whole seconds
