"""Pods of a verification: creation, wait until they are ready, deletion."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dra_shim.verify.documents import (
    API,
    CLAIM,
    Document,
    PodRequirements,
    namespace_document,
    pod_document,
    program_document,
    template_document,
    worker_of,
)
from dra_shim.verify.kubectl import Kubectl, KubectlError
from dra_shim.verify.types import WorkerPod

POLL_S = 1.0
DELETE_LIMIT_S = 120.0
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
) -> Iterator[list[WorkerPod]]:
    """Run a pod with claimed NICs on each node in the context; all objects are deleted at its end.

    Args:
        kubectl: access to the cluster, in the namespace.
        namespace: namespace to create and delete.
        nodes: a node that is named twice has two pods.
        requirements: requirements of a pod.
        limit_s: seconds for all pods to become ready.
        progress: called with each line of the progress.

    Raises:
        KubectlError: a document was refused, or a pod did not become ready in time.
    """
    version = next((found["apiVersion"] for found in kubectl.get("resourceslices")), API)
    try:
        kubectl.create([namespace_document(namespace)])
        pods = [
            pod_document(f"verify-{index}", node, requirements) for index, node in enumerate(nodes)
        ]
        programs = [program_document(requirements.program)] if requirements.program else []
        kubectl.create([template_document(requirements, version), *programs, *pods])
        yield _ready_workers(kubectl, len(nodes), limit_s, progress)
    finally:
        progress("deleting the pods and their claims")
        kubectl.delete_namespace(namespace, DELETE_LIMIT_S)


def _ready_workers(
    kubectl: Kubectl, number: int, limit_s: float, progress: Callable[[str], None]
) -> list[WorkerPod]:
    until, before = time.monotonic() + limit_s, -1
    while True:
        pods = kubectl.get("pods")
        ready = [pod for pod in pods if _has_condition(pod, "Ready", "True")]
        if len(ready) != before:
            progress(f"{len(ready)} of {number} pods are ready")
            before = len(ready)
        if len(ready) == number:
            break
        ended = any(pod["status"].get("phase") == "Failed" for pod in pods)
        if ended or time.monotonic() > until:
            raise KubectlError(_why_not_ready(pods))
        time.sleep(POLL_S)
    slices = kubectl.get("resourceslices")
    claims = {claim["metadata"]["name"]: claim for claim in kubectl.get("resourceclaims")}
    return [
        worker_of(pod, claims[status["resourceClaimName"]], slices)
        for pod in sorted(pods, key=lambda document: str(document["metadata"]["name"]))
        for status in pod["status"]["resourceClaimStatuses"]
        if status["name"] == CLAIM  # the Pod of --pod may have others
    ]


def _has_condition(pod: Document, kind: str, status: str) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(entry["type"] == kind and entry["status"] == status for entry in conditions)


def _why_not_ready(pods: Sequence[Document]) -> str:
    """Return the name of a pod that is not ready, with the reason of scheduler or kubelet."""
    for pod in pods:
        if _has_condition(pod, "Ready", "True"):
            continue
        causes = [
            NO_TOOLS if kind == "running" else state.get("message") or state["reason"]
            for container in pod["status"].get("containerStatuses", [])
            for kind, state in container["state"].items()
        ]
        reasons = [
            entry["message"]
            for entry in pod["status"].get("conditions", [])
            if entry["status"] == "False" and entry.get("message")
        ]
        text = " ".join([*causes, *reasons][:1]) or "the scheduler has not seen it yet"
        return (
            f"pod {pod['metadata']['name']} is not ready: {' '.join(text.split())}; free the NICs "
            "of the node, or set --nics, --image or --timeout"
        )
    return "the pods were not created"
