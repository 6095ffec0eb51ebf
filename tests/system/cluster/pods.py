"""Pods of a test on a real node, in a namespace of the test's own."""

from __future__ import annotations

import itertools
from typing import Final

from tests.box import image
from tests.box.waiting import wait_until
from tests.system.cluster.api import Api, ApiError, Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.workload import NAMESPACES, RESOURCES

POD_TIMEOUT_S: Final = 60.0  # a kubelet tries again after up to 90 s what is not asked for in tests
RECOVERY_S: Final = 120.0  # who asked an API server in vain asks again after a minute at worst
_numbers = itertools.count(1)


class Pods:
    """A namespace, made with the object; what is in it goes with it."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.namespace = f"pods-{next(_numbers)}"
        self.api: Api = cluster.api()
        self._cluster = cluster
        self.api.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        account = f"{NAMESPACES}/{self.namespace}/serviceaccounts/default"
        wait_until("a service account for pods", lambda: self._get(account))

    def apply(self, manifest: str) -> None:
        """Apply a manifest; IMAGE in it becomes the image of the box."""
        self.api.apply(manifest.replace("IMAGE", image.NAME), self.namespace)

    def exec(self, pod: str, *command: str, container: str = "main") -> str:
        """Run a command in a pod by `kubectl exec`; return what it prints."""
        return self._kubectl("exec", pod, f"--container={container}", "--", *command)

    def logs(self, pod: str) -> str:
        """Return what `kubectl logs` shows."""
        return self._kubectl("logs", pod)

    def get(self, pod: str) -> Object | None:
        """Return a pod, None if there is none."""
        return self._get(f"{NAMESPACES}/{self.namespace}/pods/{pod}")

    def claim(self, name: str) -> Object | None:
        """Return a claim, None if there is none."""
        return self._get(f"{RESOURCES}/namespaces/{self.namespace}/resourceclaims/{name}")

    def wait_running(self, pod: str, deadline_s: float = POD_TIMEOUT_S) -> None:
        """Return once all containers of the pod run."""
        wait_until(f"pod {pod} to run", lambda: self._runs(pod), deadline_s)

    def delete(self, pod: str, *, grace_s: int = 1) -> None:
        """Delete a pod, and return once its node has let go of it; with grace_s 0, at once."""
        self.begin_deletion(pod, grace_s=grace_s)
        self.wait_gone(pod)

    def begin_deletion(self, pod: str, *, grace_s: int = 1) -> None:
        """Begin to delete a pod; with grace_s 0 the API server forgets it at once."""
        self.api.delete(f"{NAMESPACES}/{self.namespace}/pods/{pod}", grace_s)

    def wait_gone(self, pod: str) -> None:
        """Return once there is no such pod."""
        wait_until(f"pod {pod} to be gone", lambda: self.get(pod) is None, POD_TIMEOUT_S)

    def container(self, pod: str) -> str:
        """Return the runtime's id of a pod's one container."""
        (status,) = self._statuses(pod)
        return str(status["containerID"]).partition("://")[2]

    def restarts(self, pod: str) -> int:
        """Return how often the containers of a pod were started again."""
        return sum(status["restartCount"] for status in self._statuses(pod))

    def health(self, pod: str) -> list[Object]:
        """Return what the status of a pod's containers says of devices, claim by claim."""
        return [
            resource
            for status in self._statuses(pod)
            for resource in status.get("allocatedResourcesStatus", [])
        ]

    def reasons(self, pod: str) -> set[str]:
        """Return the reasons of all events of a pod."""
        return {event["reason"] for event in self._events(pod)}

    def messages(self, pod: str) -> str:
        """Return the texts of all events of a pod."""
        return "\n".join(event["message"] for event in self._events(pod))

    def remove(self) -> None:
        """Delete all pods, wait until they are gone, then the namespace."""
        pods = f"{NAMESPACES}/{self.namespace}/pods"
        self.api.delete(pods, grace_s=1)
        wait_until("all pods to be gone", lambda: not self.api.get(pods)["items"], POD_TIMEOUT_S)
        self.api.delete(f"{NAMESPACES}/{self.namespace}")

    def _events(self, pod: str) -> list[Object]:
        items: list[Object] = self.api.get(f"{NAMESPACES}/{self.namespace}/events")["items"]
        return [event for event in items if event["involvedObject"]["name"] == pod]

    def _runs(self, pod: str) -> bool:
        statuses = self._statuses(pod)
        return bool(statuses) and all("running" in status["state"] for status in statuses)

    def _statuses(self, pod: str) -> list[Object]:
        found = self.get(pod)
        assert found is not None
        statuses: list[Object] = found["status"].get("containerStatuses", [])
        return statuses

    def _kubectl(self, *arguments: str) -> str:
        return self._cluster.kubectl(f"--namespace={self.namespace}", *arguments)

    def _get(self, path: str) -> Object | None:
        try:
            return self.api.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None
