"""Record watch: the records of all claims, the shim's and the plugin's, as they change; read only.

Rules:
1. A record that cannot be used proves nothing: its claim is left unchanged.
2. Reading takes a few small files now and then, so it runs on the event loop, not on a thread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from math import inf
from typing import Final, NoReturn

from dra_shim.settings.common import StatePaths
from dra_shim.status.summary import ClaimRecords
from dranet_nri.component.clock import REAL, LoopClock, Wakeup
from dranet_nri.component.deferred import DeferredReader
from dranet_nri.state.reader import AllocationReader, AttachmentReader

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
    with (
        AllocationReader(state.allocations, owner=None) as allocations,
        AttachmentReader(state.attachments, owner=None) as attachments,
        _heard((allocations.fileno(), attachments.fileno()), alarm.stir),
    ):
        readers = (allocations, attachments)
        recorded = (record.claim.uid for reader in readers for record in reader.records())
        touched = frozenset(known).union(recorded)
        while True:
            standings = {
                uid: ClaimRecords(allocations.get(uid), attachments.get(uid))
                for uid in sorted(touched)
                if not any(uid in reader.broken for reader in readers)
            }
            if standings:
                changed(standings)
            unread = any(reader.unread for reader in readers)
            await alarm.stirred(RETRY_S if unread else inf)
            touched = allocations.refresh() | attachments.refresh()


@contextmanager
def _heard(descriptors: Iterable[int], stir: Callable[[], None]) -> Iterator[None]:
    """Wake some time after a descriptor becomes readable."""
    with ExitStack() as stack:
        for number in descriptors:
            stack.enter_context(closing(DeferredReader(number, stir)))
        yield
