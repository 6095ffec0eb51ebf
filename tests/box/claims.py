"""Claims as files, allocated and released with dra-shim, as someone without a cluster does it."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.box.cri import ContainerSpec
from tests.box.nics import Nic
from tests.box.plugin import ALLOCATIONS

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


def claim_document(
    name: str, nics: Sequence[Nic], config: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return a ResourceClaim with one request for each NIC, and parameters for all of them."""
    requests = [
        {
            "name": f"nic{number}",
            "exactly": {
                "deviceClassName": "nic",
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
    if config is not None:
        devices["config"] = [{"opaque": {"driver": "dra.net", "parameters": config}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"{name}-claim-uid"},
        "spec": {"devices": devices},
    }


def shim(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run dra-shim."""
    return subprocess.run(("dra-shim", *arguments), capture_output=True, text=True, check=False)


def allocate(
    name: str,
    nics: Sequence[Nic],
    pod_uid: str,
    *,
    containers: Sequence[str] = ("main",),
    config: Mapping[str, object] | None = None,
    pod: str = "",
) -> Allocated:
    """Allocate a claim for NICs to the pod that will have this UID.

    Raises:
        AssertionError: dra-shim refused; the message is its own.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "claim.json")
        path.write_text(json.dumps(claim_document(name, nics, config)))
        kind = Path(directory, "class.json")
        kind.write_text(json.dumps(CLASS))
        listed = [word for each in containers for word in ("--container", f"{each}={name}")]
        done = shim(
            "allocate",
            *("--claim", str(path), "--class", str(kind), "--filter", "", "--node", "box"),
            *("--pod", pod_uid, "--pod-name", f"default/{pod or pod_uid}", "--output", "json"),
            *listed,
        )
    assert done.returncode == 0, done.stderr
    claims = json.loads(done.stdout)["claims"]
    ids = tuple(each["id"] for each in claims[0]["cdi"])
    return Allocated(claims[0]["uid"], ids, done.stderr)


def release(pod_uid: str) -> None:
    """Release every claim of the pod."""
    done = shim("release", "--pod", pod_uid)
    assert done.returncode == 0, done.stderr


def release_all() -> None:
    """Release every claim that is recorded, whoever it was for."""
    for record in ALLOCATIONS.glob("*.json"):
        shim("release", "--claim-uid", record.stem)
