"""Benchmark of hooks in complete processes, connected to runtime, kubelet and API server.

Each round is a claimed pod from Prepare to Unprepare. Where the peer's program is given, rounds of
both drivers alternate, and the table has the median of the ratios of pairs. After each attach and
detach the NICs are compared with what they shall be: an early answer is an error.
"""

import itertools
import random
import shutil
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from dranet_nri._gen import nri_pb2
from dranet_nri.nri.wire.messages import PodEventKind
from tests.bench.drivers import NODE, PEER, Driver, addresses, drift, own_driver, peer
from tests.bench.kube_api import CLAIMS, PODS
from tests.bench.table import Row, ms, print_now, spread
from tests.box.nics import ip

NICS: Final = 8
ROUNDS: Final = {1: 30, NICS: 12}
# Rounds until the drivers are started again: a process can be 10 % slower than another one of the
# same program. Not with 8 NICs: memory is measured after these pods.
SAME_PROCESSES: Final = {1: 6, NICS: 12}
UNCLAIMED: Final = 300
OTHER_PODS: Final = 100  # of a large node
OTHER_NODES: Final = 1000
LARGE_ROUNDS: Final = 12
STARTS: Final = 5
WARM_UP: Final = 2
BEAT_S: Final = 0.02  # longer than a grace period
SERVING_S: Final = 2.0  # after the last start: a driver still reads the host, and maps files
SETTLE_S: Final = 0.3  # the shim reads events 100 ms after the first
MIB: Final = 1024
# What is measured, with the ratio to the peer that this project wants to reach, by number of NICs.
# RunPodSandbox attaches, StopPodSandbox detaches.
GOALS: Final[dict[str, dict[int, float]]] = {
    "Prepare": {1: 1.3},
    "Prepare, CPU": {},
    "attach": {1: 1.10, NICS: 1.0},
    "attach, CPU": {},
    "CreateContainer": {},
    "CreateContainer, CPU": {},
    "detach": {1: 1.10, NICS: 1.10},
    "detach, CPU": {},
    "Unprepare": {1: 2.0},
    "Unprepare, CPU": {},
    "cycle, CPU": {},
}
UNCLAIMED_GOAL: Final = 1.05
MEMORY_GOAL: Final = 1.2

Seconds = dict[str, float]


def one_cycle(driver: Driver, identity: str, numbers: Sequence[int]) -> Seconds:
    """Return the seconds of each call of a claimed pod, and its CPU time with what follows."""
    reference, pod_uid = create_pod(driver, identity, numbers)
    sandbox = driver.sandbox(identity, pod_uid)
    container = nri_pb2.Container(id=f"c-{identity}", pod_sandbox_id=identity, name="main")
    runtime = driver.runtime.runtime
    taken: Seconds = {}
    begin_cpu = driver.cpu()

    def measure(what: str, call: Callable[[], float]) -> None:
        drift(BEAT_S)
        before = driver.cpu()
        taken[what] = call()
        taken[f"{what}, CPU"] = driver.cpu() - before

    def hook(stream: Callable[[], int]) -> float:
        return driver.runtime.call(stream())

    measure("Prepare", partial(driver.kubelet, "Prepare", reference))
    measure("attach", partial(hook, partial(runtime.pod_event, PodEventKind.RUN, sandbox)))
    check(driver, driver.pod, numbers)
    measure("CreateContainer", partial(hook, partial(runtime.create_container, sandbox, container)))
    time.sleep(SETTLE_S)
    measure("detach", partial(hook, partial(runtime.pod_event, PodEventKind.STOP, sandbox)))
    check(driver, driver.host, numbers, links_alone=driver.name == "peer")
    hook(partial(runtime.pod_event, PodEventKind.REMOVE, sandbox))
    measure("Unprepare", partial(driver.kubelet, "Unprepare", reference))
    time.sleep(SETTLE_S)
    taken["cycle, CPU"] = driver.cpu() - begin_cpu
    delete_pod(driver, identity)
    driver.configure_nics(numbers)
    return taken


def create_pod(
    driver: Driver, identity: str, numbers: Sequence[int]
) -> tuple[Mapping[str, str], str]:
    """Create a pod and its allocated claim; return the claim as the kubelet refers to it, and the
    UID of the pod.
    """
    claim, pod = documents(driver, identity, numbers)
    pod_uid = driver.api.query("POST", PODS, pod)["metadata"]["uid"]
    for reference in (*claim["status"]["reservedFor"], *claim["metadata"]["ownerReferences"]):
        reference["uid"] = pod_uid
    uid = driver.api.query("POST", CLAIMS, claim)["metadata"]["uid"]
    return {"namespace": "default", "name": identity, "uid": uid}, pod_uid


def delete_pod(driver: Driver, identity: str) -> None:
    """Delete a pod and its claim."""
    driver.api.query("DELETE", f"{CLAIMS}/{identity}")
    driver.api.query("DELETE", f"{PODS}/{identity}")


def documents(driver: Driver, identity: str, numbers: Sequence[int]) -> tuple[Any, Any]:
    """Return an allocated claim of the NICs, created from a template, and the pod that has it."""
    results = [
        {"request": f"r{number}", "driver": "dra.net", "pool": NODE,
         "device": driver.device(f"nic{number}")} for number in numbers
    ]  # fmt: skip
    exactly = {"deviceClassName": "nic.dra.net", "allocationMode": "ExactCount", "count": 1}
    requests = [{"name": f"r{number}", "exactly": exactly} for number in numbers]
    metadata = {"name": identity, "namespace": "default"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": identity, "uid": "", "controller": True}
    named = {"resource.kubernetes.io/pod-claim-name": "nics"}
    claim = {
        "metadata": {**metadata, "annotations": named, "ownerReferences": [owner]},
        "spec": {"devices": {"requests": requests}},
        "status": {
            "allocation": {"devices": {"results": results, "config": []}},
            "reservedFor": [{"resource": "pods", "name": identity, "uid": ""}],
        },
    }
    resources = {"claims": [{"name": "nics"}]}
    pod = {
        "metadata": metadata,
        "spec": {
            "nodeName": NODE,
            "resourceClaims": [{"name": "nics", "resourceClaimTemplateName": "nics"}],
            "containers": [{"name": "main", "image": "x", "resources": resources}],
        },
        "status": {"resourceClaimStatuses": [{"name": "nics", "resourceClaimName": identity}]},
    }
    return claim, pod


def check(driver: Driver, space: str, numbers: Sequence[int], *, links_alone: bool = False) -> None:
    """Compare what the namespace has now with what the NICs shall have.

    The peer restores links alone.
    """
    links = ip("-n", space, "-o", "link", "show", "up")
    shown = ip("-n", space, "-o", "addr") + ip("-n", space, "-4", "route")
    for number in numbers:
        assert f" nic{number}@" in links, (
            f"{driver.name}: nic{number} is not up in {space}: {links}"
        )
        v4, v6, network, _ = addresses(number)
        for text in () if links_alone else (v4, v6, f"{network} via"):
            assert text in shown, f"{driver.name}: nic{number} lacks {text} in {space}: {shown}"


def unclaimed(driver: Driver, count: int, into: dict[str, list[float]]) -> None:
    """Add the seconds of the four calls of pods without claims, as large as ordinary ones."""
    runtime = driver.runtime.runtime
    for number in range(count):
        identity = f"plain-{random.randrange(1 << 31)}-{number}"
        pod = driver.sandbox(identity, f"uid-{identity}")
        container = nri_pb2.Container(id=f"c-{identity}", pod_sandbox_id=identity, name="main")
        for entry in range(8):
            pod.labels[f"app.kubernetes.io/label-{entry}"] = "value" * 6
            pod.annotations[f"example.com/annotation-{entry}"] = "value" * 12
        container.env.extend(f"SERVICE_{entry}_HOST=10.0.0.{entry}" for entry in range(30))
        drift(0.003)
        for name, stream in (
            ("RunPodSandbox", partial(runtime.pod_event, PodEventKind.RUN, pod)),
            ("CreateContainer", partial(runtime.create_container, pod, container)),
            ("StopPodSandbox", partial(runtime.pod_event, PodEventKind.STOP, pod)),
            ("RemovePodSandbox", partial(runtime.pod_event, PodEventKind.REMOVE, pod)),
        ):
            into[name].append(driver.runtime.call(stream()))


class Compared:
    """Rows of ours, beside the peer where there is one."""

    def __init__(self, rows: list[Row], notes: list[str]) -> None:
        self.rows = rows
        self.notes = notes

    def pairs(
        self, what: str, own: Sequence[float], other: Sequence[float], goal: float | None
    ) -> None:
        """Add a row of the median of the ratios pair by pair, with its middle half as a note."""
        if not other:
            self.rows.append(Row(what, ms(statistics.median(own))))
            return
        ratios = [here / there for here, there in zip(own, other, strict=True)]
        low, ratio, high = statistics.quantiles(ratios, n=4)
        self.add(what, ms(statistics.median(own)), ms(statistics.median(other)), ratio, goal)
        self.notes.append(
            f"{what}: middle half ours {spread(own)}, peer {spread(other)},"
            f" ratio {low:.2f} to {high:.2f}"
        )

    def add(self, what: str, own: str, other: str, ratio: float, goal: float | None) -> None:
        """Add a row."""
        met = None if goal is None else ratio <= goal
        budget = "" if goal is None else f"≤ {goal:.2f}"
        self.rows.append(Row(what, own, f"{other} peer", ratio, budget, met))


def starts(drivers: Sequence[Driver], table: Compared) -> None:
    """Start each driver some times and leave it running; add the rows."""
    marks: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(STARTS + 1):
        for driver in drivers:
            driver.start()
            driver.device(f"nic{NICS - 1}")
            for mark, seconds in driver.marks.items():
                marks[driver.name, mark] += [seconds] if number else []  # the first compiles
            if number < STARTS:
                driver.stop()
    for mark, what in (
        ("registered", "spawn to registered at the kubelet"),
        ("synchronized", "spawn to synchronised with the runtime"),
        ("CPU", "spawn to both, CPU"),
    ):
        table.pairs(what, marks["ours", mark], marks["peer", mark], None)


def restart(drivers: Sequence[Driver], nics: Sequence[int], identities: Iterator[int]) -> None:
    """Start the drivers again, and let each have some pods that are not measured."""
    for driver in drivers:
        driver.stop()
        driver.start()
        driver.device(f"nic{NICS - 1}")
        for _ in range(WARM_UP):
            one_cycle(driver, f"pod-{next(identities)}", nics)


def cycles(drivers: Sequence[Driver], table: Compared) -> None:
    """Add the rows of pods with claims."""
    identities = itertools.count()
    for count, rounds in ROUNDS.items():
        print_now(f"hooks: {rounds} pods with {count} NICs")
        taken: dict[str, list[Seconds]] = defaultdict(list)
        asked: dict[str, Counter[str]] = defaultdict(Counter)
        for number in range(rounds):
            first = number % NICS if count == 1 else 0
            nics = range(first, first + count)
            if number % SAME_PROCESSES[count] == 0:
                restart(drivers, nics, identities)
            for driver in random.sample(drivers, len(drivers)):
                before = driver.requests()
                taken[driver.name].append(one_cycle(driver, f"pod-{next(identities)}", nics))
                asked[driver.name].update(Counter(driver.requests()) - Counter(before))
        for what, goals in GOALS.items():
            own, other = ([pod[what] for pod in taken[name]] for name in ("ours", "peer"))
            table.pairs(f"{what}, {count} NIC", own, other, goals.get(count))
        for driver in drivers:
            api_requests = {what: times / rounds for what, times in asked[driver.name].items()}
            shown = ", ".join(
                f"{what} {share:.2f}" for what, share in sorted(api_requests.items()) if share
            )
            table.notes.append(f"requests a cycle, {count} NIC, {driver.name}: {shown}")


def large_node(drivers: Sequence[Driver], table: Compared) -> None:
    """Add the rows of pods with a NIC on a node with other pods, and routes to other nodes."""
    print_now(f"hooks: {LARGE_ROUNDS} pods beside {OTHER_PODS} others")
    identities = (f"large-{number}" for number in itertools.count())
    for driver in drivers:
        driver.grow(OTHER_PODS, OTHER_NODES)
        one_cycle(driver, next(identities), [0])
    taken: dict[str, list[Seconds]] = defaultdict(list)
    for number in range(LARGE_ROUNDS):
        for driver in random.sample(drivers, len(drivers)):
            taken[driver.name].append(one_cycle(driver, next(identities), [number % NICS]))
    for what in ("attach", "detach"):
        own, other = ([pod[what] for pod in taken[name]] for name in ("ours", "peer"))
        table.pairs(f"{what}, 1 NIC, {OTHER_PODS} other pods", own, other, None)


def plain_pods(drivers: Sequence[Driver], table: Compared) -> None:
    """Add the rows of pods without claims."""
    print_now(f"hooks: {UNCLAIMED} pods without claims")
    seconds: dict[str, dict[str, list[float]]] = {
        name: defaultdict(list) for name in ("ours", "peer")
    }
    for _ in range(UNCLAIMED // 10):
        for driver in random.sample(drivers, len(drivers)):
            unclaimed(driver, 10, seconds[driver.name])
    for hook, own in seconds["ours"].items():
        what = f"{hook}, pod without claims"
        table.pairs(what, own, seconds["peer"][hook], UNCLAIMED_GOAL)


def memory(drivers: Sequence[Driver], table: Compared, when: str) -> None:
    """Add the rows of the current memory."""
    sizes = {driver.name: driver.memory_kib() for driver in drivers}
    shown = " + ".join(f"{kib / MIB:.1f}" for kib in sizes["ours"].values())
    what = f"memory (PSS) {when}, {' + '.join(sizes['ours'])}"
    if "peer" not in sizes:
        table.rows.append(Row(what, f"{shown} MiB"))
        return
    own, other = (sum(sizes[name].values()) for name in ("ours", "peer"))
    table.add(what, f"{shown} MiB", f"{other / MIB:.1f} MiB", own / other, MEMORY_GOAL)


def run(rows: list[Row], notes: list[str]) -> None:
    """Measure everything about whole hooks."""
    drivers = [own_driver(NICS)]
    if shutil.which(PEER):
        drivers.append(peer(NICS))
    table = Compared(rows, notes)
    print_now(f"hooks: {STARTS} starts of {' and '.join(driver.name for driver in drivers)}")
    for driver in drivers:
        driver.build()
    starts(drivers, table)
    time.sleep(SERVING_S)
    memory(drivers, table, "before the first pod")
    cycles(drivers, table)
    plain_pods(drivers, table)
    memory(drivers, table, "after all pods")
    large_node(drivers, table)
    for driver in drivers:
        driver.close()
    notes.append(
        "hooks: attach is RunPodSandbox, detach StopPodSandbox; runtime, kubelet and API server are"
        " the benchmark's, NICs are veth pairs with two addresses and a route; ratios are medians"
        " of pairs; CPU is of all processes of the driver during the call; beside other pods, there"
        f" are {OTHER_NODES} routes to other nodes"
    )
