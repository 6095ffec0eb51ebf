"""The preparer: Prepare records claims for pods, Unprepare removes the records.

Rules:
1. Each claim has its own answer; an error of one fails no other.
2. One call at a time for each claim. Unprepare ends a Prepare that still waits.
3. An error that may pass is retried while the kubelet waits, which itself retries only after
   a minute or more. The kubelet is answered before its timeout.
4. A transaction on the records always completes: a cancellation waits for its end.
5. An unprepared claim is not migrated: an earlier list of claims may not show it yet, and a
   kubelet unprepares once.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from dra_shim.checkpoint.transaction import CheckpointTransaction
from dra_shim.prepare import profiles, transactions, turns
from dra_shim.prepare.allocation import (
    PreparedDevice,
    PrepareSettings,
    claim_asked_for,
    consumer_of,
    is_gated,
    is_recorded,
    pod_asked_for,
    prepared_devices,
    takes_devices,
)
from dra_shim.prepare.errors import ApiUnavailableError, NotYetError, kind_of, one_line
from dra_shim.prepare.events import (
    ClaimPrepared,
    ClaimUnprepared,
    Notify,
    PrepareFailed,
    PrepareWaits,
    UnprepareFailed,
)
from dra_shim.prepare.interfaces import ClaimSource, DeviceSource, NodeSource, PodSource
from dra_shim.resourceapi import AllocatedClaim, is_over, read_pod_use
from dra_shim.settings.common import StatePaths
from dranet_nri.component.backoff import Backoff
from dranet_nri.component.threads import in_thread
from dranet_nri.errors import DranetError, KernelError
from dranet_nri.model import Allocation, ObjectRef

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

LONGEST_S: Final = 40.0  # of a Prepare; the kubelet gives up after 45 (defaultClientCallTimeout)
MARGIN_S: Final = 2.0  # for the answer to arrive before the time that the kubelet gave is over
FIRST_PAUSE_S: Final = 0.2  # before the second try; doubles with each
LONGEST_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of claims, pods and devices."""

    claims: ClaimSource
    pods: PodSource
    devices: NodeSource


@dataclass(frozen=True, slots=True)
class PrepareResult:
    """The kubelet's answer for one claim: its devices, or the reason for none."""

    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


class _LeftError(Exception):
    """A claim is not to be taken over, for no pod has it any more."""


@dataclass(slots=True)
class _Trial:
    """Progress of a claim's Prepare and its sources, for the answer if time runs out.

    Attributes:
        devices: know them.
        adopts: no kubelet asks; it is taken over if a pod has it.
        document: the claim as the server has it.
        doing: what is waited for.
        trouble: that may pass.
    """

    devices: DeviceSource
    adopts: bool = False
    document: Mapping[str, object] = field(default_factory=dict)
    doing: str = "another call for this claim to end"
    trouble: str = ""

    def __str__(self) -> str:
        return self.trouble or f"no answer in time; waited for {self.doing}"


class Preparer:
    """Answers the kubelet."""

    def __init__(
        self,
        sources: Sources,
        state: StatePaths,
        terms: PrepareSettings,
        notify: Notify,
        *,
        providers: profiles.Providers | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Prepare; nothing is opened before the first call.

        Args:
            sources: where claims, pods and devices come from.
            state: where records are.
            terms: what holds for all claims.
            notify: called with the result of each claim; must not raise.
            providers: of parameters beside class and claim, None for none.
            sleep: waits that many seconds; between tries, and for the end of all tries.
        """
        self._sources = sources
        self._ledger = CheckpointTransaction(state, keep=True)
        self._mutex = threading.Lock()
        self._terms = terms
        self._notify = notify
        self._providers = providers or profiles.no_providers(state)
        self._sleep = sleep
        self._turns = turns.Turns[PrepareResult]()
        self._unprepared: set[str] | None = None  # while claims may be taken over

    async def prepare(
        self, claims: Sequence[ObjectRef], limit_s: float | None = None
    ) -> dict[str, PrepareResult]:
        """Record claims for their pods; return an answer for each claim UID.

        Args:
            claims: as the kubelet names them.
            limit_s: seconds until the kubelet gives up, None if it did not say.
        """
        most_s = LONGEST_S if limit_s is None else min(LONGEST_S, limit_s - MARGIN_S)
        trials = {claim: _Trial(self._sources.devices) for claim in claims}
        withdrawn = PrepareResult(error="was unprepared while it was being prepared")
        return {
            uid: answer or withdrawn for uid, answer in (await self._all(trials, most_s)).items()
        }

    @contextmanager
    def adopting(self) -> Iterator[None]:
        """Remember what is unprepared meanwhile, for adopt; begin before claims are listed."""
        self._unprepared = set()
        try:
            yield
        finally:
            self._unprepared = None

    async def adopt(
        self, claims: Sequence[ObjectRef], devices: DeviceSource
    ) -> dict[str, PrepareResult]:
        """Record claims that another driver prepared; return an answer for each claim UID.

        Without an answer are those that were unprepared since adopting began, or whose pod ended.

        Args:
            claims: that were found; later calls are for some of them.
            devices: where they come from.
        """
        trials = {claim: _Trial(devices, adopts=True) for claim in claims}
        answers = await self._all(trials, LONGEST_S)
        if self._unprepared is not None:
            self._unprepared &= answers.keys()
        return {uid: answer for uid, answer in answers.items() if answer is not None}

    async def unprepare(self, claims: Sequence[ObjectRef]) -> dict[str, str]:
        """Forget claims; return for each claim UID what is wrong, "" for success.

        An unknown claim is a success. It needs no API server.
        """
        asked = {claim.uid: claim for claim in claims}
        async with asyncio.TaskGroup() as group:
            tasks = {uid: group.create_task(self._unprepare(claim)) for uid, claim in asked.items()}
        return {uid: task.result() for uid, task in tasks.items()}

    async def drop(self, record: Allocation) -> bool:
        """Remove an orphaned record, unless it was written again; say whether it is gone.

        Args:
            record: as `standing` returned it.

        Raises:
            OSError: it cannot be removed.
        """
        uid = record.claim.uid
        async with self._turns.of(uid):
            return await self._transact(
                lambda transaction: transactions.forget(transaction, uid, record)
            )

    async def without_record(self, claim_uid: str, work: Callable[[], Awaitable[None]]) -> bool:
        """Run work in the claim's turn, unless it has a record; return whether it ran.

        Raises:
            DranetError, OSError: of the records, or of the work.
        """
        async with self._turns.of(claim_uid):
            if await self._transact(lambda transaction: transaction.by_uid(claim_uid)):
                return False
            await work()
            return True

    async def standing(self) -> tuple[transactions.RecordState, ...]:
        """Return all records, and whether pods have their devices.

        Raises:
            StateError: inotify is not to be had.
            OSError: a directory cannot be read.
        """
        return await self._transact(transactions.record_state)

    def close(self) -> None:
        """Let the records go; no call may be at work."""
        self._ledger.close()

    # ------------------------------------------------------------------- one claim

    async def _all(
        self, trials: Mapping[ObjectRef, _Trial], most_s: float
    ) -> dict[str, PrepareResult | None]:
        """Return an answer for each claim UID, None for what was unprepared or is left."""
        async with asyncio.TaskGroup() as group:
            tasks = {
                claim.uid: group.create_task(self._answer(claim, most_s, trial))
                for claim, trial in trials.items()
            }
            with self._turns.listed(tasks):
                await asyncio.wait(tasks.values()) if tasks else None
        return {uid: None if task.cancelled() else task.result() for uid, task in tasks.items()}

    async def _answer(self, claim: ObjectRef, most_s: float, trial: _Trial) -> PrepareResult | None:
        limit = asyncio.timeout(None)
        timer = asyncio.create_task(self._expire(limit, most_s))
        try:
            async with limit:
                return await self._prepare(claim, trial)
        except TimeoutError as error:
            if limit.expired():
                return self._failed(claim, str(trial), "late")
            return self._failed(claim, str(error), "io")
        except (DranetError, OSError) as error:
            return self._failed(claim, str(error), kind_of(error))
        except _LeftError:
            return None
        except Exception as error:  # noqa: BLE001 - a fault of ours fails one claim, not all
            message = f"internal error of dra-shim: {error!r}"
            return self._failed(claim, message, "internal", error)
        finally:
            timer.cancel()

    async def _expire(self, limit: asyncio.Timeout, after_s: float) -> None:
        await self._sleep(after_s)
        limit.reschedule(asyncio.get_running_loop().time())

    def _failed(
        self, claim: ObjectRef, message: str, kind: str, cause: Exception | None = None
    ) -> PrepareResult:
        self._notify(PrepareFailed(claim, message, cause, kind))
        return PrepareResult(error=one_line(message))

    async def _prepare(self, asked: ObjectRef, trial: _Trial) -> PrepareResult:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        async with self._turns.of(asked.uid):
            while True:
                try:
                    return await self._attempt(asked, trial)
                except (NotYetError, KernelError) as error:
                    if trial.trouble != str(error):
                        trial.trouble = str(error)
                        self._notify(PrepareWaits(asked, trial.trouble))
                    wanted_s = error.after_s if isinstance(error, ApiUnavailableError) else 0.0
                await self._sleep(backoff.next_s(at_least_s=wanted_s))

    async def _attempt(self, asked: ObjectRef, trial: _Trial) -> PrepareResult:
        if trial.adopts and self._unprepared and asked.uid in self._unprepared:
            raise _LeftError
        trial.doing = "the claim from the API server"
        document = await self._sources.claims.claim(asked)
        claim = claim_asked_for(document, asked)
        if not claim.results or document is None:
            return PrepareResult()
        trial.document = document
        record = await self._record(claim, trial)
        self._notify(ClaimPrepared(record.claim, record.pod, is_gated(record), document))
        return PrepareResult(prepared_devices(record))

    async def _record(self, claim: AllocatedClaim, trial: _Trial) -> Allocation:
        trial.doing = "the records"
        recorded = await self._recorded(claim.ref.uid)
        user = consumer_of(claim, recorded, await self._over(claim, recorded, trial))
        pod = ObjectRef(claim.ref.namespace, user.name, user.uid)
        trial.doing = f"pod {pod} from the API server"
        document = await self._sources.pods.pod(pod)
        use = pod_asked_for(read_pod_use(document, claim) if document else None, claim, pod)
        if trial.adopts and use.ended:
            raise _LeftError
        trial.doing = "the node's devices"
        devices = await trial.devices.devices({result.device[2] for result in claim.results})
        # What another driver gave away is in its pod already.
        rivals = {} if trial.adopts else self._sources.devices.rivals()
        layers: profiles.Layers = {}
        if recorded is None or not is_recorded(recorded, claim, pod.uid, self._terms):
            trial.doing = "the providers of parameters"
            layers = await self._providers.provided(claim, trial.document, devices, self._terms)
        trial.doing = "the records"
        given = transactions.RecordInputs(devices, rivals, layers, runs=trial.adopts)
        return await self._transact(
            lambda transaction: transactions.record(
                transaction, claim, pod, use, given, self._terms
            )
        )

    async def _recorded(self, claim_uid: str) -> Allocation | None:
        """Return the claim's record; transactions.record reads it again under the lock."""
        found: tuple[Allocation, ...] | None = None
        if self._mutex.acquire(blocking=False):  # else a transaction is at work
            try:
                found = self._ledger.peek(claim_uid)
            finally:
                self._mutex.release()
        if found is None:
            found = await self._transact(lambda transaction: transaction.by_uid(claim_uid))
        return found[0] if found else None

    async def _over(
        self, claim: AllocatedClaim, recorded: Allocation | None, trial: _Trial
    ) -> frozenset[str]:
        """Return the UIDs of those of several pods that ended, the one on record asked first.

        Two that did not are enough; one where any of them may observe.
        """
        pods = [consumer for consumer in claim.consumers if consumer.resource == "pods"]
        pods.sort(key=lambda consumer: recorded is None or consumer.uid != recorded.pod.uid)
        enough = 2 if takes_devices(claim) else 1
        over: set[str] = set()
        for asked, ref in enumerate(pods if len(pods) > 1 else ()):
            if asked - len(over) == enough:
                break
            pod = ObjectRef(claim.ref.namespace, ref.name, ref.uid)
            trial.doing = f"pod {pod} from the API server"
            if is_over(await self._sources.pods.pod(pod), ref.uid):
                over.add(ref.uid)
        return frozenset(over)

    async def _unprepare(self, claim: ObjectRef) -> str:
        if self._unprepared is not None:
            self._unprepared.add(claim.uid)
        self._turns.end(claim.uid)
        try:
            async with self._turns.of(claim.uid):
                known = await self._transact(
                    lambda transaction: transactions.forget(transaction, claim.uid)
                )
        except (DranetError, OSError) as error:
            return self._kept(claim, str(error), kind_of(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours fails one claim, not all
            message = f"internal error of dra-shim: {error!r}"
            return self._kept(claim, message, "internal", error)
        if known:
            self._notify(ClaimUnprepared(claim))
        return ""

    def _kept(
        self, claim: ObjectRef, message: str, kind: str, cause: Exception | None = None
    ) -> str:
        self._notify(UnprepareFailed(claim, message, cause, kind))
        return one_line(message)

    async def _transact(self, work: Callable[[CheckpointTransaction], T]) -> T:
        def run() -> T:
            with self._mutex, self._ledger:
                return work(self._ledger)

        return await _whole(run)


async def _whole(work: Callable[[], T]) -> T:
    """Run work on a thread; a cancellation takes effect only when the work is done."""
    task = asyncio.create_task(in_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        task.exception()  # retrieved, because no caller waits for it
        raise
