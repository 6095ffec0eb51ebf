"""Pods that the claims of one call have in common: each is requested once."""

import asyncio
from collections.abc import Mapping

from dra_shim.prepare.interfaces import PodSource
from dranet_nri.model import ObjectRef


class SharedPods:
    """A PodSource for the first attempts of one call. A retry needs a new response.

    The kubelet prepares all claims of a pod in one call.
    """

    def __init__(self, source: PodSource) -> None:
        """Request pods from this source."""
        self._source = source
        self._lock = asyncio.Lock()
        self._documents: dict[ObjectRef, Mapping[str, object] | None] = {}

    async def pod(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """Implement PodSource. After an error, the next claim requests the pod again."""
        async with self._lock:
            if ref not in self._documents:
                self._documents[ref] = await self._source.pod(ref)
            return self._documents[ref]
