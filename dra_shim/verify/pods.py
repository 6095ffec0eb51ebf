"""Pods of a verification: creation, wait until they are ready, deletion."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from dra_shim.verify.documents import (
    API,
    CLAIM,
    Document,
    PodRequirements,
    is_reported,
    namespace_document,
    pod_document,
    program_document,
    template_document,
    worker_of,
)
from dra_shim.verify.kubectl import Kubectl, KubectlError
from dra_shim.verify.node_checks import failed
from dra_shim.verify.remedies import CAUSES
from dra_shim.verify.types import Line, WorkerPod
from dranet_nri.component.replace import replace

POLL_S = 1.0
DELETE_LIMIT_S = 120.0
NOT_REPORTED = (
    "its claim has no status of the NICs: read the log of the driver on the node; Kubernetes 1.32 "
    "needs the feature gate DRAResourceClaimDeviceStatus"
)
NO_TOOLS = "its container runs, and the programs are not installed yet"


def new_namespace() -> str:
    """Return a name that no other verification has."""
    return f"dranet-verify-{secrets.token_hex(3)}"


@contextmanager
def running_pods(
    kubectl: Kubectl,
    namespace: str,
    nodes: Sequence[str],
    requirements: PodRequirements,
    limit_s: float,
    progress: Callable[[str], None],
) -> Iterator[tuple[list[WorkerPod], list[Line]]]:
    """Run a pod with claimed NICs on each node in the context; all objects are deleted at its end.

    The value of the context is the ready pods, at least two, and a line for each other pod.

    Args:
        kubectl: access to the cluster, in the namespace.
        namespace: namespace to create and delete.
        nodes: a node that is named twice has two pods.
        requirements: requirements of a pod.
        limit_s: seconds for all pods to become ready.
        progress: called with each line of the progress.

    Raises:
        KubectlError: a document was refused, or fewer than two pods became ready in time.
    """
    version = next((found["apiVersion"] for found in kubectl.get("resourceslices")), API)
    try:
        kubectl.create([namespace_document(namespace)])
        node_of_pod = {f"verify-{index}": node for index, node in enumerate(nodes)}
        pods = [pod_document(name, node, requirements) for name, node in node_of_pod.items()]
        programs = [program_document(requirements.program)] if requirements.program else []
        template = template_document(requirements, version)
        kubectl.create([template, *programs, *requirements.others, *pods])
        yield _ready_workers(kubectl, node_of_pod, limit_s, progress)
    finally:
        try:
            progress(f"deleting the namespace {namespace} with the pods and their claims")
        finally:  # also if nothing reads the progress any more
            kubectl.delete_namespace(namespace, DELETE_LIMIT_S)


def _ready_workers(
    kubectl: Kubectl, nodes: Mapping[str, str], limit_s: float, progress: Callable[[str], None]
) -> tuple[list[WorkerPod], list[Line]]:
    """Return the ready pods, and a line for each other one.

    Args:
        kubectl: access to the cluster.
        nodes: node of each pod.
        limit_s: seconds to wait.
        progress: called with each line of the progress.
    """
    until, before = time.monotonic() + limit_s, -1
    while True:
        pods = {str(pod["metadata"]["name"]): pod for pod in kubectl.get("pods")}
        claims = {str(claim["metadata"]["name"]): claim for claim in kubectl.get("resourceclaims")}
        ready = [name for name in nodes if name in pods and not _why_not_ready(pods[name], claims)]
        ended = [name for name, pod in pods.items() if pod["status"].get("phase") == "Failed"]
        if len(ready) != before:
            progress(f"{len(ready)} of {len(nodes)} pods are ready")
            before = len(ready)
        waiting = len(nodes) - len(ready) - len(ended)
        # One faulty node must not hide the results of the others.
        if not waiting or len(ready) + waiting < 2 or time.monotonic() > until:
            break
        time.sleep(POLL_S)
    reasons = {
        name: f"pod {name} on node {node} is not ready: {_why_not_ready(pods.get(name), claims)}"
        for name, node in nodes.items()
        if name not in ready
    }
    if len(ready) < 2:
        raise KubectlError(f"{next(iter(reasons.values()))}; {CAUSES['no-pod'][1]}")
    lines = [
        replace(failed("pod", "no-pod", nodes[name]), meaning=reason)
        for name, reason in reasons.items()
    ]
    slices = kubectl.get("resourceslices")
    return [worker_of(pods[name], _claim_of(pods[name], claims), slices) for name in ready], lines


def _claim_of(pod: Document, claims: Mapping[str, Document]) -> Document:
    """Return the claim of a pod's NICs; the Pod of --pod may have others."""
    (name,) = (
        status["resourceClaimName"]
        for status in pod["status"]["resourceClaimStatuses"]
        if status["name"] == CLAIM
    )
    return claims[name]


def _why_not_ready(pod: Document | None, claims: Mapping[str, Document]) -> str:
    """Return the reason of scheduler, kubelet or driver in one line; "" for a ready pod."""
    if pod is None:
        return "it was deleted, as by the drain of its node"
    conditions = pod["status"].get("conditions", [])
    if any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions):
        # The driver reports after the pod's start; a NIC without a name would not be measured.
        return "" if is_reported(_claim_of(pod, claims)) else NOT_REPORTED
    causes = [
        NO_TOOLS if kind == "running" else state.get("message") or state["reason"]
        for container in pod["status"].get("containerStatuses", [])
        for kind, state in container["state"].items()
    ]
    reasons = [
        entry["message"]
        for entry in conditions
        if entry["status"] == "False" and entry.get("message")
    ]
    text = " ".join([*causes, *reasons][:1]) or "the scheduler has not seen it yet"
    return " ".join(text.split()).rstrip(".")
