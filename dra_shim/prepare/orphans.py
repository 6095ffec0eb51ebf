"""Orphan collection: records of claims that no kubelet will unprepare, and pods that wait in vain.

A kubelet may lose a claim: an old client wiped the pod's status, its checkpoint was removed, the
claim was deleted by force. The record would keep a device from every pod for ever. A pod that gets
a claim before the previous pod's end is never prepared, and would wait for ever.

Rules:
1. All of these must hold, at every check for ten minutes: the API server has no such allocation,
   the kubelet's checkpoint does not name the claim, and the plugin has no device of it in a pod.
2. A source that cannot be read now proves nothing, and the ten minutes begin again. A problem of
   one claim proves nothing about another.
3. A pod waits in vain while its claim is recorded for another pod, which by the API server no
   longer has it, and whose devices are restored. Begin and end of that are reported.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from dra_shim.prepare.allocation import expects, handed_on, why_orphaned
from dra_shim.prepare.errors import ApiUnavailableError, NotYetError
from dra_shim.prepare.events import (
    Notify,
    OrphanRemoved,
    OrphanSearchFailed,
    PodSuperseded,
)
from dra_shim.prepare.interfaces import UseSource
from dra_shim.prepare.preparer import Preparer
from dra_shim.resourceapi import AllocatedClaim, read_allocated
from dranet_nri.component.threads import in_thread
from dranet_nri.model import Allocation, ObjectRef

SWEEP_S: Final = 150.0  # between two rounds
ORPHAN_S: Final = 600.0  # a record without a user is removed after this time


class OrphanCollector:
    """Orphan collector; it also finds pods that wait for an earlier pod's claim."""

    def __init__(
        self,
        server: UseSource,
        preparer: Preparer,
        checkpoint: Path,
        notify: Notify,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Prepare; nothing is checked before run.

        Args:
            server: the API server.
            preparer: has the records, and drops them in turn with other calls for the claim.
            checkpoint: the kubelet's dra_manager_state; need not be readable.
            notify: called with removed records and waiting pods; must not raise.
            clock: monotonic seconds.
            sleep: waits that many seconds of it.
        """
        self._server = server
        self._preparer = preparer
        self._checkpoint = checkpoint
        self._notify = notify
        self._clock = clock
        self._sleep = sleep
        self._since: dict[str, float] = {}  # claim UID → time since when the record has no user
        self._waiting: dict[tuple[str, str], tuple[ObjectRef, ...]] = {}  # as told; see _key

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            await self._sleep(SWEEP_S)
            await self.sweep()

    async def sweep(self) -> None:
        """Check once."""
        since, self._since = self._since, {}
        try:
            named = await in_thread(lambda: _read(self._checkpoint))
            standing = await self._preparer.standing()
            keys = {_key(claim.record) for claim in standing}
            self._waiting = {key: pods for key, pods in self._waiting.items() if key in keys}
            for entry in standing:
                if not entry.held and not all(uid.encode() in named for uid in _key(entry.record)):
                    await self._judge(entry.record, since, named)
        except Exception as error:  # noqa: BLE001 - the next round runs after any error
            self._since = {}
            self._notify(OrphanSearchFailed(error))

    async def _judge(self, record: Allocation, since: Mapping[str, float], named: bytes) -> None:
        try:
            await self._look(record, since, named)
        except ApiUnavailableError:
            pass  # nothing is proved; it is asked again
        except NotYetError:
            raise  # a right that is missing for all
        except Exception as error:  # noqa: BLE001 - an error of one record does not stop the others
            self._notify(OrphanSearchFailed(error, record.claim))

    async def _look(self, record: Allocation, since: Mapping[str, float], named: bytes) -> None:
        document = await self._server.claim(record.claim)
        reason = why_orphaned(record, document)
        if document is not None and not reason:
            await self._look_on(record, read_allocated(document))
        elif record.claim.uid.encode() not in named:
            await self._drop(record, reason, since)

    async def _look_on(self, record: Allocation, claim: AllocatedClaim) -> None:
        """Check the pods that a claim was passed on to."""
        waiting = tuple(
            [
                pod
                for pod in handed_on(record, claim)
                if expects(await self._server.pod(pod), claim, pod, record)
            ]
        )
        if waiting != self._waiting.get(_key(record), ()):
            self._waiting[_key(record)] = waiting
            self._notify(PodSuperseded(record.claim, record.pod, waiting))

    async def _drop(self, record: Allocation, reason: str, since: Mapping[str, float]) -> None:
        uid = record.claim.uid
        first = since.get(uid, self._clock())
        if self._clock() - first < ORPHAN_S:
            self._since[uid] = first
        elif await self._preparer.drop(record):
            self._notify(OrphanRemoved(record.claim, record.pod, reason))


def _key(record: Allocation) -> tuple[str, str]:
    """Return the UIDs of a record's claim and pod."""
    return record.claim.uid, record.pod.uid


def _read(path: Path) -> bytes:
    """Return the bytes of a file, none where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
