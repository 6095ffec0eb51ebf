"""Records that nobody will unprepare, dropped in the end.

A kubelet may lose sight of a claim: an old client wiped the pod's status, somebody removed its
checkpoint, the claim was deleted by force. The record would keep a device from everybody for ever.

Rules:
1. All of these must hold, at every look for ten minutes: the API server has no such allocation, the
   kubelet's checkpoint does not name the claim, and the plugin has no device of it in a pod.
2. What cannot be asked or read now proves nothing, and its ten minutes begin anew. So does nothing
   that is wrong with one claim for another.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from dra_shim.prepare.errors import NotYetError, UnavailableError
from dra_shim.prepare.ports import ClaimSource, Notify, SweepFailed, Swept
from dra_shim.prepare.preparer import Preparer
from dra_shim.prepare.wanted import why_orphaned
from dranet_nri.model import Allocation
from dranet_nri.threads import in_thread

SWEEP_S: Final = 150.0  # between two looks
ORPHAN_S: Final = 600.0  # how long nobody may want a record before it is dropped


class Sweeper:
    """Looks for orphans."""

    def __init__(
        self,
        claims: ClaimSource,
        preparer: Preparer,
        checkpoint: Path,
        notify: Notify,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Prepare; nothing is looked at before run.

        Args:
            claims: the API server.
            preparer: has the records, and drops them in turn with other calls for the claim.
            checkpoint: the kubelet's dra_manager_state; need not be readable.
            notify: told what was dropped; must not raise.
            clock: monotonic seconds.
            sleep: waits that many seconds of it.
        """
        self._claims = claims
        self._preparer = preparer
        self._checkpoint = checkpoint
        self._notify = notify
        self._clock = clock
        self._sleep = sleep
        self._since: dict[str, float] = {}  # claim UID → when nobody wanted it first

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            await self._sleep(SWEEP_S)
            await self.sweep()

    async def sweep(self) -> None:
        """Look once."""
        since, self._since = self._since, {}
        try:
            named = await in_thread(lambda: _read(self._checkpoint))
            for each in await self._preparer.standing():
                if not each.held and each.record.claim.uid.encode() not in named:
                    await self._judge(each.record, since)
        except Exception as error:  # noqa: BLE001 - the next look comes, whatever this one met
            self._since = {}
            self._notify(SweepFailed(error))

    async def _judge(self, record: Allocation, since: Mapping[str, float]) -> None:
        try:
            await self._look(record, since)
        except UnavailableError:
            pass  # nothing is proved; it is asked again
        except NotYetError:
            raise  # a right that is missing for all
        except Exception as error:  # noqa: BLE001 - the others are looked at, whatever this one met
            self._notify(SweepFailed(error, record.claim))

    async def _look(self, record: Allocation, since: Mapping[str, float]) -> None:
        reason = why_orphaned(record, await self._claims.claim(record.claim))
        if not reason:
            return
        uid = record.claim.uid
        first = since.get(uid, self._clock())
        if self._clock() - first < ORPHAN_S:
            self._since[uid] = first
        elif await self._preparer.drop(record):
            self._notify(Swept(record.claim, record.pod, reason))


def _read(path: Path) -> bytes:
    """Return the bytes of a file, none where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
