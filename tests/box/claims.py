"""Claims that are allocated and released with dra-shim, without a cluster."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

from dra_shim import cli
from tests.box.cri import ContainerSpec, ExecResult
from tests.box.nics import Nic, has_carrier
from tests.box.plugin import ALLOCATIONS
from tests.box.target import NODE, ExecTarget
from tests.box.waiting import wait_until

CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "nic"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "dra.net"'}}]},
}


@dataclass(frozen=True, slots=True)
class Allocated:
    """An allocated claim.

    Attributes:
        uid: of the claim.
        cdi_ids: what kubelet would hand to each container that lists the claim.
        warnings: what dra-shim said on standard error.
    """

    uid: str
    cdi_ids: tuple[str, ...]
    warnings: str

    def spec(self) -> ContainerSpec:
        """Return a container that lists the claim."""
        return ContainerSpec(cdi_devices=self.cdi_ids)


# Of a claim: for all its NICs, or for each of them.
Parameters = Mapping[str, object] | Sequence[Mapping[str, object]]


def claim_document(
    name: str, nics: Sequence[Nic], config: Parameters | None = None, bandwidth: str = ""
) -> dict[str, object]:
    """Return a ResourceClaim with one request for each NIC, and parameters."""
    part = {"capacity": {"requests": {"dra.net/bandwidth": bandwidth}}} if bandwidth else {}
    requests = [
        {
            "name": f"nic{number}",
            "exactly": {
                "deviceClassName": "nic",
                **part,
                "selectors": [
                    {
                        "cel": {
                            "expression": 'has(device.attributes["dra.net"].ifName) && '
                            f'device.attributes["dra.net"].ifName == "{nic.name}"'
                        }
                    }
                ],
            },
        }
        for number, nic in enumerate(nics)
    ]
    devices: dict[str, object] = {"requests": requests}
    match config:
        case None:
            pass
        case Mapping():
            devices["config"] = [_entry(config)]
        case _:
            devices["config"] = [
                {"requests": [f"nic{number}"], **_entry(entry)}
                for number, entry in enumerate(config)
            ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"{name}-claim-uid"},
        "spec": {"devices": devices},
    }


def _entry(parameters: Mapping[str, object]) -> dict[str, object]:
    return {"opaque": {"driver": "dra.net", "parameters": parameters}}


def shim(*arguments: str, stdin: str = "", node: ExecTarget = NODE) -> ExecResult:
    """Run dra-shim on a node; on this one inside the test, to spare an emulated one the imports."""
    if node is not NODE:
        return node.run("sh", "-c", 'printf %s "$0" | dra-shim "$@"', stdin, *arguments)
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "stdin", io.StringIO(stdin)),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        try:
            status = cli.main(arguments)
        except SystemExit as end:  # argparse has said why
            status = 2 if end.code else 0
    return ExecResult(status, stdout.getvalue(), stderr.getvalue())


def allocate(
    name: str,
    nics: Sequence[Nic],
    pod_uid: str,
    *,
    containers: Sequence[str] = ("main",),
    config: Parameters | None = None,
    pod: str = "",
    shared: str = "",
    bandwidth: str = "",
    node: ExecTarget = NODE,
) -> Allocated:
    """Allocate a claim for NICs of a node to the pod that will have this UID.

    Args:
        name: of the claim.
        nics: one request each.
        pod_uid: of the pod.
        containers: that list the claim.
        config: its parameters.
        pod: name of the pod, its UID unless given.
        shared: CEL of the devices that several claims may have at once.
        bandwidth: what the claim asks for of each shared NIC, as a quantity in bit/s.
        node: where they are.

    Raises:
        AssertionError: dra-shim refused; the message is its own.
    """
    for nic in nics if node is NODE else ():
        wait_until(f"the carrier of {nic.name}", partial(has_carrier, nic.name))
    documents = (CLASS, claim_document(name, nics, config, bandwidth))
    listed = [word for container in containers for word in ("--container", f"{container}={name}")]
    done = shim(
        *("allocate", "--claim", "-", "--filter", "", "--shared", shared, "--node", "box"),
        *("--pod", pod_uid, "--pod-name", f"default/{pod or pod_uid}", "--output", "json"),
        *listed,
        stdin="\n---\n".join(json.dumps(document) for document in documents),
        node=node,
    )
    assert done.exit_code == 0, f"exit status {done.exit_code}: {done.stderr}"
    claims = json.loads(done.stdout)["claims"]
    ids = tuple(cdi_device["id"] for cdi_device in claims[0]["cdi"])
    return Allocated(claims[0]["uid"], ids, done.stderr)


def release(pod_uid: str, node: ExecTarget = NODE) -> None:
    """Release every claim of the pod."""
    done = shim("release", "--pod", pod_uid, node=node)
    assert done.exit_code == 0, f"exit status {done.exit_code}: {done.stderr}"


def release_all() -> None:
    """Release every claim that is recorded, whoever it was for."""
    for record in ALLOCATIONS.glob("*.json"):
        shim("release", "--claim-uid", record.stem)
