"""dranet's side of the kubelet's sockets: it prepares each claim, without devices and CDI ids.

`python3 -m tests.system.cluster.predecessor` serves it until it is killed. What dranet does to NICs
and in the API, tests do (tests.system.cluster.dranet). Origin: kubernetes-sigs/dranet,
pkg/driver/dra_hooks.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dra_shim.kubeletplugin import KubeletPlugin, dra_services, sockets_of
from dra_shim.prepare import PrepareResult
from dranet_nri.model import DRIVER_NAME, ObjectRef

KUBELET: Final = Path("/var/lib/kubelet")


class Dranet:
    """What stands behind the kubelet's calls."""

    async def prepare(
        self, claims: Sequence[ObjectRef], limit_s: float | None = None
    ) -> Mapping[str, PrepareResult]:
        """Answer NodePrepareResources."""
        return {claim.uid: PrepareResult() for claim in claims}

    async def unprepare(self, claims: Sequence[ObjectRef]) -> Mapping[str, str]:
        """Answer NodeUnprepareResources."""
        return {claim.uid: "" for claim in claims}


def main() -> None:
    """Serve."""
    sockets = sockets_of(KUBELET, DRIVER_NAME)
    asyncio.run(KubeletPlugin(DRIVER_NAME, sockets, dra_services(Dranet()), print).run())


if __name__ == "__main__":
    main()
