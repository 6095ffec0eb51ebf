"""Checks of one end without traffic: the devices of a pod, compared with its claim."""

from collections.abc import Iterator

from dra_shim.verify.outputs import PodFacts, usable_gid
from dra_shim.verify.remedies import CAUSES
from dra_shim.verify.thresholds import Thresholds, passes
from dra_shim.verify.types import ClaimedNic, Fabric, Line, Outcome, WorkerPod


def failed(
    check: str, cause: str, source: str, target: str = "", value: str = "", threshold: str = "",
    ratio: float = 0.0,
) -> Line:  # fmt: skip
    """Return a line for a failure, with the meaning and the remedy of its cause."""
    meaning, remedy = CAUSES[cause]
    return Line(check, source, target, Outcome.FAILED, value, threshold, meaning, remedy, ratio)


def passed(check: str, source: str, target: str = "", value: str = "", threshold: str = "") -> Line:
    """Return a line for a check that passed."""
    return Line(check, source, target, Outcome.PASSED, value, threshold, ratio=1.0)


def name_of(worker: WorkerPod, nic: ClaimedNic) -> str:
    """Return the name of a NIC in the report: node and interface, or RDMA device without one."""
    return f"{worker.node}/{nic.interface or nic.rdma or nic.device}"


def speed_of(nic: ClaimedNic, facts: PodFacts) -> float:
    """Return the link speed of a NIC in Gbit/s, 0 if it is unknown."""
    port, link = facts.ports.get(nic.rdma), facts.links.get(nic.interface)
    # A soft-RoCE device reports a made-up rate, its interface the real one.
    if link is not None and link.speed_gbit:
        return link.speed_gbit
    return port.rate_gbit if port is not None and nic.fabric is Fabric.INFINIBAND else 0.0


def check_worker(
    worker: WorkerPod, facts: PodFacts, thresholds: Thresholds, *, exclusive: bool
) -> Iterator[Line]:
    """Yield a line for each check of a pod.

    Args:
        worker: the pod.
        facts: its interfaces and RDMA devices.
        thresholds: threshold of the limit of locked memory.
        exclusive: whether RDMA devices that it does not claim are a failure.
    """
    for nic in worker.nics:
        yield from _check_nic(worker, nic, facts)
        if worker.gpu_numa_nodes and nic.numa_node >= 0:
            yield _numa(worker, nic)
    claimed = {nic.rdma for nic in worker.nics if nic.rdma}
    if claimed:
        threshold = thresholds.of("memlock", Fabric.ETHERNET, 0)
        texts = (f"{facts.memlock_mib:g} MiB", f"{threshold:g} MiB")
        if passes("memlock", facts.memlock_mib, threshold):
            yield passed("memlock", worker.node, "", *texts)
        else:
            yield failed("memlock", "memlock", worker.node, "", *texts)
    if exclusive:
        foreign = sorted(facts.ports.keys() - claimed)
        if foreign:
            yield failed("isolation", "shared", worker.node, "", " ".join(foreign), "none")
        else:
            yield passed("isolation", worker.node)


def _check_nic(worker: WorkerPod, nic: ClaimedNic, facts: PodFacts) -> Iterator[Line]:
    name = name_of(worker, nic)
    link, port = facts.links.get(nic.interface), facts.ports.get(nic.rdma)
    if (nic.interface and link is None) or (nic.rdma and port is None):
        yield failed("present", "missing", name)
        return
    if (link is not None and not link.up) or (port is not None and not port.active):
        yield failed("link", "down", name, "", "down", "up")
        return
    yield passed("link", name, "", "up", "up")
    if link is not None and nic.mtu:
        texts = (str(link.mtu), str(nic.mtu))
        if link.mtu == nic.mtu:
            yield passed("mtu", name, "", *texts)
        else:
            yield failed("mtu", "mtu", name, "", *texts)
    if port is not None:
        index = usable_gid(port, nic.address)
        if index is None:
            yield failed("gid", "no-gid", name, "", f"{len(port.gids)} GIDs")
        else:
            yield passed("gid", name, "", port.gids[index][0])


def _numa(worker: WorkerPod, nic: ClaimedNic) -> Line:
    texts = (f"NIC on {nic.numa_node}", f"GPUs on {' '.join(map(str, worker.gpu_numa_nodes))}")
    # A NIC far from all GPUs is used only by a GPU that has no NIC on its own NUMA node.
    without_nic = {*worker.gpu_numa_nodes} - {other.numa_node for other in worker.nics}
    if nic.numa_node in worker.gpu_numa_nodes or not without_nic:
        return passed("numa", name_of(worker, nic), "", *texts)
    return failed("numa", "numa", name_of(worker, nic), "", *texts)
