"""Interfaces of Prepare: sources of claims, pods and devices. API client and inventory
implement them.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from dranet_nri.model import Device, ObjectRef


class ClaimSource(Protocol):
    """Reads ResourceClaims."""

    async def claim(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """Return the claim of that namespace and name as JSON, None if there is none.

        It must come from the API server, not from a cache: its UID and allocation decide. The
        caller compares the UID.

        Raises:
            UnavailableError: the server cannot answer now.
            NotYetError: it will not (401, 403), or serves no such kind; says what is missing. One
                that has just started says so for a while.
        """


class PodSource(Protocol):
    """Reads Pods."""

    async def pod(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """Return the pod of that namespace and name as JSON, None if there is none.

        Raises:
            UnavailableError: the server cannot answer now.
            NotYetError: it will not (401, 403), or serves no such kind; says what is missing. One
                that has just started says so for a while.
        """


class UseSource(ClaimSource, PodSource, Protocol):
    """Reads claims, and the pods that use them."""


class DeviceSource(Protocol):
    """Source of the node's devices."""

    async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
        """Return those of the devices that this node may give away, published or not, by name.

        A device that is in a pod keeps its last facts. For a name that it does not know it looks
        at the node once more before it leaves it out.

        Raises:
            KernelError: the node cannot be scanned.
        """


class NodeSource(DeviceSource, Protocol):
    """Source of the node's devices, and of those that exclude each other."""

    def conflicts(self) -> Mapping[str, frozenset[str]]:
        """Return device → those that no other pod may have beside it, by the last scan.

        A PF and its virtual functions and subfunctions are such.
        """
