"""Node addresses: the addresses of the Node object, which identify its uplinks.

Rules:
1. No device is published before the addresses are known, because it might be an uplink.
2. They are requested at intervals. If the server does not answer, the last answer remains valid.
"""

from collections.abc import Callable
from math import inf
from typing import Final, Protocol

from dranet_nri.errors import DranetError

REFRESH_S: Final = 300.0  # seconds, as often as a kubelet reports an unchanged Node
RETRY_S: Final = 60.0  # seconds after an error, or until the cloud has set the addresses


class AddressSource(Protocol):
    """Source of the addresses of Nodes."""

    async def addresses(self, node: str) -> frozenset[str]:
        """Return the addresses of a Node, in the form of inet_ntop(3).

        Returns within seconds, because a scan of the node waits for the result.

        Raises:
            DranetError: the addresses are not available.
        """


class NodeAddresses:
    """Addresses of one node, cached.

    Attributes:
        node: its name.
    """

    def __init__(self, source: AddressSource, node: str, clock: Callable[[], float]) -> None:
        """Create the cache; no request is sent.

        Args:
            source: source of the addresses.
            node: name of the node.
            clock: monotonic seconds.
        """
        self._source = source
        self.node = node
        self._clock = clock
        self._addresses: frozenset[str] | None = None
        self._due = -inf

    async def addresses(self) -> frozenset[str]:
        """Return the addresses of the node, for one caller at a time.

        Raises:
            DranetError: the addresses were never known.
        """
        if self._addresses is None or self._due <= self._clock():
            try:
                self._addresses = await self._source.addresses(self.node)
            except DranetError:
                if self._addresses is None:
                    raise
                self._due = self._clock() + RETRY_S
            else:
                self._due = self._clock() + (REFRESH_S if self._addresses else RETRY_S)
        return self._addresses
