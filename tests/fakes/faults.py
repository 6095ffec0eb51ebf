"""Failures that tests inject into a kernel in memory."""

from dataclasses import dataclass

from dranet_nri.errors import KernelError
from dranet_nri.plan.ops import Op


@dataclass(slots=True)
class Fault:
    """What to raise, and when.

    Attributes:
        kind: the class of op that fails; any op if None.
        nth: how many matching ops still get through before it, plus one.
        times: how often it fails, None for ever.
        done: the op happens before the error is raised, as in a real half-failure.
    """

    kind: type[Op] | None
    nth: int
    times: int | None
    error: BaseException | int
    done: bool

    def hits(self, op: Op) -> bool:
        """Count op; return whether it is the one that fails."""
        if (self.kind is not None and not isinstance(op, self.kind)) or self.times == 0:
            return False
        self.nth -= 1
        if self.nth > 0:
            return False
        if self.times is not None:
            self.times -= 1
        return True

    def strike(self, op: Op) -> BaseException:
        """Return the error to raise for op."""
        if isinstance(self.error, BaseException):
            return self.error
        return KernelError(str(op), self.error, "injected")
