"""Admission of containers: a claim or device file of another sandbox refuses the container."""

from collections.abc import Collection

from dranet_nri.attach.records import AttachmentRecords
from dranet_nri.attach.sandboxes import Sandboxes
from dranet_nri.cdi.names import carried_claims, carried_namespaces
from dranet_nri.errors import NotAttachedError, OutdatedError, OwnedError
from dranet_nri.model import Container, Phase, Pod
from dranet_nri.plan.kernel import Kernel


def carried(
    pod: Pod, container: Container, attachments: AttachmentRecords, directory: str
) -> frozenset[str]:
    """Return the UIDs of the claims whose files the container carries.

    Args:
        pod: its sandbox.
        container: as the runtime shows it.
        attachments: the records.
        directory: of the metadata files.

    Raises:
        OwnedError: another pod has one of them.
    """
    uids = carried_claims(container, directory)
    for record in filter(None, map(attachments.get, uids)):
        if record.pod.uid != pod.uid:
            raise OwnedError(
                f"container {container.name} of pod {pod} lists claim {record.claim}, which pod"
                f" {record.pod} holds; a NIC claim serves one pod, use a ResourceClaimTemplate"
            )
    return frozenset(uids)


def refuse_outlived(pod: Pod, live: Sandboxes, kernel: Kernel) -> None:
    """Refuse a sandbox whose pod has a newer one: it would take the NICs from that.

    Raises:
        OutdatedError: it has.
    """
    for other in live.others(pod):
        if kernel.identify(other.netns_path) is not None:
            raise OutdatedError(
                f"pod {pod}: its NICs belong to its sandbox {other.sandbox_id}, this is"
                f" {pod.sandbox_id}; it is tried again"
            )


def refuse_unattached(
    pod: Pod, container: Container, uids: Collection[str], attachments: AttachmentRecords
) -> None:
    """Refuse the container unless the claims and their files are of this very sandbox.

    The files of a former sandbox let it be created and not started, which nobody tries again where
    the pod has restartPolicy Never.

    Raises:
        NotAttachedError: one of them is not.
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
    for path in carried_namespaces(container):
        if path != pod.netns_path:
            raise NotAttachedError(
                f"container {container.name} of pod {pod}: its CDI files are of another sandbox,"
                f" with network namespace {path}, not {pod.netns_path}; it is tried again"
            )
