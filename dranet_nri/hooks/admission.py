"""Admission of containers: refuses one with a claim or CDI file of another sandbox."""

from collections.abc import Collection

from dranet_nri.attach.records import AttachmentRecords
from dranet_nri.attach.sandboxes import Sandboxes
from dranet_nri.cdi.names import mounted_claims, mounted_namespaces
from dranet_nri.errors import NotAttachedError, OutdatedError, OwnedError
from dranet_nri.model import Container, Phase, Pod
from dranet_nri.plan.kernel import Kernel


def claims_of_container(
    pod: Pod, container: Container, attachments: AttachmentRecords, directory: str
) -> frozenset[str]:
    """Return the UIDs of the claims whose CDI files the container has.

    Args:
        pod: its sandbox.
        container: as reported by the runtime.
        attachments: the records.
        directory: directory of the metadata files.

    Raises:
        OwnedError: another pod owns one of them.
    """
    uids = mounted_claims(container, directory)
    for record in filter(None, map(attachments.get, uids)):
        if record.pod.uid != pod.uid:
            raise OwnedError(
                f"container {container.name} of pod {pod} lists claim {record.claim}, which pod"
                f" {record.pod} owns; a NIC claim serves one pod, use a ResourceClaimTemplate"
            )
    return frozenset(uids)


def check_current_sandbox(pod: Pod, live: Sandboxes, kernel: Kernel) -> None:
    """Refuse a sandbox if its pod has another live one, which owns the NICs.

    Raises:
        OutdatedError: the pod has another live sandbox.
    """
    for other in live.others(pod):
        if kernel.identify(other.netns_path) is not None:
            raise OutdatedError(
                f"pod {pod}: its NICs belong to its sandbox {other.sandbox_id}, this is"
                f" {pod.sandbox_id}; the kubelet tries again"
            )


def check_attached(
    pod: Pod, container: Container, uids: Collection[str], attachments: AttachmentRecords
) -> None:
    """Refuse the container unless its claims and their CDI files belong to this sandbox.

    With files of a former sandbox the container is created and does not start; with restartPolicy
    Never there is no retry.

    Raises:
        NotAttachedError: a claim or file belongs to another sandbox, or is not attached.
    """
    for uid in sorted(uids):
        record = attachments.get(uid)
        if record is None or record.phase is not Phase.ATTACHED:
            raise NotAttachedError(
                f"container {container.name} of pod {pod}: claim {uid} is not attached"
            )
        if record.sandbox_id != pod.sandbox_id:
            raise NotAttachedError(
                f"container {container.name} of pod {pod}: claim {record.claim} is in sandbox"
                f" {record.sandbox_id}, not in {pod.sandbox_id}"
            )
    for path in mounted_namespaces(container):
        if path != pod.netns_path:
            raise NotAttachedError(
                f"container {container.name} of pod {pod}: its CDI files are of another sandbox,"
                f" with network namespace {path}, not {pod.netns_path}; the kubelet tries again"
            )
