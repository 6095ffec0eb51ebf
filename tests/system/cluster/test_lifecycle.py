"""The DaemonSet comes to a node, is updated and goes, while pods have NICs."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

import pytest

from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster import dranet
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.daemons import Daemons
from tests.system.cluster.driver import NAMES, apply, links_of
from tests.system.cluster.node import Node
from tests.system.cluster.pods import Pods
from tests.system.cluster.witness import witness, witnessed
from tests.system.cluster.workload import NAMESPACES, SLICES, slice_of

LANES: Final = ("nic4", "nic5", "nic6")
GAP: Final = ("nic1", "nic2", "nic3")  # of pods that are created while no driver runs
NOT_REGISTERED: Final = (
    "dra.net is not registered",
    "dra.sock: connect:",
)  # the latter before it is noticed
ROUND_S: Final = 180.0  # of one pod, while nobody answers the kubelet
TEMPLATE: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: NIC}
spec:
  spec:
    devices:
      requests:
      - name: nic
        exactly:
          deviceClassName: dranet
          selectors:
          - cel:
              expression: device.attributes["dra.net"].?ifName.orValue("") == "NIC"
"""
# What is left of a wire that ended with its namespace, and another one.
WIRE: Final = """
ip rule del priority 2001 2>/dev/null
ip -n switch link del wire1 2>/dev/null
python3 -c 'from tests.box.nics import make_wire; make_wire(1)'
"""


@pytest.fixture(scope="module")
def daemons(
    cluster: ControlPlane, node: Node, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Daemons]:
    """Return the driver, perhaps installed."""
    daemons = Daemons(cluster, node, tmp_path_factory.mktemp("installed"))
    yield daemons
    daemons.remove()


# --------------------------------------------------------------------------- after dranet


def test_pod_of_dranet_keeps_its_nic_until_it_ends(daemons: Daemons, pods: Pods) -> None:
    node = daemons.node
    daemons.uninstall()
    daemons.forget()
    pid = dranet.start(node)
    pods.api.create(SLICES, slice_of_dranet(node))
    apply(pods, "train", "nic7")
    pods.wait_running("train")
    before = node.run("ip", "-o", "-4", "addr", "show", "nic7").stdout
    dranet.move(node, pods, "train", "nic7", "10.107.0.5/24")
    links = links_of(pods, "train")
    assert "10.107.0.5/24" in links["nic7"]

    dranet.stop(node, pid)
    daemons.install()
    daemons.wait_published()

    assert [resource_slice["metadata"]["name"] for resource_slice in daemons.slices()] == [
        "box-dra.net-000"
    ]
    assert mac_published(daemons, "nic7") == "02:00:00:00:01:07"
    wait_until("the NIC to be attached", lambda: "attached" in row(daemons, "nic7"))
    assert f"{pods.namespace}/train" in row(daemons, "nic7")
    assert links_of(pods, "train") == links
    pods.delete("train")
    wait_until("the NIC to be restored", lambda: daemons.is_on_node("nic7"))
    wait_until(
        "its address", lambda: node.run("ip", "-o", "-4", "addr", "show", "nic7").stdout == before
    )
    assert "mtu 1400" in node.run("ip", "-o", "link", "show", "nic7").stdout
    wait_until("its record to be dropped", lambda: not row(daemons, "nic7"))


# --------------------------------------------------------------------------- updates


def test_no_container_starts_without_its_nic_during_an_update(daemons: Daemons, pods: Pods) -> None:
    daemons.install()
    daemons.settle()
    apply(pods, "train", "nic0")
    pods.wait_running("train")
    links = links_of(pods, "train")

    updates: dict[str, Callable[[], None]] = {
        "restart": daemons.restart,
        "image": partial(daemons.update, "next"),
    }
    with Traffic(pods, daemons.node) as traffic:
        for name, update in updates.items():
            begun = [f"{nic}-{name}" for nic in GAP]
            traffic.wait_for_all()
            with traffic.nobody_ends(), begin_in_the_gap(daemons, pods, begun):
                update()
            # On a busy machine, the driver may be back before the last of them is scheduled.
            messages = [pods.messages(pod) for pod in begun]
            assert any(entry in text for text in messages for entry in NOT_REGISTERED), messages
            for pod in begun:
                traffic.finish(pod)
            traffic.wait_for_all()

    assert traffic.ended
    assert {*traffic.ended.values()} == {"Running"}
    for pod in traffic.ended:
        (start,) = witnessed(daemons.node, pod)
        assert pod.partition("-")[0] in start
    assert links_of(pods, "train") == links
    pods.delete("train")
    daemons.wait_restored()


# --------------------------------------------------------------------------- removal


def test_pods_keep_their_nics_while_the_driver_is_removed_and_reinstalled(
    daemons: Daemons, pods: Pods
) -> None:
    node = daemons.node
    daemons.install()
    daemons.settle()
    apply(pods, "train", "nic0")
    apply(pods, "short", "nic1")
    for pod in ("train", "short"):
        pods.wait_running(pod)
    links = {pod: links_of(pods, pod) for pod in ("train", "short")}

    daemons.uninstall()
    wait_until("the kubelet to delete the slices", lambda: not daemons.slices())
    assert {pod: links_of(pods, pod) for pod in links} == links
    assert "dra.net" not in node.run("ls", "/var/lib/kubelet/plugins_registry").stdout
    container = pods.container("short")
    pods.begin_deletion("short")
    wait_until("the end of its container", lambda: container not in tasks(node))
    wait_until(
        "the kubelet to miss the driver",
        lambda: re.search(f'dra.net is not registered" pod="{pods.namespace}/short', kubelet(node)),
    )
    assert pods.get("short") is not None
    assert not daemons.is_on_node("nic1")  # a wire ends with its pod, hardware returns
    checked(node, "sh", "-c", WIRE)
    daemons.install()

    pods.wait_gone("short")
    daemons.wait_published()
    wait_until("the NIC in the pod to be known", lambda: "attached" in row(daemons, "nic0"))
    assert links_of(pods, "train") == links["train"]
    pods.delete("train")
    daemons.wait_restored()
    assert not row(daemons, "nic0")


# --------------------------------------------------------------------------- parts


class Traffic:
    """Pods that come and go, one after the other on each of some NICs, while a `with` block lasts.

    Attributes:
        ended: phase of each pod that ended, right before.
    """

    def __init__(self, pods: Pods, node: Node) -> None:
        self.ended: dict[str, str] = {}
        self._pods, self._node = pods, node
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(len(LANES))
        # Held while a pod of it ends.
        self._ends = {nic: threading.Lock() for nic in (*LANES, *GAP)}
        for nic in self._ends:
            pods.apply(TEMPLATE.replace("NIC", nic))

    def __enter__(self) -> Traffic:
        self._lanes = [self._threads.submit(self._lane, nic) for nic in LANES]
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        self._threads.shutdown()
        for lane in self._lanes:
            lane.result()

    @contextmanager
    def nobody_ends(self) -> Iterator[None]:
        """Let pods begin, and none end: a wire is lost whose namespace goes without a plugin."""
        with ExitStack() as stack:
            for end in self._ends.values():
                stack.enter_context(end)
            yield

    def wait_for_all(self) -> None:
        """Return once a pod has ended on each NIC that had not begun before now."""
        enough = {nic: self._count(nic) + 2 for nic in LANES}

        def all_have() -> bool:
            for lane in self._lanes:
                if lane.done():
                    lane.result()  # it failed
            return all(self._count(nic) >= number for nic, number in enough.items())

        wait_until("pods on each NIC", all_have, ROUND_S)

    def finish(self, pod: str) -> None:
        """Return once a pod has run, and is gone."""
        phases = ("Running", "Failed")
        wait_until(f"pod {pod} to run", lambda: self._phase(pod) in phases, ROUND_S)
        wait_until(f"word of pod {pod}", lambda: witnessed(self._node, pod))
        with self._ends[pod.partition("-")[0]]:
            self.ended[pod] = self._phase(pod)
            self._pods.delete(pod)

    def _count(self, nic: str) -> int:
        return sum(name.startswith(f"{nic}-") for name in tuple(self.ended))

    def _lane(self, nic: str) -> None:
        for number in itertools.count():
            if self._stop.is_set():
                return
            begin(self._pods, f"{nic}-{number}")
            self.finish(f"{nic}-{number}")

    def _phase(self, pod: str) -> str:
        found = self._pods.get(pod)
        assert found is not None
        phase: str = found["status"]["phase"]
        return phase


@contextmanager
def begin_in_the_gap(daemons: Daemons, pods: Pods, names: list[str]) -> Iterator[None]:
    """Create these pods as soon as, within the `with` block, no driver runs."""

    def wait_and_begin() -> None:
        daemons.wait_nobody_runs(ROUND_S)
        for pod in names:
            begin(pods, pod)

    with ThreadPoolExecutor(1) as aside:
        begun = aside.submit(wait_and_begin)
        yield
        begun.result()


def begin(pods: Pods, pod: str) -> None:
    """Create a pod that is named after its NIC."""
    template = {"resourceClaimTemplateName": pod.partition("-")[0]}
    document = witness(pod, template, restarts=False)
    pods.api.create(f"{NAMESPACES}/{pods.namespace}/pods", document)


def slice_of_dranet(node: Node) -> Object:
    """Return a slice as dranet writes it, with a name that a server made up."""
    devices = [
        {
            "name": nic,
            "attributes": {
                "dra.net/ifName": {"string": nic},
                "dra.net/mac": {"string": f"02:00:00:00:01:{number:02x}"},
                "dra.net/mtu": {"int": 1400},
                "dra.net/type": {"string": "veth"},
                "dra.net/virtual": {"bool": True},
            },
        }
        for number, nic in enumerate(NAMES)
    ]
    document = slice_of(node.name, {"devices": devices})
    return document | {"metadata": {"name": f"00000000-dra.net-{node.name}-x7k2p"}}


def mac_published(daemons: Daemons, nic: str) -> str:
    """Return the MAC address of a NIC as the node's slices have it."""
    devices = [
        device
        for resource_slice in daemons.slices()
        for device in resource_slice["spec"]["devices"]
    ]
    (device,) = (device for device in devices if device["name"] == nic)
    text: str = device["attributes"]["dra.net/mac"]["string"]
    return text


def row(daemons: Daemons, nic: str) -> str:
    """Return what the plugin's status has of a NIC, "" if it has none."""
    return next((line for line in daemons.status().splitlines() if line.startswith(nic)), "")


def kubelet(node: Node) -> str:
    """Return what the kubelet said."""
    return node.log("kubelet")


def tasks(node: Node) -> str:
    """Return the containers that run."""
    return checked(node, "ctr", "--namespace=k8s.io", "tasks", "ls")
