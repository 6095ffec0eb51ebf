"""Pods and containers as large as a runtime describes them on a busy node."""

from collections.abc import Iterator, Sequence

from dranet_nri._gen import nri_pb2
from tests.fakes.runtime import pod_message

PIECE = 3 << 20  # bytes; a runtime cuts its list below the 4 MiB of a ttrpc message
SYSCALLS = [f"syscall_{number}" for number in range(350)]  # Kubernetes' RuntimeDefault has as many

Piece = tuple[Sequence[nri_pb2.PodSandbox], Sequence[nri_pb2.Container]]


def real_pod(number: int) -> nri_pb2.PodSandbox:
    """Return a sandbox with the labels and annotations of a Deployment's pod."""
    pod = pod_message(f"{number:064x}", netns=f"/var/run/netns/cni-{number:08x}")
    for key in range(8):
        pod.labels[f"app.kubernetes.io/label-{key}"] = "value" * 6
        pod.annotations[f"example.com/annotation-{key}"] = "value" * 12
    pod.linux.resources.memory.limit.value = 1 << 30
    pod.linux.resources.cpu.shares.value = 1024
    pod.pid = 4711 + number
    return pod


def real_container(sandbox_id: str, name: str) -> nri_pb2.Container:
    """Return an ordinary container as containerd describes it: 79 nested messages."""
    container = nri_pb2.Container(
        id=f"{name}{sandbox_id}"[:64], pod_sandbox_id=sandbox_id, name=name, args=["app"] * 6
    )
    container.env.extend(f"SERVICE_{key}_PORT_8080_TCP_ADDR=10.96.0.{key}" for key in range(60))
    for key in range(8):
        container.labels[f"io.kubernetes.label-{key}"] = "value" * 6
        container.annotations[f"io.kubernetes.annotation-{key}"] = "value" * 6
    for key in range(16):
        container.mounts.add(
            source=f"/var/lib/kubelet/pods/uid/volumes/kubernetes.io~projected/{key}",
            destination=f"/mnt/{key}",
            type="bind",
            options=["rbind", "rprivate", "ro"],
        )
    for kind in ("pid", "ipc", "uts", "mount", "network", "cgroup"):
        container.linux.namespaces.add(type=kind, path=f"/proc/4711/ns/{kind}")
    for key in range(6):
        device = container.linux.devices.add(path=f"/dev/{key}", type="c", major=1, minor=key)
        device.file_mode.value = 0o666
        device.uid.value = device.gid.value = 0
    resources = container.linux.resources
    resources.memory.limit.value = resources.memory.swap.value = 1 << 30
    resources.cpu.shares.value = resources.cpu.period.value = 1024
    resources.pids.limit = 4096
    container.linux.oom_score_adj.value = 999
    container.linux.seccomp_policy.syscalls.add(names=SYSCALLS, action="SCMP_ACT_ALLOW")
    container.rlimits.add(type="RLIMIT_NOFILE", hard=1 << 20, soft=1 << 20)
    container.CDI_devices.add(name="example.com/device=0")
    container.CDI_devices.add(name="example.com/device=1")
    container.user.uid = 1000
    container.image.name = "registry.example/app"
    return container


def full_node(pods: int, containers: int) -> nri_pb2.SynchronizeRequest:
    """Return the list of a node with so many pods and so many containers in each."""
    message = nri_pb2.SynchronizeRequest(pods=map(real_pod, range(pods)))
    for pod in message.pods:
        message.containers.extend(
            real_container(pod.id, f"main-{number}") for number in range(containers)
        )
    return message


def pieces(message: nri_pb2.SynchronizeRequest) -> Iterator[Piece]:
    """Cut a list as a runtime does: pods first, then containers, each piece below PIECE."""
    yield message.pods, ()
    portion = 1 + PIECE // max(1, message.containers[0].ByteSize())
    for begin in range(0, len(message.containers), portion):
        yield (), message.containers[begin : begin + portion]
