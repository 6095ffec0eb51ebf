"""The sandboxes that live, as the runtime tells of them.

Rules:
1. Of a pod's sandboxes one lives: the one that was heard of last.
2. The runtime's list has no order, and stopped sandboxes are in it too.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from dranet_nri.model import Pod


@dataclass(slots=True)
class Sandboxes:
    """The sandboxes that may have devices."""

    _live: dict[str, Pod] = field(default_factory=dict)

    def __contains__(self, sandbox_id: str) -> bool:
        """Whether the sandbox lives."""
        return sandbox_id in self._live

    def __iter__(self) -> Iterator[Pod]:
        """Return those that live now, whatever comes or goes meanwhile."""
        return iter(tuple(self._live.values()))

    def enter(self, pod: Pod) -> None:
        """Note that the sandbox lives, and thus no other one of its pod."""
        for other in self.others(pod):
            self.leave(other.sandbox_id)
        self._live[pod.sandbox_id] = pod

    def leave(self, sandbox_id: str) -> None:
        """Note that the sandbox has ended; fine if nobody knew it."""
        self._live.pop(sandbox_id, None)

    def others(self, pod: Pod) -> tuple[Pod, ...]:
        """Return what else is said to be a living sandbox of the pod."""
        return tuple(
            each for each in self if each.uid == pod.uid and each.sandbox_id != pod.sandbox_id
        )

    def take(self, listed: Iterable[Pod], holders: Collection[str]) -> None:
        """Take the runtime's list as the truth.

        Args:
            listed: every sandbox that the runtime knows.
            holders: ids of those that have devices by our records. Of two it is one of these.
        """
        self._live = {}
        for pod in sorted(listed, key=lambda pod: (pod.pid > 0, pod.sandbox_id in holders)):
            self.enter(pod)
