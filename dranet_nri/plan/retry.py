"""Retry budget of a restore, and the recorded message of its attempts.

Rules:
1. Attempts are counted from the first failed restore; earlier failures, such as of an attach, do
   not count.
2. The budget counts consecutive attempts whose only failures are settings that the host refuses. An
   attempt after which a device is in its pod, has another name, or lacks its RDMA device does not
   count.
3. An attempt before the end of the back-off does not count, because hooks and new devices cause
   early attempts. So ten counted attempts take 98 s or more. This is longer than a switch port with
   spanning tree blocks after its link came up: 50 s (IEEE 802.1D: 20 s of age, twice 15 s of
   delay). After a change of the clock, at most one attempt counts too early.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from dranet_nri.component.backoff import FIRST_DELAY_S, backoff_s
from dranet_nri.component.replace import replace
from dranet_nri.errors import KernelError
from dranet_nri.model import DETACH_FAILED, RESTORE_FAILED, Device, Failure, LinkState, Observed
from dranet_nri.plan.identity import why_ambiguous
from dranet_nri.plan.ops import Op
from dranet_nri.plan.planner import is_restored, is_usable, make_plan
from dranet_nri.plan.rdma import present_rdma, why_rdma_not_restored
from dranet_nri.plan.refusals import explained
from dranet_nri.plan.restore import RestoreTarget, is_permanent
from dranet_nri.plan.routes.comparison import absent_nexthops

MAX_RESTORE_TRIES: Final = 10  # before a usable device counts as restored without the missing part
MAX_MESSAGE: Final = 2000  # characters; bounds the size of a record
GONE: Final = (
    "it was deleted, moved to another namespace, or deleted with that of its pod; a process can"
    " keep such a namespace: lsns --type net lists them, and nsenter --net enters one"
)


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """Result of one attempt to restore a device.

    Attributes:
        restored: it is on the host, with everything that can be restored.
        text: why it is not, or what is missing; "" if nothing is.
        usable: see is_usable.
    """

    restored: bool
    text: str = ""
    usable: bool = False


def verify_restored(
    device: Device,
    desired: RestoreTarget,
    observed: Observed,
    failed: Sequence[tuple[Op, KernelError]],
    *,
    netns_exists: bool,
    tries_left: bool,
) -> RestoreResult:
    """Return whether a device is verified on the host after an attempt, or why not.

    A device of an ended namespace may be missing for a while, which is not reported. With an
    exhausted retry budget a usable device counts as restored, with a report of what is missing. So
    does a virtual device that is gone, or whose RDMA device is gone. Hardware is awaited, because
    its driver can recreate it.

    Args:
        device: the published device.
        desired: its desired state.
        observed: its location after the attempt.
        failed: the operations that the kernel refused.
        netns_exists: whether the pod's namespace exists.
        tries_left: see has_tries_left.
    """
    subject = f"device {device.name} ({device.key.name})"
    if not desired.child and _no_longer_exists(device, observed):
        return RestoreResult(restored=True, text=f"{subject} no longer exists: {GONE}")
    if observed.ambiguous:
        return RestoreResult(restored=False, text=why_ambiguous(device, observed.ambiguous))
    lost = why_rdma_not_restored(desired.rdma, observed.rdma)
    texts = [f"{subject}: {explained(failed[0][1], failed[0][0])}"] if failed else []
    texts = texts or _misnamed(desired, observed)
    texts += [lost] if lost and (netns_exists or present_rdma(desired.rdma, observed.rdma)) else []
    if not device.key.bus:
        desired = replace(desired, rdma=present_rdma(desired.rdma, observed.rdma))
    restored = is_restored(desired, observed)
    usable = restored or is_usable(desired, observed)
    if usable and not restored:
        texts = texts or [f"{subject}: without effect: {make_plan(desired, observed)[0]}"]
        if is_permanent(failed) or not tries_left:
            tries = "" if tries_left else f" after {MAX_RESTORE_TRIES} tries"
            restored, texts[-1] = True, f"{texts[-1]}; restored without it{tries}"
    if restored and desired.snapshot and not texts:
        left_out = _left_out(desired.snapshot, observed.taken_host_names)
        texts = [f"{subject}: {text}" for text in left_out]
    return RestoreResult(restored=restored, text="; ".join(texts), usable=usable)


def _left_out(snapshot: LinkState, others: frozenset[str]) -> list[str]:
    """Return what the plan leaves out, because of the other links that the host has now.

    Args:
        snapshot: the state to restore.
        others: names and altnames of the other links.
    """
    name, master = snapshot.link.name, snapshot.master_name
    nexthops = absent_nexthops(snapshot.routes, others)
    texts = [f"route {nexthop}, which is not on the host" for nexthop in nexthops]
    if master and master not in others:
        texts.append(
            f"its master {master} is not on the host; create it, then add the link again"
            f" (ip link set {name} master {master})"
        )
    return texts + [
        f"another link has its altname {altname}; delete that, then add it again"
        f" (ip link property add dev {name} altname {altname})"
        for altname in snapshot.link.altnames
        if altname in others
    ]


def _misnamed(desired: RestoreTarget, observed: Observed) -> list[str]:
    """Return the message for a device on the host whose own name is taken, if so."""
    own = desired.snapshot.link.name if desired.snapshot else ""
    if observed.host is None or own not in observed.taken_host_names:
        return []
    return [
        f"interface {own} is called {observed.host.link.name}: its name is taken; give the link"
        f" that has it another (ip link set {own} name NAME; ip link property del dev LINK altname"
        f" {own} if it is an alternative one)"
    ]


def _no_longer_exists(device: Device, observed: Observed) -> bool:
    """Whether a virtual device is in neither namespace, so that it cannot return."""
    if observed.ambiguous:
        return False
    return not device.key.bus and observed.host is None and observed.pod is None


def message_of(text: str) -> str:
    """Return the message of a failure: of bounded length, and without lone surrogates."""
    return text.encode(errors="backslashreplace").decode()[:MAX_MESSAGE]


def has_tries_left(before: Failure | None) -> bool:
    """Whether the retry budget is not exhausted.

    Args:
        before: the failure of the last attempt, None if it succeeded.
    """
    if before is None or before.reason != RESTORE_FAILED:
        return True
    return before.count < MAX_RESTORE_TRIES


def restore_failure(
    results: Sequence[RestoreResult], before: Failure | None, wall_s: int
) -> Failure | None:
    """Return the failure to record after an attempt; the previous one if there is no new message.

    An attempt that does not count keeps count and time of the last counted one.

    Args:
        results: result of each device.
        before: the failure of the last attempt, None if it succeeded.
        wall_s: Unix seconds.
    """
    reported = [result for result in results if result.text]
    if not reported:
        return before
    restoring = all(result.usable or result.restored for result in results) and all(
        result.usable for result in reported
    )
    reason = RESTORE_FAILED if restoring else DETACH_FAILED
    message = message_of("; ".join(result.text for result in reported))
    if before is None or before.reason != reason:
        return Failure(reason, message, wall_s)
    if restoring and _is_before_backoff(before, wall_s):
        return replace(before, message=message)
    return Failure(reason, message, wall_s, before.count + 1)


def _is_before_backoff(before: Failure, wall_s: int) -> bool:
    """Whether the back-off after the last counted attempt has not passed."""
    pause_s = backoff_s(before.count - 1, FIRST_DELAY_S, inf)
    return 0 <= wall_s - before.time < int(pause_s)  # the record has whole seconds
