"""Mock GPU driver: slices of GPUs without hardware, and answers to the kubelet's Prepare.

A container that lists a claim gets what a real driver's would: a CDI device of its request, with
the names of the GPUs in the environment, and the driver's own metadata file (KEP-5304).

    python -m tests.box.gpu_driver --node NAME --kubeconfig FILE [--machine server]
"""

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dra_shim.daemon.sources import ServerSource
from dra_shim.kubeapi import SLICE, ApiClient, ConflictError, HttpClient
from dra_shim.kubeapi.kubeconfig import from_kubeconfig
from dra_shim.kubeletplugin import KubeletPlugin, Sockets, dra_services, sockets_of
from dra_shim.prepare import ClaimSource, PreparedDevice, PrepareResult
from dranet_nri.cdi.names import METADATA_ROOT
from dranet_nri.errors import DranetError
from dranet_nri.model import ObjectRef
from tests.fakes import machines
from tests.fakes.gpus import NVIDIA, Gpu, gpu_slice

CDI_ROOT: Final = Path("/var/run/cdi")
LOOK_S: Final = 2.0  # a kubelet that starts deletes the slices of its node
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
Document = dict[str, Any]


class GpuDriver:
    """What stands behind the kubelet's calls.

    Args:
        driver: its name.
        claims: where claims are read.
        data: where metadata files are kept.
        cdi: the directory of CDI specs.
    """

    def __init__(self, driver: str, claims: ClaimSource, data: Path, cdi: Path) -> None:
        self._driver = driver
        self._claims = claims
        self._data = data
        self._cdi = cdi

    async def prepare(
        self, claims: Sequence[ObjectRef], limit_s: float | None = None
    ) -> Mapping[str, PrepareResult]:
        """Answer NodePrepareResources."""
        return {ref.uid: await self._prepare(ref) for ref in claims}

    async def unprepare(self, claims: Sequence[ObjectRef]) -> Mapping[str, str]:
        """Answer NodeUnprepareResources."""
        for ref in claims:
            self._spec_path(ref).unlink(missing_ok=True)
            for path in self._data.glob(f"{ref.uid}-*.json"):
                path.unlink()
        return {ref.uid: "" for ref in claims}

    async def _prepare(self, ref: ObjectRef) -> PrepareResult:
        try:
            claim: Any = await self._claims.claim(ref)
        except DranetError as error:
            return PrepareResult(error=str(error))
        if claim is None or claim["metadata"]["uid"] != ref.uid:
            return PrepareResult(error=f"claim {ref}: there is none")
        found: dict[str, list[Document]] = {}
        for entry in claim["status"]["allocation"]["devices"]["results"]:
            if entry["driver"] == self._driver:
                found.setdefault(entry["request"].partition("/")[0], []).append(entry)
        devices = [self._cdi_device(claim, request, given) for request, given in found.items()]
        spec = {"cdiVersion": "0.5.0", "kind": f"{self._driver}/gpu", "devices": devices}
        _write(self._spec_path(ref), json.dumps(spec))
        return PrepareResult(
            tuple(
                PreparedDevice(
                    request,
                    result["pool"],
                    result["device"],
                    (f"{self._driver}/gpu={_cdi_name(ref.uid, request)}",),
                )
                for request, given in found.items()
                for result in given
            )
        )

    def _spec_path(self, ref: ObjectRef) -> Path:
        return self._cdi / f"{self._driver}-{ref.uid}.json"

    def _cdi_device(self, claim: Document, request: str, given: list[Document]) -> Document:
        """Return a request's entry in the CDI spec, its metadata file written."""
        metadata = claim["metadata"]
        source = self._data / f"{metadata['uid']}-{request}.json"
        _write(source, json.dumps(self._metadata(metadata, request, given)) + "\n")
        called = metadata.get("annotations", {}).get(POD_CLAIM_NAME)
        owner = f"resourceclaimtemplates/{called}" if called else ""
        place = f"{METADATA_ROOT}/{owner or 'resourceclaims/' + metadata['name']}/{request}"
        mount = {
            "hostPath": str(source),
            "containerPath": f"{place}/{self._driver}-metadata.json",
            "options": ["ro", "bind"],
        }
        names = ",".join(result["device"] for result in given)
        word = request.upper().replace("-", "_")
        edits = {"env": [f"GPUS_{word}={names}"], "mounts": [mount]}
        return {"name": _cdi_name(metadata["uid"], request), "containerEdits": edits}

    def _metadata(self, metadata: Document, request: str, given: list[Document]) -> Document:
        devices = [
            {"driver": self._driver, "pool": result["pool"], "name": result["device"]}
            for result in given
        ]
        return {
            "apiVersion": "metadata.resource.k8s.io/v1alpha1",
            "kind": "DeviceMetadata",
            "metadata": {name: metadata[name] for name in ("name", "namespace", "uid")},
            "requests": [{"name": request, "devices": devices}],
        }


async def publish_gpus(
    api: ApiClient, node: str, gpus: Iterable[Gpu], driver: str = NVIDIA
) -> None:
    """Publish a node's GPUs as the driver's whole pool, unless it is there; none, nothing."""
    listed = list(gpus)
    if listed:
        document = gpu_slice(node, listed, driver, await api.version(SLICE))
        with contextlib.suppress(ConflictError):
            await api.create(SLICE, document)


async def keep_published(api: ApiClient, node: str, gpus: Sequence[Gpu], driver: str) -> None:
    """Publish again whatever somebody deletes, until cancelled."""
    while True:
        try:
            await publish_gpus(api, node, gpus, driver)
        except DranetError as error:
            _say(error)
        await asyncio.sleep(LOOK_S)


def kubelet_plugin(driver: str, sockets: Sockets, behind: GpuDriver) -> KubeletPlugin:
    """Return what registers the driver at the kubelet and serves it."""
    return KubeletPlugin(driver, sockets, dra_services(behind), _say)


async def serve(args: argparse.Namespace) -> None:
    """Publish and answer until cancelled."""
    api = ApiClient(HttpClient(from_kubeconfig(args.kubeconfig)))
    sockets = sockets_of(args.kubelet_root, args.driver)
    behind = GpuDriver(args.driver, ServerSource(api), sockets.service.parent, args.cdi_root)
    gpus = getattr(machines, args.machine)().gpus
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(keep_published(api, args.node, gpus, args.driver))
        tasks.create_task(kubelet_plugin(args.driver, sockets, behind).run())


def main() -> None:
    """Run the driver for a node until it is killed."""
    parser = argparse.ArgumentParser(prog="gpu_driver")
    parser.add_argument("--node", required=True)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--driver", default=NVIDIA)
    kinds = ("server", "nd_h100", "a4_highgpu", "emulated")
    parser.add_argument("--machine", default="server", choices=kinds)
    parser.add_argument("--kubelet-root", type=Path, default=Path("/var/lib/kubelet"))
    parser.add_argument("--cdi-root", type=Path, default=CDI_ROOT)
    asyncio.run(serve(parser.parse_args()))


def _say(what: object) -> None:
    sys.stderr.write(f"{what}\n")


def _cdi_name(uid: str, request: str) -> str:
    return f"{uid}_{request}"


def _write(path: Path, text: str) -> None:
    """Write a file that others read: the old one or the new, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text)
    draft.replace(path)


if __name__ == "__main__":
    main()
