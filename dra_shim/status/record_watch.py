"""Record watch: the records of all claims, the shim's and the plugin's, as they change; read only.

Rules:
1. A record that cannot be used proves nothing: its claim is left unchanged.
2. Reading takes a few small files now and then, so it runs on the event loop, not on a thread.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from math import inf
from typing import Final, NoReturn

from dra_shim.settings.common import StatePaths
from dra_shim.status.summary import ClaimRecords
from dranet_nri.component.clock import REAL, LoopClock, Wakeup
from dranet_nri.component.deferred import DeferredReader
from dranet_nri.state.records import NodeRecords

RETRY_S: Final = 5.0  # before a record that could not be read is tried again

Changed = Callable[[Mapping[str, ClaimRecords]], None]


async def follow(
    state: StatePaths, known: Iterable[str], changed: Changed, timing: LoopClock = REAL
) -> NoReturn:
    """Report the records of all claims, then those of claims whose records change.

    Args:
        state: where records are.
        known: UIDs of claims that are reported first as well, recorded or not.
        changed: called with the claim UID; must not raise.
        timing: what it goes by.

    Raises:
        StateError: inotify is not to be had.
        OSError: a directory cannot be read.
    """
    alarm = Wakeup(timing)
    with NodeRecords(state.allocations, state.attachments) as records, ExitStack() as stack:
        for fileno in records.filenos():
            stack.enter_context(closing(DeferredReader(fileno, alarm.wake)))
        touched = records.claim_uids().union(known)
        while True:
            standings = {
                uid: ClaimRecords(records.allocations.get(uid), records.attachments.get(uid))
                for uid in sorted(touched)
                if not records.is_broken(uid)
            }
            if standings:
                changed(standings)
            await alarm.wait(RETRY_S if records.unread else inf)
            touched = records.refresh()
