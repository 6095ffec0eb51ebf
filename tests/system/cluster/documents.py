"""Documents that tests apply: our class, claims for its devices, pods that list one.

What a function takes by name as `more` stands in its document as it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

from dranet_nri.model import DRIVER_NAME
from tests.box import image
from tests.system.cluster.api import Object
from tests.system.cluster.workload import HOSTNAME

GROUP: Final = "resource.k8s.io/v1"


def manifest(*documents: Object) -> str:
    """Return documents as one manifest."""
    text: str = yaml.safe_dump_all(documents, sort_keys=False)
    return text


def selectors(expression: str) -> list[Object]:
    """Return the selectors of a class or a request: one, in CEL."""
    return [{"cel": {"expression": expression}}]


def device_class() -> Object:
    """Return the class of all devices of the driver."""
    spec = {"selectors": selectors(f'device.driver == "{DRIVER_NAME}"')}
    return {
        "apiVersion": GROUP,
        "kind": "DeviceClass",
        "metadata": {"name": "dranet"},
        "spec": spec,
    }


def claim(name: str, *requests: Object, **more: Any) -> Object:
    """Return a ResourceClaim; more is beside the requests: constraints, config."""
    return {
        "apiVersion": GROUP,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [*requests], **more}},
    }


def template(name: str, *requests: Object, **more: Any) -> Object:
    """Return a ResourceClaimTemplate, whose claims are as claim makes them."""
    made = claim(name, *requests, **more)
    return made | {"kind": "ResourceClaimTemplate", "spec": {"spec": made["spec"]}}


def nic_claim(name: str, interface: str, **more: Any) -> Object:
    """Return a claim for the NIC of this name, as request "nic"; more is in the request."""
    called = f'device.attributes["{DRIVER_NAME}"].?ifName.orValue("") == "{interface}"'
    return claim(name, request("nic", selectors=selectors(called), **more))


def request(name: str, of_class: str = "dranet", **more: Any) -> Object:
    """Return a request for exactly this; more is count, selectors and the like."""
    return {"name": name, "exactly": {"deviceClassName": of_class, **more}}


def parameters(**more: Any) -> list[Object]:
    """Return the config of a claim: parameters of our driver, for all its devices."""
    return [{"opaque": {"driver": DRIVER_NAME, "parameters": more}}]


def pod(
    name: str,
    listed: str,
    *,
    source: Mapping[str, str] | None = None,
    node: str = "box",
    main: Mapping[str, Any] | None = None,
    aside: bool = False,
    **more: Any,
) -> Object:
    """Return a pod whose container "main" lists a claim.

    Args:
        name: its own.
        listed: what its containers call the claim.
        source: where the claim comes from, as in a pod's spec; else it has the pod's name.
        node: where it runs.
        main: what else is in that container.
        aside: whether there is another container, which lists no claim.
        more: what else is in its spec.
    """
    claims = [{"name": listed, **(source or {"resourceClaimName": name})}]
    lists = {"name": "main", "image": image.NAME, "resources": {"claims": [{"name": listed}]}}
    others = [{"name": "aside", "image": image.NAME}] if aside else []
    spec = {
        "nodeSelector": {HOSTNAME: node},
        "resourceClaims": claims,
        "containers": [{**lists, **(main or {})}, *others],
        **more,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
