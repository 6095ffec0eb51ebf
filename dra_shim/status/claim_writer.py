"""Claim status writer: keeps this driver's entries of status.devices true.

Rules:
1. One writer, one document a claim, one request at a time.
2. A status is compared with the claim as the server last returned it: to Prepare, to a read, or in
   answer to a write. A claim that is not known is read first, so a restart writes nothing.
   The UID in each document makes the server refuse one for a claim that was replaced. After any
   failure the claim is read again.
3. A failed write is retried until it is accepted, or the claim is gone. A status that the server
   refuses is reported once, and not retried until it changes.
"""

from math import inf
from typing import Final, NoReturn

from dra_shim.kubeapi import (
    CLAIM,
    ApiClient,
    ApiError,
    ConflictError,
    Document,
    InvalidError,
    NotFoundError,
    RejectedError,
    UnavailableError,
    uid_of,
)
from dra_shim.status import notices
from dra_shim.status.apply_patch import claim_document, is_kept, right_missing
from dra_shim.status.text import stamp_of
from dra_shim.status.workqueue import ClaimItem, ClaimQueue, Devices
from dranet_nri.component.clock import LoopClock, Wakeup
from dranet_nri.errors import ConfigError
from dranet_nri.model import DRIVER_NAME, ObjectRef

PROBE_S: Final = 3600.0  # after a server dropped a status, before it is shown another
MAX_KNOWN: Final = 256  # claims whose last document is kept; a kubelet runs 110 pods by default


class ClaimWriter:
    """Writes the status of claims."""

    def __init__(
        self, api: ApiClient, node: str, notify: notices.Notify, timing: LoopClock
    ) -> None:
        """Prepare; run does the work. Arguments are those of StatusController."""
        self._api = api
        self._node = node
        self._notify = notify
        self._clock = timing.clock
        self._wall = timing.wall
        self._alarm = Wakeup(timing)
        self._queue = ClaimQueue(timing.random)
        self._dropping_until = -inf  # the server drops what we write, as far as we know
        self._known: dict[str, Document] = {}  # claim UID → as the server last returned it

    def seen(self, claim: ObjectRef, document: Document) -> None:
        """Keep a claim as the server returned it just now, so that it is not read again."""
        self._known[claim.uid] = document
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]

    def want(self, claim: ObjectRef, devices: Devices, patience_s: float) -> None:
        """Take what a claim's status shall say; () to withdraw what it says."""
        self._queue.want(claim, devices, self._clock(), patience_s)
        self._alarm.wake()

    async def run(self) -> NoReturn:
        """Write until cancelled."""
        while True:
            await self._alarm.until(lambda: self._queue.due)
            job = self._queue.begin()
            try:
                await self._report(job)
            except BaseException:
                self._queue.put_off(job, self._clock())  # whoever runs us again goes on
                raise

    async def _report(self, job: ClaimItem) -> None:
        try:
            await self._bring_up_to_date(job)
        except UnavailableError as error:
            pause_s = self._queue.silenced(job, self._clock(), after_s=error.after_s)
            self._notify(notices.StatusSyncFailed(error, pause_s))
            return
        except NotFoundError:
            self._queue.forget(job)
            self._notify(notices.ClaimGone(job.claim))
        except InvalidError as error:
            remedy = right_missing(error)
            if remedy:
                self._hindered(job, RejectedError(error.subject, error.reason, remedy))
            else:
                self._notify(notices.ClaimRefused(job.claim, str(error)))
        except ConfigError as error:
            self._notify(notices.ClaimRefused(job.claim, str(error)))
        except ApiError as error:
            self._hindered(job, error)
        except Exception as error:  # noqa: BLE001 - a fault of ours fails one claim, not all
            text = f"internal error of dra-shim: {error!r}"
            self._notify(notices.ClaimRefused(job.claim, text))
        self._queue.answered()

    def _hindered(self, job: ClaimItem, error: ApiError) -> None:
        lasting = not isinstance(error, ConflictError)
        pause_s = self._queue.hindered(job, self._clock(), lasting=lasting)
        self._notify(notices.StatusSyncFailed(error, pause_s))

    async def _bring_up_to_date(self, job: ClaimItem) -> None:
        """Compare, and write if need be.

        Raises:
            ApiError: the server could not be asked, or does not take it.
            ConfigError: the claim cannot be read.
        """
        queue, ref = self._queue, job.claim
        if self._clock() < self._dropping_until:
            queue.put_off(job, self._dropping_until)
            return
        known, devices = self._known.pop(ref.uid, None), job.devices
        try:
            document, claim = await self._apply(ref, known or await self._read(ref), devices)
        except (ConflictError, InvalidError):
            if known is None:
                raise
            document, claim = await self._apply(ref, await self._read(ref), devices)
        if devices:
            self.seen(ref, claim)
        if document is None:
            queue.done(job, self._clock(), wrote=False)
        elif is_kept(document, claim):
            queue.done(job, self._clock(), wrote=True)
            self._notify(notices.StatusApplied(ref, len(devices)))
        else:
            self._dropping_until = self._clock() + PROBE_S
            queue.put_off(job, self._dropping_until)
            self._notify(notices.StatusNotKept())

    async def _read(self, ref: ObjectRef) -> Document:
        claim = await self._api.get(CLAIM, ref.name, ref.namespace)
        if uid_of(claim) != ref.uid:
            raise NotFoundError(f"get ResourceClaim {ref}", f"UID {ref.uid} is gone")
        return claim

    async def _apply(
        self, ref: ObjectRef, claim: Document, devices: Devices
    ) -> tuple[Document | None, Document]:
        """Apply what differs; return what was applied, None if nothing, and the claim with it."""
        document = claim_document(claim, devices, stamp_of(self._wall()), self._node)
        if document is None:
            return None, claim
        kept = await self._api.apply(CLAIM, document, DRIVER_NAME, ref.namespace, "status")
        return document, kept
