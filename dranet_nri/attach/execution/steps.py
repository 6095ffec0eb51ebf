"""Operations of an attach: applied one by one, in two parts.

Rules:
1. The second part needs addresses from the network, and is planned after they arrive.
2. If the kernel refuses inherited configuration, it is recorded, and the attach continues.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dranet_nri.attach.desired import DesiredDevice
from dranet_nri.errors import KernelError
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import Op, Plan
from dranet_nri.plan.planner import is_incomplete


@dataclass(slots=True)
class AttachRun:
    """State of a running attach.

    Attributes:
        refused: refused optional operations, by target.
        step: the last started step.
    """

    session: Session
    refused: list[list[tuple[Op, KernelError]]]
    step: Op | str = ""

    def apply(self, targets: tuple[DesiredDevice, ...], ops: Iterable[tuple[int, Op]]) -> None:
        """Apply operations, each with the number of its target.

        Raises:
            KernelError: the kernel refused a required operation.
        """
        for number, op in ops:
            self.step = op
            try:
                self.session.apply(op)
            except KernelError as error:
                if not targets[number].is_optional(op, error):
                    raise
                self.refused[number].append((op, error))


def all_ops(
    session: Session, targets: tuple[DesiredDevice, ...], plans: tuple[Plan, ...]
) -> Iterator[tuple[int, Op]]:
    """Yield the operations of an attach, each with the number of its target.

    The caller applies each before it requests the next.
    """
    for number, (target, ops) in enumerate(zip(targets, plans, strict=True)):
        yield from ((number, op) for op in ops)
        if is_incomplete(target.record.snapshot, ops):
            yield from ((number, op) for op in target.observed_again(session).plan())


def late_ops(session: Session, targets: tuple[DesiredDevice, ...]) -> Iterator[tuple[int, Op]]:
    """Yield the operations that need addresses from the network."""
    for number, target in enumerate(targets):
        if target.network and target.network.is_dynamic:
            yield from ((number, op) for op in target.observed_again(session).plan())
