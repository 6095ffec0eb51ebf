"""Allocation record and kubelet answer of a claim, decided from server, pod and node.

Rules:
1. A device goes to one pod. Only a monitor's claim (adminAccess) may share it.
2. The allocation is immutable while the claim is prepared. Its record is kept unchanged: its
   addresses, its nonce, its facts. Of a record from another boot only the nonce is kept.
3. The first device of a request carries the request's CDI id, so that a container has it once.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from dra_shim.prepare.errors import NotYetError
from dra_shim.resourceapi import (
    AllocatedClaim,
    Consumer,
    PodUse,
    Result,
    is_over,
    read_allocated,
    read_pod_use,
    recorded_amounts,
)
from dranet_nri.cdi.names import cdi_ids, gated_requests
from dranet_nri.config import select_config, violations_for_device, why_without_interface
from dranet_nri.errors import ConfigError, RefusedError
from dranet_nri.model import AllocatedDevice, Allocation, Device, NetworkConfig, ObjectRef


@dataclass(frozen=True, slots=True)
class PrepareSettings:
    """Settings that hold for all claims of the node.

    Attributes:
        pool: of the node's devices.
        boot_id: of this boot.
        first_valid_config: dranet's order of configurations, see `select_config`.
    """

    pool: str
    boot_id: str
    first_valid_config: bool = False


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One device in the kubelet's answer.

    Attributes:
        request: main request, without "/subrequest".
        cdi_ids: what the containers that list the request are given.
        share_id: of a share of the device, "" if it is the claim's.
    """

    request: str
    pool: str
    device: str
    cdi_ids: tuple[str, ...] = ()
    share_id: str = ""


def claim_asked_for(document: Mapping[str, object] | None, asked: ObjectRef) -> AllocatedClaim:
    """Return the claim that the kubelet asks for, as the server gave it under its name.

    Raises:
        RefusedError: there is none, it is another one, or it has no devices.
        ConfigError: it is not what a server writes.
    """
    if document is None:
        raise RefusedError(f"claim {asked}: does not exist any more; delete the pod")
    claim = read_allocated(document)
    if claim.ref.uid != asked.uid:
        raise RefusedError(
            f"claim {asked}: was replaced: the pod's had UID {asked.uid}, there is one with "
            f"{claim.ref.uid}; delete the pod"
        )
    if not claim.allocated:
        raise RefusedError(
            f"claim {asked}: is not allocated; the scheduler does that, not the node"
        )
    return claim


def consumer_of(
    claim: AllocatedClaim, recorded: Allocation | None, over: Collection[str] = ()
) -> Consumer:
    """Return the pod that the claim is for; the one on record, if that still uses it.

    A claim of a PodGroup (gate DRAWorkloadResourceClaims) names the group, not its pods.

    Args:
        claim: as the server has it.
        recorded: its record, None if there is none.
        over: UIDs of pods that ended; the cluster takes their reservations back in a while.

    Raises:
        NotYetError: pods that ended have it still.
        RefusedError: it is for none, for several, or for something else than a pod.
    """
    users = claim.consumers
    if not users:
        raise RefusedError(f"claim {claim.ref}: is reserved for no pod; delete the pod")
    pods = [user for user in users if user.resource == "pods"]
    groups = [user for user in users if user not in pods]
    if groups and (takes_devices(claim) or not pods):
        raise RefusedError(
            f"claim {claim.ref}: is reserved for {', '.join(map(str, groups))}, which is no pod, "
            "and a device goes to one pod; take the claim out of the PodGroup and give each pod "
            "its own: resourceClaimTemplateName in spec.resourceClaims of the pods"
        )
    if takes_devices(claim) and len(pods) > 1:
        alive = [pod for pod in pods if pod.uid not in over]
        if len(alive) < 2:
            ended = ", ".join(str(pod) for pod in pods if pod not in alive)
            raise NotYetError(
                f"claim {claim.ref}: is still reserved for {ended} as well, which ended"
            )
        raise RefusedError(
            f"claim {claim.ref}: is used by {len(alive)} pods ({', '.join(map(str, alive))}), and "
            "a device can be in one only; give each its own with a ResourceClaimTemplate"
        )
    known = recorded.pod.uid if recorded else ""
    living = [pod for pod in pods if pod.uid not in over] or pods
    return next((pod for pod in living if pod.uid == known), living[0])


def takes_devices(claim: AllocatedClaim) -> bool:
    """Whether the claim does more than observe."""
    return any(not result.admin_access for result in claim.results)


def pod_asked_for(use: PodUse | None, claim: AllocatedClaim, pod: ObjectRef) -> PodUse:
    """Return what the pod does with the claim, if it may have it.

    Raises:
        RefusedError: the pod is gone, another one, on the host's network, or not of the claim.
    """
    if use is None or use.uid != pod.uid:
        raise RefusedError(f"pod {pod}: the one with UID {pod.uid} does not exist any more")
    if not use.refers:
        raise RefusedError(f"pod {pod}: claim {claim.ref} is reserved for it, but it has none such")
    if use.host_network and takes_devices(claim):
        raise RefusedError(
            f"pod {pod}: is on the host's network, and no device can be moved there; remove "
            "hostNetwork, or the claim"
        )
    return use


def is_recorded(
    record: Allocation, claim: AllocatedClaim, pod_uid: str, terms: PrepareSettings
) -> bool:
    """Whether a record says what the server says, for this pod and in this boot."""
    same_user = (record.pod.uid, record.boot_id) == (pod_uid, terms.boot_id)
    return same_user and _has_devices_of(record, claim)


def _has_devices_of(record: Allocation, claim: AllocatedClaim) -> bool:
    """Whether the devices are the same.

    An older record does not know its alternatives, nor what its shares consume: the one counts
    where it is known, the other never, for a share that is allocated anew has another id.
    """
    recorded = [
        (device.request, device.pool, device.device.name, device.share_id, device.admin_access)
        for device in record.devices
    ]
    allocated = [
        (
            _named(result)[0],
            result.device[1],
            result.device[2],
            result.share_id,
            result.admin_access,
        )
        for result in claim.results
    ]
    return recorded == allocated and all(
        given.subrequest in {"", _named(result)[1]}
        for given, result in zip(record.devices, claim.results, strict=True)
    )


def why_orphaned(record: Allocation, document: Mapping[str, object] | None) -> str:
    """Return why a record is of no allocation any more, "" if it is of one.

    Args:
        record: of a claim.
        document: what the server has under the claim's name.

    Raises:
        ConfigError: it is not what a server writes.
    """
    if document is None:
        return "the claim does not exist any more"
    claim = read_allocated(document)
    if claim.ref.uid != record.claim.uid:
        return f"there is another claim of that name (UID {claim.ref.uid})"
    if not claim.allocated:
        return "the claim is not allocated any more"
    allocated = {result.device[1:] for result in claim.results}
    if not any((device.pool, device.device.name) in allocated for device in record.devices):
        return "the claim has other devices now"
    return ""


def handed_on(record: Allocation, claim: AllocatedClaim) -> tuple[ObjectRef, ...]:
    """Return the pods that a claim is reserved for, where the record's pod is none of them now.

    Between pods that follow each other without a gap the kubelet asks for no Unprepare and for no
    Prepare (pkg/kubelet/cm/dra/manager.go: isPrepared, PodUIDs). A monitor's claim needs neither.
    """
    pods = tuple(consumer for consumer in claim.consumers if consumer.resource == "pods")
    its_pod_has_it = record.pod.uid in {pod.uid for pod in pods}
    if its_pod_has_it or not (takes_devices(claim) and _has_devices_of(record, claim)):
        return ()
    return tuple(ObjectRef(claim.ref.namespace, pod.name, pod.uid) for pod in pods)


def expects(
    document: Mapping[str, object] | None, claim: AllocatedClaim, pod: ObjectRef, record: Allocation
) -> bool:
    """Whether a pod lives on the node of a record and is to have the claim.

    Args:
        document: what the server has under the pod's name.
        claim: as the server has it.
        pod: the one that is meant.
        record: of the claim.

    Raises:
        ConfigError: the document is not what a server writes.
    """
    if document is None or is_over(document, pod.uid):
        return False
    use = read_pod_use(document, claim)
    return use.refers and use.node in {device.pool for device in record.devices}


def allocation_of(
    claim: AllocatedClaim,
    pod: ObjectRef,
    use: PodUse,
    devices: Mapping[str, Device],
    terms: PrepareSettings,
    nonce: str,
) -> Allocation:
    """Return the record of a claim; addresses may still be ranges.

    Args:
        claim: as the server has it.
        pod: the one that has it.
        use: what the pod does with it.
        devices: of the node, by name.
        terms: what holds for all claims.
        nonce: of its CDI ids.

    Raises:
        NotYetError: a device is not on the node, or its interface is not.
        RefusedError: a device is of another node.
        ConfigError: every violation of the parameters, for all devices.
    """
    _check_devices(claim, devices, terms)
    violations: list[str] = []
    configs = dict(_configs(claim, terms, violations))
    given = tuple(
        _given(result, devices[result.device[2]], configs[result.request], violations)
        for result in claim.results
    )
    if violations:
        raise ConfigError(violations)
    return Allocation(
        claim.ref, pod, given, nonce, terms.boot_id, use.pod_claim_name, use.containers
    )


def _check_devices(
    claim: AllocatedClaim, devices: Mapping[str, Device], terms: PrepareSettings
) -> None:
    for result in claim.results:
        _, pool, name = result.device
        if pool != terms.pool:
            raise RefusedError(
                f"device {name}: is of pool {pool}, and this node's is {terms.pool}; is the node's "
                "name right (--hostname-override)?"
            )
        if name not in devices:
            raise NotYetError(
                f"device {name}: this node has none such now, or must not give it away; "
                "see 'dranet-nri inventory'; what the Node's address keeps back is in the "
                "shim's log ('left out')"
            )
        bare = "" if result.admin_access else why_without_interface(devices[name])
        if bare:
            raise NotYetError(f"device {name}: {bare}")


def _configs(
    claim: AllocatedClaim, terms: PrepareSettings, violations: list[str]
) -> Iterator[tuple[str, NetworkConfig]]:
    """Yield the configuration of each request; what is wrong with one is added to violations."""
    for request in dict.fromkeys(result.request for result in claim.results):
        try:
            config = select_config(
                claim.configs, request, first_valid_wins=terms.first_valid_config
            )
        except ConfigError as error:
            violations += (line for line in error.violations if line not in violations)
            config = NetworkConfig()
        yield request, config


def _given(
    result: Result, device: Device, config: NetworkConfig, violations: list[str]
) -> AllocatedDevice:
    """Return a device as it is given; what its configuration asks in vain is added to violations.

    The claim that has a device configures it, not one that observes it.
    """
    if result.admin_access:
        config = NetworkConfig()
    share = bool(result.share_id) and not result.admin_access
    found = violations_for_device(config, device, share=share)
    violations += (f"device {device.name}: {violation}" for violation in found)
    request, subrequest = _named(result)
    return AllocatedDevice(
        request,
        result.device[1],
        device,
        config,
        result.admin_access,
        result.share_id,
        subrequest,
        recorded_amounts(result.consumed),
    )


def is_gated(record: Allocation) -> bool:
    """Whether each request that hands devices over is listed by a container, which waits for them.

    A container that lists another request of the claim waits for nothing.
    """
    listed = {container.request for container in record.containers}
    return "" in listed or listed.issuperset(gated_requests(record))


def prepared_devices(record: Allocation) -> tuple[PreparedDevice, ...]:
    """Return the kubelet's answer for a recorded claim."""
    ids = dict(cdi_ids(record))
    return tuple(
        PreparedDevice(
            device.request,
            device.pool,
            device.device.name,
            (ids.pop(device.request),) if device.request in ids else (),
            device.share_id,
        )
        for device in record.devices
    )


def _named(result: Result) -> tuple[str, str]:
    """Return the request and its alternative, "" where it has none."""
    request, _, subrequest = result.request.partition("/")
    return request, subrequest
