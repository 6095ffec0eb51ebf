"""Pods that the claims of one call have in common: each is requested once."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from dra_shim.prepare.errors import NotYetError
from dra_shim.prepare.interfaces import PodSource
from dranet_nri.model import ObjectRef


class SharedPods:
    """A PodSource for the first attempts of one call. A retry needs a new response.

    The kubelet prepares all claims of a pod in one call.
    """

    def __init__(self, source: PodSource) -> None:
        """Request pods from this source."""
        self._source = source
        self._locks = defaultdict[ObjectRef, asyncio.Lock](asyncio.Lock)
        self._responses: dict[ObjectRef, Mapping[str, object] | NotYetError | None] = {}

    async def pod(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """Implement PodSource. An error is that of all claims, so that none waits for another."""
        async with self._locks[ref]:
            if ref not in self._responses:
                try:
                    self._responses[ref] = await self._source.pod(ref)
                except NotYetError as error:
                    self._responses[ref] = error
        response = self._responses[ref]
        if isinstance(response, NotYetError):
            raise response
        return response
