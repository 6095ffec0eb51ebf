"""The API server answers, serves what the driver needs, and knows the node behind a token."""

import base64
import json
from typing import Any

import pytest

from tests.system.cluster.api import ApiError
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.workload import NAMESPACES, SLICES, Workload

NODE_NAME = "authentication.kubernetes.io/node-name"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: shim}
spec:
  nodeName: NODE
  containers: [{name: main, image: localhost/none}]
"""


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_resource_api_is_served(cluster: ControlPlane, version: str) -> None:
    served = cluster.api().get(f"/apis/resource.k8s.io/{version}")["resources"]

    assert {"deviceclasses", "resourceclaims", "resourceclaims/status", "resourceslices"} <= {
        resource["name"] for resource in served
    }


def test_pod_token_contains_the_node(cluster: ControlPlane, workload: Workload) -> None:
    workload.apply(POD.replace("NODE", workload.name))
    pod = workload.pod("shim")["metadata"]

    token = _token(workload, {"kind": "Pod", "name": "shim", "uid": pod["uid"]})

    claims = _claims(token)["kubernetes.io"]
    assert (claims["node"]["name"], claims["pod"]["name"]) == (workload.name, "shim")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    user = cluster.api(token).create(path, review)["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{workload.name}:default"
    assert user["extra"][NODE_NAME] == [workload.name]


def test_service_account_without_a_role_cannot_read_slices(
    cluster: ControlPlane, workload: Workload
) -> None:
    user = cluster.api(_token(workload))

    with pytest.raises(ApiError, match='cannot list resource "resourceslices"') as refusal:
        user.get(SLICES)

    assert refusal.value.status == 403


def _token(workload: Workload, bound_to: dict[str, str] | None = None) -> str:
    spec: dict[str, Any] = {"expirationSeconds": 600}
    if bound_to is not None:
        spec["boundObjectRef"] = {"apiVersion": "v1"} | bound_to
    path = f"{NAMESPACES}/{workload.name}/serviceaccounts/default/token"
    answer = workload.api.create(path, {"spec": spec})
    token = answer["status"]["token"]
    assert isinstance(token, str)
    return token


def _claims(token: str) -> dict[str, Any]:
    """Return what a JWT says; its signature is the API server's own business."""
    payload = token.split(".")[1]
    padded = payload + "=" * (-len(payload) % 4)
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(padded))
    return claims
