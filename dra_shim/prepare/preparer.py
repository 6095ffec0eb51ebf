"""Preparer: Prepare records claims for pods, Unprepare removes the records.

Rules:
1. Each claim has its own result; an error of one claim does not fail others.
2. One call at a time runs for each claim. Unprepare cancels a Prepare that still waits.
3. A retriable error is retried while the kubelet waits, because the kubelet itself retries only
   after a minute or more. The kubelet gets a response before its timeout.
4. A transaction on the records always completes; a cancellation waits for its end.
5. An unprepared claim is not adopted: an earlier list of claims can still contain it, and a
   kubelet unprepares a claim once.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from dra_shim.checkpoint.transaction import CheckpointTransaction
from dra_shim.prepare import claim_locks, profiles, transactions
from dra_shim.prepare.allocation import (
    PreparedDevice,
    PrepareSettings,
    consumer_of,
    consumes_devices,
    is_gated,
    is_recorded,
    prepared_devices,
    requested_claim,
    requested_use,
)
from dra_shim.prepare.errors import ApiUnavailableError, NotYetError, kind_of, one_line
from dra_shim.prepare.interfaces import ClaimSource, DeviceSource, NodeSource, PodSource
from dra_shim.prepare.notices import (
    ClaimPrepared,
    ClaimUnprepared,
    Notify,
    PrepareFailed,
    PrepareWaits,
    UnprepareFailed,
)
from dra_shim.prepare.parameters import claim_parameters
from dra_shim.prepare.shared_pods import SharedPods
from dra_shim.resourceapi import AllocatedClaim, has_ended, read_pod_use
from dra_shim.settings.common import StatePaths
from dranet_nri.component.backoff import Backoff
from dranet_nri.component.files import FileSystem
from dranet_nri.component.threads import in_thread_to_the_end
from dranet_nri.errors import DranetError, KernelError
from dranet_nri.model import Allocation, ObjectRef

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

# seconds of a Prepare; the kubelet's timeout is 45 s (defaultClientCallTimeout)
LONGEST_S: Final = 40.0
MARGIN_S: Final = 2.0  # seconds before the kubelet's timeout at which the response is sent
FIRST_PAUSE_S: Final = 0.2  # seconds before the first retry; doubles with each
LONGEST_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of claims, pods and devices."""

    claims: ClaimSource
    pods: PodSource
    devices: NodeSource


@dataclass(frozen=True, slots=True)
class PrepareResult:
    """Response for one claim: its devices, or an error."""

    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


class _UnusedError(Exception):
    """A claim is not adopted, because no pod uses it any more."""


@dataclass(slots=True)
class _Attempt:
    """Progress of a claim's Prepare, and its sources.

    Attributes:
        devices: source of the devices.
        pods: source of the pods.
        adopts: the claim is adopted from a previous driver, without a call of the kubelet.
        document: the claim as the server returned it.
        waiting_for: current wait, for the error message.
        error: last retriable error.
    """

    devices: DeviceSource
    pods: PodSource
    adopts: bool = False
    document: Mapping[str, object] = field(default_factory=dict)
    waiting_for: str = "another call for this claim to end"
    error: str = ""

    def __str__(self) -> str:
        return self.error or f"no answer in time; waited for {self.waiting_for}"


class Preparer:
    """Implementation of Prepare and Unprepare."""

    def __init__(
        self,
        sources: Sources,
        state: StatePaths,
        settings: PrepareSettings,
        notify: Notify,
        *,
        providers: profiles.Providers,
        sleep: Sleep = asyncio.sleep,
        timeout: Callable[[float], asyncio.Timeout] = asyncio.timeout,
        fs: FileSystem | None = None,
    ) -> None:
        """Create the preparer; nothing is opened before the first call.

        Args:
            sources: sources of claims, pods and devices.
            state: locations of the records.
            settings: settings for all claims.
            notify: called with the result of each claim; must not raise.
            providers: sources of parameters besides class and claim.
            sleep: waits this number of seconds.
            timeout: returns a time limit of this number of seconds, as asyncio.timeout does.
            fs: file operations for the records.
        """
        self._sources = sources
        self._checkpoint = CheckpointTransaction(state, fs=fs, keep=True)
        self._mutex = threading.Lock()
        self._settings = settings
        self._notify = notify
        self._providers = providers
        self._sleep = sleep
        self._timeout = timeout
        self._locks = claim_locks.ClaimLocks[PrepareResult]()
        self._unprepared: set[str] | None = None  # claim UIDs, while claims may be adopted

    async def prepare(
        self, claims: Sequence[ObjectRef], limit_s: float | None = None
    ) -> dict[str, PrepareResult]:
        """Record claims for their pods; return a result for each claim UID.

        Args:
            claims: claims of the kubelet's request.
            limit_s: seconds until the kubelet's timeout, None if unknown.
        """
        most_s = LONGEST_S if limit_s is None else min(LONGEST_S, limit_s - MARGIN_S)
        pods = SharedPods(self._sources.pods)
        attempts = {claim: _Attempt(self._sources.devices, pods) for claim in claims}
        unprepared = PrepareResult(error="was unprepared while it was being prepared")
        answers = await self._all(attempts, most_s)
        return {uid: answer or unprepared for uid, answer in answers.items()}

    @contextmanager
    def adopting(self) -> Iterator[None]:
        """Record unprepared claims in this context, for `adopt`; enter before claims are listed."""
        self._unprepared = set()
        try:
            yield
        finally:
            self._unprepared = None

    async def adopt(
        self, claims: Sequence[ObjectRef], devices: DeviceSource
    ) -> dict[str, PrepareResult]:
        """Record claims that another driver prepared; return a result for each claim UID.

        There is no result for claims that were unprepared since `adopting` began, or whose pod
        ended.

        Args:
            claims: claims that were found; later calls pass some of them again.
            devices: source of their devices.
        """
        pods = SharedPods(self._sources.pods)
        attempts = {claim: _Attempt(devices, pods, adopts=True) for claim in claims}
        answers = await self._all(attempts, LONGEST_S)
        if self._unprepared is not None:
            self._unprepared &= answers.keys()
        return {uid: answer for uid, answer in answers.items() if answer is not None}

    async def unprepare(self, claims: Sequence[ObjectRef]) -> dict[str, str]:
        """Remove the records of claims; return an error for each claim UID, "" for success.

        An unknown claim is a success. The API server is not used.
        """
        by_uid = {claim.uid: claim for claim in claims}
        *others, last = by_uid or ("",)
        async with asyncio.TaskGroup() as group:
            tasks = {uid: group.create_task(self._unprepare(by_uid[uid])) for uid in others}
            # without a task, which takes two turns of the event loop; most pods have one claim
            errors = {last: await self._unprepare(by_uid[last])} if last else {}
        return {uid: task.result() for uid, task in tasks.items()} | errors

    async def drop(self, record: Allocation) -> bool:
        """Remove an orphaned record unless it was written again; return whether it was removed.

        Args:
            record: as returned by `record_states`.

        Raises:
            OSError: the record cannot be removed.
        """
        uid = record.claim.uid
        async with self._locks.of(uid):
            return await self._transact(
                lambda transaction: transactions.forget(transaction, uid, record)
            )

    async def when_released(self, claim_uid: str, work: Callable[[], Awaitable[None]]) -> bool:
        """Run work under the lock of a claim unless a pod has it; return whether it ran.

        A pod has the claim while there is a record, or a device of it may be attached.

        Raises:
            DranetError, OSError: from the records or the work.
        """
        async with self._locks.of(claim_uid):
            if await self._transact(
                lambda records: records.by_uid(claim_uid) or records.may_be_attached(claim_uid)
            ):
                return False
            await work()
            return True

    async def record_states(self) -> tuple[transactions.RecordState, ...]:
        """Return all records, and whether their devices may be attached to pods.

        Raises:
            StateError: inotify is not available.
            OSError: a directory cannot be read.
        """
        return await self._transact(transactions.record_states)

    def close(self) -> None:
        """Close the records; no call may be running."""
        self._checkpoint.close()

    # ------------------------------------------------------------------- one claim

    async def _all(
        self, attempts: Mapping[ObjectRef, _Attempt], most_s: float
    ) -> dict[str, PrepareResult | None]:
        """Return a result for each claim UID; None if the claim was unprepared or is unused."""
        async with asyncio.TaskGroup() as group:
            tasks = {
                claim.uid: group.create_task(self._answer(claim, most_s, attempt))
                for claim, attempt in attempts.items()
            }
            for uid, task in tasks.items():
                self._locks.register(uid, task)
        return {uid: None if task.cancelled() else task.result() for uid, task in tasks.items()}

    async def _answer(
        self, claim: ObjectRef, most_s: float, attempt: _Attempt
    ) -> PrepareResult | None:
        limit = self._timeout(most_s)
        try:
            async with limit:
                return await self._prepare(claim, attempt)
        except TimeoutError as error:
            if limit.expired():
                return self._failed(claim, str(attempt), "late")
            return self._failed(claim, str(error), "io")
        except (DranetError, OSError) as error:
            return self._failed(claim, str(error), kind_of(error))
        except _UnusedError:
            return None
        except Exception as error:  # noqa: BLE001 - an unexpected error fails one claim, not all
            message = f"internal error of dra-shim: {error!r}"
            return self._failed(claim, message, "internal", error)

    def _failed(
        self, claim: ObjectRef, message: str, kind: str, cause: Exception | None = None
    ) -> PrepareResult:
        self._notify(PrepareFailed(claim, message, cause, kind))
        return PrepareResult(error=one_line(message))

    async def _prepare(self, ref: ObjectRef, attempt: _Attempt) -> PrepareResult:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        async with self._locks.of(ref.uid):
            while True:
                try:
                    return await self._attempt(ref, attempt)
                except (NotYetError, KernelError) as error:
                    if attempt.error != str(error):
                        attempt.error = str(error)
                        self._notify(PrepareWaits(ref, attempt.error))
                    least_s = error.after_s if isinstance(error, ApiUnavailableError) else 0.0
                    attempt.pods = self._sources.pods
                await self._sleep(backoff.next_s(at_least_s=least_s))

    async def _attempt(self, ref: ObjectRef, attempt: _Attempt) -> PrepareResult:
        if attempt.adopts and self._unprepared and ref.uid in self._unprepared:
            raise _UnusedError
        attempt.waiting_for = "the claim from the API server"
        document = await self._sources.claims.claim(ref)
        claim = requested_claim(document, ref)
        if not claim.results or document is None:
            return PrepareResult()
        attempt.document = document
        record = await self._record(claim, attempt)
        self._notify(ClaimPrepared(record.claim, record.pod, is_gated(record), document))
        return PrepareResult(prepared_devices(record))

    async def _record(self, claim: AllocatedClaim, attempt: _Attempt) -> Allocation:
        attempt.waiting_for = "the records"
        recorded = await self._recorded(claim.ref.uid)
        consumer = consumer_of(claim, recorded, await self._ended_pods(claim, recorded, attempt))
        pod = ObjectRef(claim.ref.namespace, consumer.name, consumer.uid)
        attempt.waiting_for = f"pod {pod} from the API server"
        document = await attempt.pods.pod(pod)
        use = requested_use(read_pod_use(document, claim) if document else None, claim, pod)
        if attempt.adopts and use.ended:
            raise _UnusedError
        attempt.waiting_for = "the node's devices"
        devices = await attempt.devices.devices({result.device[2] for result in claim.results})
        # Adopted devices are in their pods already.
        conflicts = {} if attempt.adopts else self._sources.devices.conflicts()
        parameters = claim_parameters(claim, first_valid_config=self._settings.first_valid_config)
        layers: profiles.Layers = {}
        if recorded is None or not is_recorded(recorded, claim, pod.uid, self._settings):
            attempt.waiting_for = "the providers of parameters"
            layers = await self._providers.provided(claim, attempt.document, devices, parameters)
        attempt.waiting_for = "the records"
        inputs = transactions.RecordInputs(
            devices, conflicts, parameters, layers, adopted=attempt.adopts
        )
        self._checkpoint.free_later()
        return await self._transact(
            lambda transaction: transactions.record(
                transaction, claim, pod, use, inputs, self._settings
            )
        )

    async def _recorded(self, uid: str) -> Allocation | None:
        """Return the claim's record; transactions.record reads it again under the lock."""
        found = transactions.peek(self._checkpoint, self._mutex, uid)
        if found is None:
            found = await self._transact(lambda transaction: transaction.by_uid(uid))
        return next(iter(found), None)

    async def _ended_pods(
        self, claim: AllocatedClaim, recorded: Allocation | None, attempt: _Attempt
    ) -> frozenset[str]:
        """Return the UIDs of pods of the claim that ended; the recorded pod is checked first.

        The check stops at two pods that did not end, or at one if others only observe.
        """
        pods = [consumer for consumer in claim.consumers if consumer.resource == "pods"]
        pods.sort(key=lambda consumer: recorded is None or consumer.uid != recorded.pod.uid)
        enough = 2 if consumes_devices(claim) else 1
        ended: set[str] = set()
        for checked, consumer in enumerate(pods if len(pods) > 1 else ()):
            if checked - len(ended) == enough:
                break
            pod = ObjectRef(claim.ref.namespace, consumer.name, consumer.uid)
            attempt.waiting_for = f"pod {pod} from the API server"
            if has_ended(await attempt.pods.pod(pod), pod.uid):
                ended.add(pod.uid)
        return frozenset(ended)

    async def _unprepare(self, claim: ObjectRef) -> str:
        if self._unprepared is not None:
            self._unprepared.add(claim.uid)
        self._locks.cancel(claim.uid)
        try:
            async with self._locks.of(claim.uid):
                recorded = await self._transact(
                    lambda transaction: transactions.forget(transaction, claim.uid)
                )
        except (DranetError, OSError) as error:
            return self._unprepare_failed(claim, str(error), kind_of(error))
        except Exception as error:  # noqa: BLE001 - an unexpected error fails one claim, not all
            message = f"internal error of dra-shim: {error!r}"
            return self._unprepare_failed(claim, message, "internal", error)
        if recorded:
            self._notify(ClaimUnprepared(claim))
        return ""

    def _unprepare_failed(
        self, claim: ObjectRef, message: str, kind: str, cause: Exception | None = None
    ) -> str:
        self._notify(UnprepareFailed(claim, message, cause, kind))
        return one_line(message)

    async def _transact(self, work: Callable[[CheckpointTransaction], T]) -> T:
        def run() -> T:
            with self._mutex, self._checkpoint:
                return work(self._checkpoint)

        return await in_thread_to_the_end(run)
