"""The operations of an attach: applied one by one, in two parts.

Rules:
1. The second part needs addresses which the network gives, and is planned once they are there.
2. What the kernel refuses of inherited configuration is noted, and the attach continues.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dranet_nri.attach.desired import DesiredDevice
from dranet_nri.errors import KernelError
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import Op, Plan
from dranet_nri.plan.planner import is_cut


@dataclass(slots=True)
class AttachRun:
    """The operations of an attach.

    Attributes:
        refused: what the kernel refused that the pod can do without, by target.
        step: the last one that began.
    """

    session: Session
    refused: list[list[tuple[Op, KernelError]]]
    step: Op | str = ""

    def apply(self, targets: tuple[DesiredDevice, ...], ops: Iterable[tuple[int, Op]]) -> None:
        """Apply each operation, which is for the target of that number.

        Raises:
            KernelError: the kernel refused what the pod needs.
        """
        for number, op in ops:
            self.step = op
            try:
                self.session.apply(op)
            except KernelError as error:
                if not targets[number].may_lack(op, error):
                    raise
                self.refused[number].append((op, error))


def all_ops(
    session: Session, targets: tuple[DesiredDevice, ...], plans: tuple[Plan, ...]
) -> Iterator[tuple[int, Op]]:
    """Yield every operation of an attach, each applied before the next one is asked for.

    With the number of the target that it is for.
    """
    for number, (target, ops) in enumerate(zip(targets, plans, strict=True)):
        yield from ((number, op) for op in ops)
        if is_cut(target.record.snapshot, ops):
            yield from ((number, op) for op in target.seen_anew(session).plan())


def late_ops(session: Session, targets: tuple[DesiredDevice, ...]) -> Iterator[tuple[int, Op]]:
    """Yield the operations that need the addresses which the network gave."""
    for number, target in enumerate(targets):
        if target.network and target.network.is_dynamic:
            yield from ((number, op) for op in target.seen_anew(session).plan())
