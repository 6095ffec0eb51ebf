"""Claim status writer: reconciles this driver's entries of status.devices.

Rules:
1. One writer, one document per claim, one request at a time.
2. A status is compared with the claim as the server last returned it: to Prepare, to a read, or in
   response to a write. An unknown claim is read first, so a restart writes nothing. The server
   rejects a document whose UID is not that of the claim. The claim is read again after any failure,
   before a write is omitted because nothing differs, and after its pod ended, which changes the
   claim.
3. A failed write is retried until it is accepted, or the claim is gone. A status that the server
   rejects is reported once, and not retried until it changes.
4. The entries of a claim that a pod owns are not removed: the claim is deleted with the pod.
"""

from contextlib import suppress
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
from dra_shim.status.apply_patch import (
    claim_document,
    is_kept,
    is_owned_by_pod,
    missing_permission,
)
from dra_shim.status.text import stamp_of
from dra_shim.status.workqueue import ClaimItem, ClaimQueue, Devices
from dranet_nri.component.clock import LoopClock, Wakeup
from dranet_nri.errors import ConfigError
from dranet_nri.model import DRIVER_NAME, ObjectRef

PROBE_S: Final = 3600.0  # seconds before a retry, after a server dropped a status
MAX_CACHED: Final = 256  # cached claims; a kubelet runs 110 pods by default


class ClaimWriter:
    """Writer of claim status."""

    def __init__(
        self, api: ApiClient, node: str, notify: notices.Notify, timing: LoopClock
    ) -> None:
        """Create the writer; `run` writes. Arguments are those of StatusController."""
        self._api = api
        self._node = node
        self._notify = notify
        self._clock = timing.clock
        self._wall = timing.wall
        self._wakeup = Wakeup(timing)
        self._queue = ClaimQueue(timing.random)
        self._dropping_until = -inf  # until this time no status is written: the server drops it
        self._documents: dict[
            str, Document
        ] = {}  # claim UID → claim as the server last returned it

    def observed(self, claim: ObjectRef, document: Document) -> None:
        """Cache a claim as the server returned it, so that it is not read again."""
        self._documents[claim.uid] = document
        if len(self._documents) > MAX_CACHED:
            del self._documents[next(iter(self._documents))]

    def enqueue(self, claim: ObjectRef, devices: Devices, delay_s: float) -> None:
        """Queue the desired status of a claim; () removes the entries."""
        self._queue.enqueue(claim, devices, self._clock(), delay_s)
        self._wakeup.wake()

    async def run(self) -> NoReturn:
        """Write until cancelled."""
        while True:
            await self._wakeup.until(lambda: self._queue.due)
            item = self._queue.begin()
            try:
                await self._sync(item)
            except BaseException:
                self._queue.postpone(item, self._clock())  # the next run continues with it
                raise

    async def _sync(self, item: ClaimItem) -> None:
        try:
            await self._reconcile(item)
        except UnavailableError as error:
            pause_s = self._queue.server_failed(item, self._clock(), after_s=error.after_s)
            self._notify(notices.StatusSyncFailed(error, pause_s))
            return
        except NotFoundError:
            self._queue.forget(item)
            self._notify(notices.ClaimGone(item.claim))
        except InvalidError as error:
            remedy = missing_permission(error)
            if remedy:
                self._retry_rejected(item, RejectedError(error.subject, error.reason, remedy))
            else:
                self._notify(notices.ClaimRefused(item.claim, str(error)))
        except ConfigError as error:
            self._notify(notices.ClaimRefused(item.claim, str(error)))
        except ApiError as error:
            self._retry_rejected(item, error)
        except Exception as error:  # noqa: BLE001 - an unexpected error fails one claim, not all
            text = f"internal error of dra-shim: {error!r}"
            self._notify(notices.ClaimRefused(item.claim, text))
        self._queue.server_answered()

    def _retry_rejected(self, item: ClaimItem, error: ApiError) -> None:
        lasting = not isinstance(error, ConflictError)
        pause_s = self._queue.claim_failed(item, self._clock(), lasting=lasting)
        self._notify(notices.StatusSyncFailed(error, pause_s))

    async def _reconcile(self, item: ClaimItem) -> None:
        """Compare the desired status with the server's, and write it if it differs.

        Raises:
            ApiError: the server does not answer, or rejects the document.
            ConfigError: the claim is invalid.
        """
        queue, ref = self._queue, item.claim
        if self._clock() < self._dropping_until:
            queue.postpone(item, self._dropping_until)
            return
        cached, devices = self._documents.pop(ref.uid, None), item.devices
        if not devices and cached is not None:
            if is_owned_by_pod(cached):
                queue.done(item, self._clock(), wrote=False)
                return
            cached = None
        document, claim = None, cached or {}
        if cached is not None:
            with suppress(ConflictError, InvalidError):  # then the claim is read again
                document, claim = await self._apply(ref, cached, devices)
        # The cached claim may be older than the last write, for example after a slow Prepare. The
        # server rejects a write from it, but cannot reject an omitted one.
        if document is None:
            document, claim = await self._apply(ref, await self._read(ref), devices)
        if devices:
            self.observed(ref, claim)
        if document is None:
            queue.done(item, self._clock(), wrote=False)
        elif is_kept(document, claim):
            queue.done(item, self._clock(), wrote=True)
            self._notify(notices.StatusApplied(ref, len(devices)))
        else:
            self._dropping_until = self._clock() + PROBE_S
            queue.postpone(item, self._dropping_until)
            self._notify(notices.StatusNotKept())

    async def _read(self, ref: ObjectRef) -> Document:
        claim = await self._api.get(CLAIM, ref.name, ref.namespace)
        if uid_of(claim) != ref.uid:
            raise NotFoundError(f"get ResourceClaim {ref}", f"UID {ref.uid} is gone")
        return claim

    async def _apply(
        self, ref: ObjectRef, claim: Document, devices: Devices
    ) -> tuple[Document | None, Document]:
        """Apply the status if it differs; return (applied document or None, claim)."""
        document = claim_document(claim, devices, stamp_of(self._wall()), self._node)
        if document is None:
            return None, claim
        return document, await self._api.apply(
            CLAIM, document, DRIVER_NAME, ref.namespace, "status"
        )
