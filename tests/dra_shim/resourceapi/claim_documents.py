"""Documents of resource.k8s.io as JSON, in a word each, and a file of some."""

Json = dict[str, object]

FLAT = """
apiVersion: resource.k8s.io/v1beta1
kind: DeviceClass
metadata:
  name: dranet
spec:
  selectors:
  - cel:
      expression: device.driver == "dra.net"
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata:
  name: 2-gpu-nic-aligned
spec:
  spec:
    devices:
      requests:
      - name: gpu
        deviceClassName: gpu.nvidia.com
        count: 2
        selectors:
        - cel: {expression: 'device.attributes["gpu.nvidia.com"].index <= 2'}
      - name: nic
        deviceClassName: dranet
        count: 2
        selectors:
        - cel: {expression: 'device.attributes["dra.net"].rdma == true'}
      constraints:
      - matchAttribute: "resource.kubernetes.io/pcieRoot"
"""


def exactly(**fields: object) -> Json:
    return {"name": "nic", "exactly": {"deviceClassName": "dranet"} | fields}


def claim(version: str = "v1", **devices: object) -> Json:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "nics"},
        "spec": {"devices": {"requests": [exactly()]} | devices},
    }


def device_class(**spec: object) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "dranet"},
        "spec": spec,
    }


def opaque(parameters: object, **more: object) -> Json:
    return {"opaque": {"driver": "dra.net", "parameters": parameters}} | more
