"""Checks of `doctor`: server, rights, slices, shim, kubelet, records.

Rules:
1. A check changes nothing.
2. A check that cannot be completed is reported, and the next one runs.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from dra_shim.kubeapi import (
    NODE,
    REVIEW,
    SLICE,
    ApiClient,
    ApiError,
    NotFoundError,
    Object,
    name_of,
    object_at,
    objects_at,
)
from dra_shim.kubeletplugin import Sockets, probe
from dra_shim.resourceslice.layout import is_own
from dra_shim.settings.common import KUBELET_ELSEWHERE, StatePaths
from dra_shim.settings.listen_address import ListenAddress
from dranet_nri.component.findings import Finding, Severity
from dranet_nri.component.replace import replace
from dranet_nri.errors import DranetError
from dranet_nri.model import DRIVER_NAME, Allocation, Attachment, Phase
from dranet_nri.state.records import NodeRecords

ANSWER_S: Final = 10.0  # seconds for the running shim's response
_MAX_ANSWER: Final = 4096  # bytes; the page has two lines
_ANY_ADDRESS: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
_RESOURCES: Final = "resource.k8s.io"


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission of the service account.

    Attributes:
        need: consequence if the permission is missing.
        grade: severity of that.
    """

    verb: str
    resource: str
    need: str
    group: str = ""
    name: str = ""
    grade: Severity = Severity.BAD

    def __str__(self) -> str:
        """Return the permission in the form of `kubectl auth can-i`."""
        return f"{self.verb} {self.resource}{f'/{self.name}' if self.name else ''}"


RIGHTS: Final = (
    Permission("get", "nodes", "slices have no owner, so none is published"),
    Permission("get", "pods", "no claim can be prepared"),
    Permission("get", "resourceclaims", "no claim can be prepared", _RESOURCES),
    *(
        Permission(verb, "resourceslices", "the node's devices are not published", _RESOURCES)
        for verb in ("list", "watch", "create", "update", "delete")
    ),
    Permission(
        "patch", "resourceclaims/status", "claims do not show their devices", _RESOURCES,
        grade=Severity.WARNING,
    ),
    *(
        Permission(
            f"associated-node:{verb}", "resourceclaims/driver",
            "claims do not show their devices from Kubernetes 1.36 on", _RESOURCES, DRIVER_NAME,
            Severity.WARNING,
        )
        for verb in ("patch", "update")
    ),
    *(
        Permission(verb, "events", "no Event reports why a pod waits", grade=Severity.WARNING)
        for verb in ("create", "get", "update")
    ),
    Permission(
        "list", "resourceclaims", "claims of a previous driver are not migrated", _RESOURCES,
        grade=Severity.NOTE,
    ),
)  # fmt: skip


async def server_findings(api: ApiClient, node: str) -> AsyncIterator[Finding]:
    """Yield findings about the API server, the Node and its slices.

    Args:
        api: the API client.
        node: name of this node.
    """
    try:
        yield Finding("API server", Severity.OK, f"serves {_RESOURCES}/{await api.version(SLICE)}")
        await api.get(NODE, node)
        yield Finding("node", Severity.OK, node)
    except NotFoundError:
        text = f"there is no node {node}; give its name with --hostname-override or $NODE_NAME"
        yield Finding("node", Severity.BAD, text)
    except ApiError as error:
        yield Finding("API server", Severity.BAD, str(error))
        return
    try:
        listing = await api.list(SLICE, {"spec.nodeName": node, "spec.driver": DRIVER_NAME})
        for finding in slice_findings(node, listing.items):
            yield finding
    except ApiError as error:
        yield Finding("slices", Severity.BAD, str(error))


async def right_findings(api: ApiClient) -> AsyncIterator[Finding]:
    """Yield a finding for each missing permission, or one if all are granted."""
    missing = 0
    for right in RIGHTS:
        try:
            allowed = await _has(api, right)
        except ApiError as error:
            yield Finding("rights", Severity.WARNING, f"cannot be checked: {error}")
            return
        if not allowed:
            missing += 1
            text = f"may not {right}: {right.need}; see the ClusterRole in the manifests"
            yield Finding("rights", right.grade, text)
    if not missing:
        yield Finding("rights", Severity.OK, f"all {len(RIGHTS)} that are needed")


async def _has(api: ApiClient, right: Permission) -> bool:
    resource, _, part = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource,
             "subresource": part, "name": right.name}  # fmt: skip
    answer = await api.create(REVIEW, {"spec": {"resourceAttributes": attributes}})
    return object_at(answer, "status").get("allowed") is True


def slice_findings(node: str, slices: tuple[Object, ...]) -> Iterator[Finding]:
    """Yield findings about the published slices of the node."""
    devices = 0
    for resource_slice in slices:
        devices += len(objects_at(resource_slice, "spec", "devices"))
        if not is_own(node, name_of(resource_slice)):
            name = name_of(resource_slice)
            text = f"{name} is of another program; does a second driver with this name run here?"
            yield Finding("slices", Severity.WARNING, text)
    if devices:
        yield Finding("slices", Severity.OK, f"{devices} devices in {len(slices)} slices")
    else:
        text = "no device is published; 'dranet-nri inventory' lists excluded devices and reasons; "
        text += (
            "the shim's log ('devices excluded') has those excluded by flags or the Node's address"
        )
        yield Finding("slices", Severity.WARNING, text)


async def shim_findings(
    address: ListenAddress, answer_s: float = ANSWER_S
) -> AsyncIterator[Finding]:
    """Yield findings about the readiness of the running shim.

    Args:
        address: address of its /readyz.
        answer_s: timeout in seconds.
    """
    subject = "shim"
    probed = replace(address, host=_ANY_ADDRESS.get(address.host, address.host))
    try:
        async with asyncio.timeout(answer_s):
            status, lines = await _get(f"http://{probed}/readyz")
    except (aiohttp.ClientError, OSError) as error:
        reason = str(error) or type(error).__name__
        text = f"{probed}: no answer ({reason}): 'dra-shim run' does not run, or serves another "
        text += "address: give its --bind-address here, too"
        yield Finding(subject, Severity.WARNING, text)
        return
    if status == 200:
        yield Finding(
            subject, Severity.OK, "registered at the kubelet, and its devices are published"
        )
    elif status == 503 and lines:
        for line in lines:
            yield Finding(subject, Severity.BAD, line)
    else:
        text = f"{probed}: answers {status}, so it is another program's; stop that (dranet?), or "
        text += "start 'dra-shim run' with another --bind-address and give that here, too"
        yield Finding(subject, Severity.WARNING, text)


async def _get(url: str) -> tuple[int, tuple[str, ...]]:
    """Return status and lines of a page."""
    data = b""
    async with (
        aiohttp.ClientSession() as client,
        client.get(url, allow_redirects=False) as answer,
    ):
        async for piece in answer.content.iter_any():
            data += piece
            if len(data) >= _MAX_ANSWER:
                break
    text = data[:_MAX_ANSWER].decode("utf-8", "replace")
    return answer.status, tuple(text.splitlines())


async def kubelet_findings(sockets: Sockets, root: Path, *, ready: bool) -> AsyncIterator[Finding]:
    """Yield whether a kubelet would get responses through the sockets.

    Args:
        sockets: sockets of the shim.
        root: the kubelet's directory.
        ready: whether the running shim is registered at the kubelet.
    """
    trouble = await probe(sockets.registration)
    if not trouble:
        text = f"the sockets below {root} answer"
        yield Finding("kubelet", Severity.OK, text)
    elif ready:
        text = f"{sockets.registration}: {trouble}; but the shim is registered: {root} is not its "
        yield Finding("kubelet", Severity.WARNING, f"{text}--kubelet-root-dir, give that here, too")
    else:
        text = f"{sockets.registration}: {trouble}; does 'dra-shim run' run on this node, and is "
        text += f"{root} the kubelet's --root-dir? else give that with --kubelet-root-dir"
        yield Finding("kubelet", Severity.BAD, f"{text} ({KUBELET_ELSEWHERE})")


def record_findings(state: StatePaths) -> Iterator[Finding]:
    """Yield findings about corrupt records, and about each prepared claim."""
    try:
        with NodeRecords(state.allocations, state.attachments) as node:
            corrupt_records = node.corrupt()
            records, attached = node.allocations.records(), node.attachments.records()
    except (DranetError, OSError) as error:
        yield Finding("records", Severity.BAD, str(error))
        return
    for corrupt in corrupt_records:
        grade = Severity.BAD if corrupt.broken.blocking else Severity.NOTE
        yield Finding(f"record {corrupt.claim_uid}", grade, corrupt.text)
    by_claim = {record.claim.uid: record for record in attached}
    for record in records:
        yield _claim(record, by_claim.pop(record.claim.uid, None))
    unknown = {corrupt.claim_uid for corrupt in corrupt_records if corrupt.broken.blocking}
    for attachment in by_claim.values():
        if attachment.owns_devices:
            how = "its record cannot be used" if attachment.claim.uid in unknown else "unprepared"
            text = f"{how}, and pod {attachment.pod} still has its devices ({attachment.phase})"
            yield Finding(f"claim {attachment.claim}", Severity.WARNING, text)
    if not records and not corrupt_records:
        yield Finding("records", Severity.OK, "no claim is prepared on this node")


def _claim(record: Allocation, attachment: Attachment | None) -> Finding:
    subject = f"claim {record.claim}"
    if attachment is None:
        text = f"prepared for pod {record.pod}, whose sandbox has not started"
        return Finding(subject, Severity.NOTE, text)
    if attachment.failure is not None:
        failure = attachment.failure
        text = f"pod {record.pod}: {attachment.phase}: {failure.reason}: {failure.message}"
        return Finding(subject, Severity.BAD, text)
    grade = Severity.OK if attachment.phase in (Phase.ATTACHED, Phase.RESTORED) else Severity.NOTE
    return Finding(subject, grade, f"pod {record.pod}: {attachment.phase}")
