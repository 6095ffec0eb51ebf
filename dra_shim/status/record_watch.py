"""Record watch: allocation and attachment records of all claims as they change; read only.

Rules:
1. A record that cannot be read changes nothing: the status of its claim is left unchanged.
2. Records are read on the event loop, not on a thread: they are a few small files.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from math import inf
from typing import Final, NoReturn

from dra_shim.settings.common import StatePaths
from dra_shim.status.summary import ClaimRecords
from dranet_nri.component.clock import REAL, LoopClock, Wakeup
from dranet_nri.component.deferred import DeferredReader
from dranet_nri.state.records import NodeRecords

RETRY_S: Final = 5.0  # seconds before an unreadable record is read again

Changed = Callable[[Mapping[str, ClaimRecords]], None]


async def follow(
    state: StatePaths, claim_uids: Iterable[str], changed: Changed, timing: LoopClock = REAL
) -> NoReturn:
    """Report the records of all claims, then those of claims whose records change.

    Args:
        state: locations of the records.
        claim_uids: UIDs of claims that are reported at the start even without a record.
        changed: called with claim UID → records; must not raise.
        timing: clock and timers.

    Raises:
        StateError: inotify is not available.
        OSError: a directory cannot be read.
    """
    wakeup = Wakeup(timing)
    with (
        NodeRecords(state.allocations, state.attachments) as records,
        closing(DeferredReader(records.filenos(), wakeup.wake)),
    ):
        changed_uids = records.claim_uids().union(claim_uids)
        while True:
            claim_records = {
                uid: ClaimRecords(records.allocations.get(uid), records.attachments.get(uid))
                for uid in sorted(changed_uids)
                if not records.is_broken(uid)
            }
            if claim_records:
                changed(claim_records)
            await wakeup.wait(RETRY_S if records.unread else inf)
            changed_uids = records.refresh()
