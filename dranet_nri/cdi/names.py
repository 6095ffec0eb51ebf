"""CDI names of requests and paths of metadata files, and how to find them in a container."""

import re
from typing import Final

from dranet_nri.model import (
    DRIVER_NAME,
    Allocation,
    Container,
    ObjectRef,
)

CDI_KIND: Final = f"{DRIVER_NAME}/nic"
METADATA_FILE: Final = f"{DRIVER_NAME}-metadata.json"
METADATA_ROOT: Final = "/var/run/kubernetes.io/dra-device-attributes"  # KEP-5304
NETNS_ROOT: Final = "/var/run/dra.net"  # mount point of the pod's namespace file in containers
_NOT_CDI: Final = re.compile(r"[^A-Za-z0-9_.-]")


def cdi_name(claim: ObjectRef, request: str, nonce: str) -> str:
    """Return the CDI device name of a request; it is shown in the pod's events."""
    return _NOT_CDI.sub("-", f"{claim.namespace}_{claim.name}_{request}_{nonce}")


def cdi_id(claim: ObjectRef, request: str, nonce: str) -> str:
    """Return the fully qualified CDI device name of a request."""
    return f"{CDI_KIND}={cdi_name(claim, request, nonce)}"


def cdi_ids(allocation: Allocation) -> tuple[tuple[str, str], ...]:
    """Return (request, CDI id) of each request except adminAccess, in the claim's order."""
    return tuple(
        (request, cdi_id(allocation.claim, request, allocation.nonce))
        for request in gated_requests(allocation)
    )


def gated_requests(allocation: Allocation) -> tuple[str, ...]:
    """Return the requests whose devices are attached: all except adminAccess."""
    return tuple(
        dict.fromkeys(device.request for device in allocation.devices if not device.admin_access)
    )


def requests_of(allocation: Allocation, container: str) -> tuple[str, ...]:
    """Return the requests whose devices the container gets.

    If no container of the pod references the claim, as is common with dranet, all get it.
    """
    requests = gated_requests(allocation)
    if not allocation.containers:
        return requests
    referenced = [
        reference.request for reference in allocation.containers if reference.container == container
    ]
    if "" in referenced:
        return requests
    return tuple(request for request in requests if request in referenced)


def metadata_source(directory: str, claim_uid: str, request: str) -> str:
    """Return the host path of a request's metadata file."""
    return f"{directory}/{claim_uid}/{request}/metadata.json"


def metadata_destination(allocation: Allocation, request: str) -> str:
    """Return the path of the request's metadata file in containers."""
    name = allocation.pod_claim_name
    owner = f"resourceclaimtemplates/{name}" if name else f"resourceclaims/{allocation.claim.name}"
    return f"{METADATA_ROOT}/{owner}/{request}/{METADATA_FILE}"


def mounted_claims(container: Container, directory: str) -> tuple[str, ...]:
    """Return the distinct UIDs of the claims whose metadata files the container mounts."""
    found: list[str] = []
    for mount in container.mounts:
        rest = mount.source.removeprefix(f"{directory}/")
        if rest != mount.source and rest.endswith("/metadata.json"):
            found.append(rest.split("/", 1)[0])
    return tuple(dict.fromkeys(found))


def mounted_namespaces(container: Container) -> tuple[str, ...]:
    """Return the network namespace paths of the container's CDI specs."""
    root = f"{NETNS_ROOT}/"
    mounts = (mount for mount in container.mounts if mount.destination.startswith(root))
    return tuple(dict.fromkeys(mount.source for mount in mounts))
