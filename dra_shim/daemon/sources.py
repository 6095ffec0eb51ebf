"""API server sources: claims, pods and the Node, read without a cache."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from dra_shim.cloud.provider import CloudError
from dra_shim.kubeapi import (
    CLAIM,
    NODE,
    POD,
    ApiClient,
    ApiError,
    Kind,
    NotFoundError,
    NotServedError,
    RejectedError,
    object_at,
    objects_at,
)
from dra_shim.kubeapi import UnavailableError as NoAnswerError
from dra_shim.prepare import ApiUnavailableError, NotYetError
from dranet_nri.errors import DranetError, RefusedError
from dranet_nri.model import ObjectRef

ADDRESSES_S: Final = 5.0  # seconds; a scan waits for the addresses


class ServerSource:
    """Claims, pods and Nodes of an API server: a ClaimSource, a PodSource and an AddressSource."""

    def __init__(self, api: ApiClient, *, addresses_s: float = ADDRESSES_S) -> None:
        """Use this client; a request for a Node has this timeout in seconds."""
        self._api = api
        self._addresses_s = addresses_s

    async def claim(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """Implement ClaimSource."""
        return await self._read(CLAIM, ref)

    async def pod(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """Implement PodSource."""
        return await self._read(POD, ref)

    async def addresses(self, node: str) -> frozenset[str]:
        """Return the addresses of a Node; see AddressSource.

        Raises:
            ApiUnavailableError: the server does not answer now, or has no such Node.
            NotYetError: the server refuses; the text names the missing permission.
        """
        return frozenset(_addresses(await self._node(node)))

    async def labels(self, node: str) -> Mapping[str, str]:
        """Return the labels of a Node.

        Raises:
            CloudError: the server does not answer, or has no such Node.
        """
        try:
            document = await self._node(node)
        except DranetError as error:
            raise CloudError(str(error)) from error
        labels = object_at(document, "metadata", "labels")
        return {str(name): str(value) for name, value in labels.items()}

    async def _node(self, node: str) -> Mapping[str, object]:
        try:
            async with asyncio.timeout(self._addresses_s):
                document = await self._read(NODE, ObjectRef("", node, ""))
        except TimeoutError:
            raise ApiUnavailableError(
                f"get Node {node}: no answer in {self._addresses_s:g} s"
            ) from None
        if document is None:
            raise ApiUnavailableError(
                f"Node {node}: does not exist; check the name of the node (--hostname-override)"
            )
        return document

    async def _read(self, kind: Kind, ref: ObjectRef) -> Mapping[str, object] | None:
        try:
            return await self._api.get(kind, ref.name, ref.namespace)
        except NotFoundError:
            return None
        except NoAnswerError as error:
            raise ApiUnavailableError(str(error), error.after_s) from error
        except (RejectedError, NotServedError) as error:  # also of a server that has just started
            raise NotYetError(str(error)) from error
        except ApiError as error:
            raise RefusedError(str(error)) from error


def _addresses(node: Mapping[str, object]) -> Iterator[str]:
    """Yield the first IP address of each type and family of a Node, in the form of inet_ntop(3).

    Kubelet and API server use the first one (status.hostIPs, preferred address types). Some clouds
    list the addresses of all NICs, including those for pods.
    """
    kinds: set[tuple[str, int]] = set()
    for listed_address in objects_at(node, "status", "addresses"):
        text = listed_address.get("address")
        with suppress(ValueError):  # Hostname, InternalDNS
            address = ip_address(text if isinstance(text, str) else "")
            kind = (str(listed_address.get("type")), address.version)
            if kind not in kinds:
                kinds.add(kind)
                yield str(address)
