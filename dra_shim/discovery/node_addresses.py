"""Node addresses: the addresses by which the cluster reaches the node, which mark its uplinks.

Rules:
1. No device is published before they are known, or the node's own NIC might be.
2. They are requested again at intervals. While the server does not answer, the last answer counts.
"""

from collections.abc import Callable
from math import inf
from typing import Final, Protocol

from dranet_nri.errors import DranetError

AGAIN_S: Final = 300.0  # as often as a kubelet reports a Node that is as it was
RETRY_S: Final = 60.0  # after no answer, or while the cloud has not set the addresses


class AddressSource(Protocol):
    """Source of the addresses of Nodes."""

    async def addresses(self, node: str) -> frozenset[str]:
        """Return the addresses of the Node of that name, as inet_ntop(3) writes them.

        It answers within seconds, because a scan of the node waits for it.

        Raises:
            DranetError: they are not known now.
        """


class NodeAddresses:
    """Asks for one node.

    Attributes:
        node: its name.
    """

    def __init__(self, source: AddressSource, node: str, clock: Callable[[], float]) -> None:
        """Prepare to ask.

        Args:
            source: of the addresses.
            node: its name.
            clock: seconds that only go up.
        """
        self._source = source
        self.node = node
        self._clock = clock
        self._known: frozenset[str] | None = None
        self._due = -inf

    async def addresses(self) -> frozenset[str]:
        """Return the node's addresses; one caller at a time.

        Raises:
            DranetError: they are not known now, and never were.
        """
        if self._known is None or self._due <= self._clock():
            try:
                self._known = await self._source.addresses(self.node)
            except DranetError:
                if self._known is None:
                    raise
                self._due = self._clock() + RETRY_S
            else:
                self._due = self._clock() + (AGAIN_S if self._known else RETRY_S)
        return self._known
