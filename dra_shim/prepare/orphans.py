"""Orphan collection: records that no kubelet will unprepare, and pods that never get their claim.

A kubelet can lose a claim: a client removed the status of the pod, the kubelet's checkpoint was
removed, or the claim was deleted by force. The record would then block a device for ever. A claim
that passes to another pod before the previous pod ends is never prepared for it, and the pod would
wait for ever.

Rules:
1. A record is removed when all of these hold at each check for ten minutes: the API server has no
   such allocation, the kubelet's checkpoint does not contain the claim, and no device of the claim
   is attached to a pod.
2. A source that cannot be read resets the ten minutes. An error for one claim does not affect
   others.
3. A pod never gets its claim while the claim is recorded for another pod, the API server has
   removed that pod from the claim, and the devices are restored. Start and end of this state are
   reported.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from dra_shim.prepare.allocation import successor_pods, waits_for_claim, why_orphaned
from dra_shim.prepare.errors import ApiUnavailableError, NotYetError
from dra_shim.prepare.interfaces import UseSource
from dra_shim.prepare.notices import (
    Notify,
    OrphanRemoved,
    OrphanSearchFailed,
    PodSuperseded,
)
from dra_shim.prepare.preparer import Preparer
from dra_shim.resourceapi import AllocatedClaim, read_allocated
from dranet_nri.component.threads import in_thread
from dranet_nri.model import Allocation, ObjectRef

COLLECT_INTERVAL_S: Final = 150.0  # seconds between two checks
ORPHAN_S: Final = 600.0  # seconds after which a record without a user is removed


class OrphanCollector:
    """Collector of orphaned records; it also reports pods that never get their claim."""

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
        """Create the collector; `run` checks.

        Args:
            server: the API server.
            preparer: has the records, and removes them under the lock of the claim.
            checkpoint: the kubelet's dra_manager_state; it may be unreadable.
            notify: called with removed records and waiting pods; must not raise.
            clock: monotonic seconds.
            sleep: waits this number of seconds.
        """
        self._server = server
        self._preparer = preparer
        self._checkpoint = checkpoint
        self._notify = notify
        self._clock = clock
        self._sleep = sleep
        # claim UID → time at which its record was first found without a user
        self._since: dict[str, float] = {}
        self._waiting: dict[tuple[str, str], tuple[ObjectRef, ...]] = {}  # as reported; see _key

    async def run(self) -> None:
        """Check at intervals until cancelled."""
        while True:
            await self._sleep(COLLECT_INTERVAL_S)
            await self.collect()

    async def collect(self) -> None:
        """Check all records once."""
        since, self._since = self._since, {}
        try:
            kubelet_state = await in_thread(lambda: _read(self._checkpoint))
            states = await self._preparer.record_states()
            keys = {_key(state.record) for state in states}
            self._waiting = {key: pods for key, pods in self._waiting.items() if key in keys}
            for state in states:
                known = all(uid.encode() in kubelet_state for uid in _key(state.record))
                if not state.attached and not known:
                    await self._check(state.record, since, kubelet_state)
        except Exception as error:  # noqa: BLE001 - the next round runs after any error
            self._since = {}
            self._notify(OrphanSearchFailed(error))

    async def _check(
        self, record: Allocation, since: Mapping[str, float], kubelet_state: bytes
    ) -> None:
        try:
            await self._check_record(record, since, kubelet_state)
        except ApiUnavailableError:
            pass  # the next round checks again
        except NotYetError:
            raise  # a missing permission affects all claims
        except Exception as error:  # noqa: BLE001 - an error of one record does not stop the others
            self._notify(OrphanSearchFailed(error, record.claim))

    async def _check_record(
        self, record: Allocation, since: Mapping[str, float], kubelet_state: bytes
    ) -> None:
        document = await self._server.claim(record.claim)
        reason = why_orphaned(record, document)
        if document is not None and not reason:
            await self._check_successors(record, read_allocated(document))
        elif record.claim.uid.encode() not in kubelet_state:
            await self._drop(record, reason, since)

    async def _check_successors(self, record: Allocation, claim: AllocatedClaim) -> None:
        """Check the pods that the claim is reserved for now."""
        waiting = tuple(
            [
                pod
                for pod in successor_pods(record, claim)
                if waits_for_claim(await self._server.pod(pod), claim, pod, record)
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
    """Return the content of a file, b"" if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
