"""CustomResourceDefinitions on the API server of the tests.

`kubectl wait --for=condition=Established` fails for a CRD whose status has no conditions yet.
"""

from __future__ import annotations

from typing import Final

from tests.box.waiting import wait_until
from tests.system.cluster.api import Api
from tests.system.cluster.control_plane import ControlPlane

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def apply_crds(cluster: ControlPlane, *paths: object) -> None:
    """Apply files or directories of CRDs, and wait until the API server serves them."""
    files = [f"--filename={path}" for path in paths]
    options = ("--server-side", "--force-conflicts", "--output=name")
    applied = cluster.kubectl("apply", *options, *files).split()
    wait_served(cluster.api(), *(name.rpartition("/")[2] for name in applied))


def wait_served(api: Api, *names: str) -> None:
    """Wait until the API server serves the CRDs of these names."""
    wait_until(
        f"{', '.join(names)} to be served", lambda: all(_is_served(api, name) for name in names)
    )


def _is_served(api: Api, name: str) -> bool:
    conditions = api.get(f"{CRDS}/{name}").get("status", {}).get("conditions") or []
    return any(
        condition["type"] == "Established" and condition["status"] == "True"
        for condition in conditions
    )
