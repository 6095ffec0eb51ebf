"""Interfaces of Prepare: sources of claims, pods and devices, for API client and inventory."""

from collections.abc import Collection, Mapping
from typing import Protocol

from dranet_nri.model import Device, ObjectRef


class ClaimSource(Protocol):
    """Source of ResourceClaims."""

    async def claim(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """Return the claim as JSON, None if there is none.

        It comes from the API server, not from a cache: a stale UID or allocation would be recorded.
        The caller compares the UID.

        Raises:
            ApiUnavailableError: the server does not answer now.
            NotYetError: the server refuses (401, 403), or does not serve the kind; the text names
                the missing permission. A server that has just started answers this too.
        """


class PodSource(Protocol):
    """Source of Pods.

    Prepare needs the pod: a claim names it, but does not tell its name for the claim (KEP-5304),
    which containers list the claim and must wait for its devices, and whether it is on the host
    network. A watch would save the request, but needs a message for each change of each pod of the
    node, and the right to list the pods of all namespaces.
    """

    async def pod(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """Return the pod as JSON, None if there is none.

        Raises:
            ApiUnavailableError: the server does not answer now.
            NotYetError: the server refuses (401, 403), or does not serve the kind; the text names
                the missing permission. A server that has just started answers this too.
        """


class UseSource(ClaimSource, PodSource, Protocol):
    """Source of claims and of the pods that use them."""


class DeviceSource(Protocol):
    """Source of the node's devices."""

    async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
        """Return the devices of these names that can be assigned, published or not.

        A device in a pod keeps its last facts. For an unknown name, the node is scanned once more.

        Raises:
            KernelError: the node cannot be scanned.
        """


class NodeSource(DeviceSource, Protocol):
    """Source of the node's devices and of their conflicts."""

    def conflicts(self) -> Mapping[str, frozenset[str]]:
        """Return device → devices that no other pod may have at the same time, by the last scan.

        A PF conflicts with its virtual functions and subfunctions.
        """
