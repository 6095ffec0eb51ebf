"""A node's shim without a kubelet: a preparer on real records, a server and devices in memory."""

import asyncio
from typing import Any

from dra_shim.checkpoint.transaction import CheckpointTransaction
from dra_shim.prepare import (
    Notice,
    Preparer,
    PrepareResult,
    PrepareSettings,
    Providers,
    Sources,
)
from dra_shim.prepare.preparer import FIRST_PAUSE_S, LONGEST_S, MARGIN_S
from dra_shim.settings.common import StatePaths
from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    NetnsId,
    ObjectRef,
    Phase,
)
from dranet_nri.state.reader import AllocationReader
from dranet_nri.state.store import AttachmentStore
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import (
    POOL,
    FakeCluster,
    nic,
)
from tests.fakes.no_cloud import no_providers

TERMS = PrepareSettings(POOL, "boot1")
POD = ObjectRef("ai", "train", "p1")
OTHER = ObjectRef("ai", "other", "u9")
OTHER_POD = ObjectRef("ai", "inference", "p9")


class Bench:
    """A node's shim without a kubelet; its records are real."""

    def __init__(
        self, state: StatePaths, terms: PrepareSettings = TERMS, providers: Providers | None = None
    ) -> None:
        self.state = state
        self.cluster = FakeCluster()
        self.clock = FakeClock()
        self.notices: list[Notice] = []
        sources = Sources(self.cluster, self.cluster, self.cluster)
        self.preparer = Preparer(
            sources, state, terms, self.notices.append,
            providers=providers or no_providers(state),
            sleep=self.clock.sleep, timeout=self.clock.timeout,
        )  # fmt: skip

    def close(self) -> None:
        """Let the records go."""
        self.preparer.close()

    def prepare(self, *claims: ObjectRef) -> list[PrepareResult]:
        answers = asyncio.run(self.preparer.prepare(claims))
        assert list(answers) == [claim.uid for claim in claims]
        return list(answers.values())

    def error(self, claim: ObjectRef) -> str:
        (answer,) = self.prepare(claim)
        assert answer.devices == ()
        return answer.error

    def prepare_until_timeout(
        self, *claims: ObjectRef, waiting: int = 1, limit_s: float | None = None
    ) -> list[PrepareResult]:
        """Prepare, and let time pass when so many claims are in their first pause."""

        async def run() -> dict[str, PrepareResult]:
            task = asyncio.create_task(self.preparer.prepare(claims, limit_s))
            await self.clock.until_asleep(FIRST_PAUSE_S, waiting)
            self.clock.pass_time(limit_s - MARGIN_S if limit_s else LONGEST_S)
            return await task

        return list(asyncio.run(run()).values())

    def record(self, claim: ObjectRef) -> Allocation | None:
        with AllocationReader(self.state.allocations, owner=None) as reader:
            return reader.get(claim.uid)


def give_to_another(state: StatePaths, *devices: str, share: str = "") -> None:
    given = tuple(AllocatedDevice("nic", POOL, nic(device), share_id=share) for device in devices)
    with CheckpointTransaction(state) as transaction:
        transaction.record([Allocation(OTHER, OTHER_POD, given, "n", "boot1")])


def attach(
    state: StatePaths, claim: ObjectRef, pod: ObjectRef, device: str, phase: Phase, **facts: Any
) -> None:
    """Write the attachment record of a claim; `facts` are fields of its device."""
    with AttachmentStore(state.attachments) as attachments:
        attachments.put(
            Attachment(
                claim,
                pod,
                "sandbox1",
                NetnsId("/run/netns/x", 1, 2),
                phase,
                (AttachedDevice("nic", nic(device), restored=phase is Phase.RESTORED, **facts),),
            )
        )


def nonce_of(answer: PrepareResult) -> str:
    (cdi_id,) = answer.devices[0].cdi_ids
    return cdi_id.rpartition("_")[2]
