"""A mock GPU driver on a real node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.fakes.gpus import gpu_class
from tests.system.cluster.node import Node
from tests.system.cluster.pods import Pods
from tests.system.cluster.workload import SLICES


@contextmanager
def gpu_driver(node: Node, pods: Pods, driver: str, machine: str) -> Iterator[None]:
    """Have the GPUs of a machine of tests/fakes/machines.py on the node; they are published.

    Args:
        node: where the driver runs.
        pods: by whose namespace its class is applied.
        driver: its name.
        machine: the function that makes the machine.
    """
    pods.apply(json.dumps(gpu_class(driver)))
    program = f"-m tests.box.gpu_driver --node {node.name} --driver {driver} --machine {machine}"
    logged = "--kubeconfig /io/shim.kubeconfig >>/io/gpu-driver.log 2>&1 & echo $!"
    pid = checked(node, "sh", "-c", f"python3 {program} {logged}").strip()
    wait_until("slices of GPUs", lambda: _slices(pods, driver))
    yield
    checked(node, "sh", "-c", 'kill "$0"', pid)
    for name in _slices(pods, driver):
        pods.api.delete(f"{SLICES}/{name}")


def _slices(pods: Pods, driver: str) -> list[str]:
    items = pods.api.get(SLICES)["items"]
    return [
        document["metadata"]["name"] for document in items if document["spec"]["driver"] == driver
    ]
