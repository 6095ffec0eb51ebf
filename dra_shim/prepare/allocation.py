"""Allocation record and kubelet response of a claim, computed from server, pod and node.

Rules:
1. A device is assigned to one pod. Only a claim with adminAccess can observe it as well.
2. The allocation is immutable while the claim is prepared, so its record is kept unchanged:
   addresses, nonce and facts. Of a record from another boot only the nonce is kept.
3. Only the first device of a request has the CDI id of the request, so that a container gets it
   once.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dra_shim.prepare.errors import NotYetError
from dra_shim.prepare.parameters import ClaimParameters
from dra_shim.resourceapi import (
    AllocatedClaim,
    Consumer,
    PodUse,
    Result,
    has_ended,
    read_allocated,
    read_pod_use,
    recorded_amounts,
)
from dranet_nri.cdi.names import cdi_ids, gated_requests
from dranet_nri.config import (
    Provided,
    SelectedParameters,
    violations_for_device,
    why_without_interface,
    with_provided,
)
from dranet_nri.errors import ConfigError, RefusedError
from dranet_nri.model import AllocatedDevice, Allocation, Device, NetworkConfig, ObjectRef


@dataclass(frozen=True, slots=True)
class PrepareSettings:
    """Settings for all claims of the node.

    Attributes:
        pool: name of the node's pool.
        boot_id: boot id of the kernel.
        first_valid_config: dranet's precedence of configurations, see `select_parameters`.
    """

    pool: str
    boot_id: str
    first_valid_config: bool = False


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One device in the response to the kubelet.

    Attributes:
        request: main request, without "/subrequest".
        cdi_ids: CDI ids for the containers that list the request.
        share_id: id of a share of the device, "" for the whole device.
    """

    request: str
    pool: str
    device: str
    cdi_ids: tuple[str, ...] = ()
    share_id: str = ""


def requested_claim(document: Mapping[str, object] | None, ref: ObjectRef) -> AllocatedClaim:
    """Return the claim that the kubelet requests, from the server's document.

    Raises:
        RefusedError: the claim does not exist, was replaced, or is not allocated.
        ConfigError: the document is invalid.
    """
    if document is None:
        raise RefusedError(f"claim {ref}: does not exist; delete the pod")
    claim = read_allocated(document)
    if claim.ref.uid != ref.uid:
        raise RefusedError(
            f"claim {ref}: was replaced: the pod has the claim with UID {ref.uid}, and the server "
            f"one with UID {claim.ref.uid}; delete the pod"
        )
    if not claim.allocated:
        raise RefusedError(f"claim {ref}: is not allocated; the scheduler allocates claims")
    return claim


def consumer_of(
    claim: AllocatedClaim, recorded: Allocation | None, ended: Collection[str] = ()
) -> Consumer:
    """Return the pod of the claim; the recorded one, if it still has the claim.

    A claim of a PodGroup (gate DRAWorkloadResourceClaims) is reserved for the group, not for pods.

    Args:
        claim: the claim.
        recorded: its record, None if there is none.
        ended: UIDs of pods that ended; their reservations are removed later.

    Raises:
        NotYetError: the claim is still reserved for pods that ended.
        RefusedError: the claim is reserved for no pod, for several, or for something else.
    """
    consumers = claim.consumers
    if not consumers:
        raise RefusedError(f"claim {claim.ref}: is reserved for no pod; delete the pod")
    pods = [consumer for consumer in consumers if consumer.resource == "pods"]
    groups = [consumer for consumer in consumers if consumer not in pods]
    if groups and (consumes_devices(claim) or not pods):
        raise RefusedError(
            f"claim {claim.ref}: is reserved for {', '.join(map(str, groups))}, which is not a "
            "pod, and a device belongs to one pod; remove the claim from the PodGroup, and give "
            "each pod its own: resourceClaimTemplateName in spec.resourceClaims of the pods"
        )
    if consumes_devices(claim) and len(pods) > 1:
        running = [pod for pod in pods if pod.uid not in ended]
        if len(running) < 2:
            names = ", ".join(str(pod) for pod in pods if pod not in running)
            raise NotYetError(
                f"claim {claim.ref}: is still reserved for {names} as well, which ended"
            )
        raise RefusedError(
            f"claim {claim.ref}: is used by {len(running)} pods ({', '.join(map(str, running))}), "
            "and a device can be in one only; give each its own with a ResourceClaimTemplate"
        )
    recorded_uid = recorded.pod.uid if recorded else ""
    running = [pod for pod in pods if pod.uid not in ended] or pods
    return next((pod for pod in running if pod.uid == recorded_uid), running[0])


def consumes_devices(claim: AllocatedClaim) -> bool:
    """Return whether the claim has a device without adminAccess."""
    return any(not result.admin_access for result in claim.results)


def requested_use(use: PodUse | None, claim: AllocatedClaim, pod: ObjectRef) -> PodUse:
    """Return how the pod uses the claim.

    Raises:
        RefusedError: the pod is gone, was replaced, is on the host network, or does not have the
            claim.
    """
    if use is None or use.uid != pod.uid:
        raise RefusedError(f"pod {pod}: does not exist any more with UID {pod.uid}")
    if not use.has_claim:
        raise RefusedError(f"pod {pod}: does not list claim {claim.ref}, which is reserved for it")
    if use.host_network and consumes_devices(claim):
        raise RefusedError(
            f"pod {pod}: is on the host network, to which no device can be moved; remove "
            "hostNetwork, or the claim"
        )
    return use


def is_recorded(
    record: Allocation, claim: AllocatedClaim, pod_uid: str, settings: PrepareSettings
) -> bool:
    """Return whether a record matches the server's claim, for this pod and this boot."""
    same_pod = (record.pod.uid, record.boot_id) == (pod_uid, settings.boot_id)
    return same_pod and _has_devices_of(record, claim)


def _has_devices_of(record: Allocation, claim: AllocatedClaim) -> bool:
    """Return whether record and claim have the same devices.

    An older record has neither alternatives nor consumed capacity. Alternatives are compared if the
    record has them. Consumed capacity is never compared: a share that is allocated again has
    another id.
    """
    recorded = [
        (device.request, device.pool, device.device.name, device.share_id, device.admin_access)
        for device in record.devices
    ]
    allocated = [
        (
            _request_names(result)[0],
            result.device[1],
            result.device[2],
            result.share_id,
            result.admin_access,
        )
        for result in claim.results
    ]
    return recorded == allocated and all(
        recorded_device.subrequest in {"", _request_names(result)[1]}
        for recorded_device, result in zip(record.devices, claim.results, strict=True)
    )


def why_orphaned(record: Allocation, document: Mapping[str, object] | None) -> str:
    """Return why a record has no allocation any more, "" if it has one.

    Args:
        record: the record of a claim.
        document: the claim's document from the server, None if there is none.

    Raises:
        ConfigError: the document is invalid.
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


def successor_pods(record: Allocation, claim: AllocatedClaim) -> tuple[ObjectRef, ...]:
    """Return the pods that a claim is reserved for, if the recorded pod is not among them.

    Between pods that follow each other without a gap, the kubelet calls neither Unprepare nor
    Prepare (pkg/kubelet/cm/dra/manager.go: isPrepared, PodUIDs). A claim with adminAccess needs
    neither.
    """
    pods = tuple(consumer for consumer in claim.consumers if consumer.resource == "pods")
    still_reserved = record.pod.uid in {pod.uid for pod in pods}
    if still_reserved or not (consumes_devices(claim) and _has_devices_of(record, claim)):
        return ()
    return tuple(ObjectRef(claim.ref.namespace, pod.name, pod.uid) for pod in pods)


def waits_for_claim(
    document: Mapping[str, object] | None, claim: AllocatedClaim, pod: ObjectRef, record: Allocation
) -> bool:
    """Return whether a pod on the node of a record waits for the claim.

    Args:
        document: the pod's document from the server, None if there is none.
        claim: the claim.
        pod: the pod.
        record: the record of the claim.

    Raises:
        ConfigError: the document is invalid.
    """
    if document is None or has_ended(document, pod.uid):
        return False
    use = read_pod_use(document, claim)
    return use.has_claim and use.node in {device.pool for device in record.devices}


def allocation_of(
    claim: AllocatedClaim,
    pod: ObjectRef,
    use: PodUse,
    devices: Mapping[str, Device],
    settings: PrepareSettings,
    nonce: str,
    parameters: ClaimParameters,
    provided: Mapping[tuple[str, str], tuple[Provided, ...]] = MappingProxyType({}),
) -> Allocation:
    """Return the record of a claim; addresses can still be ranges.

    Args:
        claim: the claim.
        pod: the pod that gets it.
        use: how the pod uses it.
        devices: devices of the node, by name.
        settings: settings for all claims.
        nonce: last part of its CDI ids.
        parameters: parameters of class and claim.
        provided: (request, device) → parameters of cloud and profile, lowest precedence first.

    Raises:
        NotYetError: a device, or its interface, is not on the node.
        RefusedError: a device is of another node.
        ConfigError: all violations of the parameters, for all devices.
    """
    _check_devices(claim, devices, settings)
    violations = list(parameters.violations)
    allocated = tuple(
        _allocated_device(
            result,
            devices[result.device[2]],
            _with_provided(parameters, provided, result, violations),
            violations,
        )
        for result in claim.results
    )
    if violations:
        raise ConfigError(violations)
    return Allocation(
        claim.ref, pod, allocated, nonce, settings.boot_id, use.pod_claim_name, use.containers
    )


def _check_devices(
    claim: AllocatedClaim, devices: Mapping[str, Device], settings: PrepareSettings
) -> None:
    for result in claim.results:
        _, pool, name = result.device
        if pool != settings.pool:
            raise RefusedError(
                f"device {name}: is in pool {pool}, and the pool of this node is {settings.pool}; "
                "check the name of the node (--hostname-override)"
            )
        if name not in devices:
            raise NotYetError(
                f"device {name}: this node has no such device now, or excludes it; see "
                "'dranet-nri inventory', and 'devices excluded' in the shim's log for devices that "
                "flags or the Node's address exclude"
            )
        reason = "" if result.admin_access else why_without_interface(devices[name])
        if reason:
            raise NotYetError(f"device {name}: {reason}")


def _with_provided(
    parameters: ClaimParameters,
    provided: Mapping[tuple[str, str], tuple[Provided, ...]],
    result: Result,
    violations: list[str],
) -> NetworkConfig:
    """Return the claim's parameters merged over those of providers; violations are appended."""
    own = parameters.valid.get(result.request, SelectedParameters())
    layers = provided.get((result.request, result.device[2]), ())
    try:
        return with_provided(layers, own)
    except ConfigError as error:
        violations += (line for line in error.violations if line not in violations)
        return own.config


def _allocated_device(
    result: Result, device: Device, config: NetworkConfig, violations: list[str]
) -> AllocatedDevice:
    """Return a device with its configuration; violations are appended.

    Only a claim that consumes a device configures it, not one that observes it.
    """
    if result.admin_access:
        config = NetworkConfig()
    share = bool(result.share_id) and not result.admin_access
    found = violations_for_device(config, device, share=share)
    violations += (f"device {device.name}: {violation}" for violation in found)
    request, subrequest = _request_names(result)
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
    """Return whether containers list each request that has devices, and so wait for them.

    A container that lists another request of the claim does not wait for these devices.
    """
    listed = {container.request for container in record.containers}
    return "" in listed or listed.issuperset(gated_requests(record))


def prepared_devices(record: Allocation) -> tuple[PreparedDevice, ...]:
    """Return the response to the kubelet for a recorded claim."""
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


def _request_names(result: Result) -> tuple[str, str]:
    """Return the names of request and subrequest; the latter is "" without firstAvailable."""
    request, _, subrequest = result.request.partition("/")
    return request, subrequest
