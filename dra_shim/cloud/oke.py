"""Oracle Cloud: location of the host in the RDMA fabric.

Origin: docs.oracle.com/iaas/Content/Compute/Tasks/gettingmetadata.htm (the server),
kubernetes-sigs/dranet (the attributes).
"""

from typing import Final

from dra_shim.cloud import names
from dra_shim.cloud.provider import (
    Cloud,
    Describe,
    DeviceFacts,
    Get,
    MetadataRequest,
    read_json,
    string_attributes,
    text_at,
    value_at,
)

_HEADERS: Final = (("Authorization", "Bearer Oracle"),)
_MAX: Final = 60  # unique characters at the end of an OCID, which is too long for an attribute


async def _load(get: Get) -> Describe:
    host = read_json(await get(MetadataRequest("/opc/v2/host/", _HEADERS)), "OCI metadata")
    topology = value_at(host, "rdmaTopologyData")
    block = text_at(topology, "customerNetworkBlock") or text_at(host, "networkBlockId")
    facts = DeviceFacts(
        string_attributes(
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
