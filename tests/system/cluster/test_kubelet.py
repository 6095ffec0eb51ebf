"""A real kubelet on a real containerd runs what the real scheduler gives it."""

from tests.system.cluster.gateway import ADDRESS, SERVICE
from tests.system.cluster.node import Node
from tests.system.cluster.pods import Pods

POD = """
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  nodeSelector: {kubernetes.io/hostname: box}
  containers:
  - name: main
    image: IMAGE
    command: [sh, -c, "echo $KUBERNETES_SERVICE_HOST; exec sleep 1000000"]
"""


def test_plain_pod_runs_and_ends(node: Node, pods: Pods) -> None:
    pods.apply(POD)
    pods.wait_running("plain")

    links = pods.exec("plain", "ip", "-o", "link")

    assert "eth0" in links
    assert "nic0" not in links
    assert pods.logs("plain") == f"{SERVICE}\n"
    found = pods.get("plain")
    assert found is not None
    assert found["status"]["hostIP"] == ADDRESS
    pods.delete("plain")


def test_pod_reaches_the_api_server_service(node: Node, pods: Pods) -> None:
    pods.apply(POD)
    pods.wait_running("plain")

    pods.exec("plain", "sh", "-c", f"nc -w 10 {SERVICE} 443 </dev/null")


def test_pods_survive_a_kubelet_restart(node: Node, pods: Pods) -> None:
    pods.apply(POD)
    pods.wait_running("plain")
    before = pods.exec("plain", "cat", "/proc/1/stat")

    node.kubelet.kill()
    node.kubelet.start()
    pods.apply(POD.replace("plain", "second"))
    pods.wait_running("second")

    assert pods.exec("plain", "cat", "/proc/1/stat") == before
    pods.delete("plain")
