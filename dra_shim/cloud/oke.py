"""Oracle Cloud: location of the host in the RDMA fabric.

Origin: docs.oracle.com/iaas/Content/Compute/Tasks/gettingmetadata.htm (the server),
kubernetes-sigs/dranet (the attributes).
"""

from typing import Final

from dra_shim.cloud import names
from dra_shim.cloud.provider import (
    Ask,
    Cloud,
    Describe,
    DeviceFacts,
    Question,
    member,
    read_json,
    text_at,
    texts,
)

_HEADERS: Final = (("Authorization", "Bearer Oracle"),)
_MAX: Final = 60  # unique characters at the end of an OCID, which is too long for an attribute


async def _load(ask: Ask) -> Describe:
    host = read_json(await ask(Question("/opc/v2/host/", _HEADERS)), "OCI metadata")
    topology = member(host, "rdmaTopologyData")
    block = text_at(topology, "customerNetworkBlock") or text_at(host, "networkBlockId")
    facts = DeviceFacts(
        texts(
            {
                "oke.dra.net/hpcIslandId": _unique(text_at(topology, "customerHPCIslandId")),
                "oke.dra.net/networkBlockId": _unique(block),
                "oke.dra.net/localBlockId": _unique(text_at(topology, "customerLocalBlock")),
                "oke.dra.net/rackId": text_at(host, "rackId"),
                "oke.dra.net/gpuMemoryFabricId": _unique(
                    text_at(topology, "customerGpuMemoryFabric")
                ),
            }
        )
    )
    return lambda _: facts


def _unique(ocid: str) -> str:
    return ocid.rpartition(".")[2][-_MAX:]


OKE: Final = Cloud(names.OKE, "http://169.254.169.254", _load)
