"""The RCU parameter of the running kernel while links move and are deleted."""

import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dranet_nri.component.files import FileSystem
from dranet_nri.kernel.grace_periods import PARAMETER, GracePeriods
from dranet_nri.kernel.netns import run_inside
from dranet_nri.kernel.session import NetlinkKernel
from dranet_nri.linux.netlink.links import index_of
from dranet_nri.linux.netlink.rtnetlink import open_here
from dranet_nri.model import Ns
from dranet_nri.plan.ops import DelLink, MoveLink, Op
from dranet_nri.settings import RCU_PARAMETERS
from tests.box.waiting import wait_until
from tests.capability import lacking
from tests.system.kernel.namespaces import add_veth, new_netns

RCU = RCU_PARAMETERS / PARAMETER


@contextmanager
def noted_values() -> Iterator[set[str]]:
    """Yield the values that the parameter has in the block."""
    values, over = set[str](), threading.Event()

    def poll() -> None:
        while not over.is_set():
            values.add(RCU.read_text().strip())

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield values
    finally:
        over.set()
        thread.join()


def test_parameter_is_0_while_a_link_moves_and_while_one_is_deleted(tmp_path: Path) -> None:
    if not os.access(RCU, os.W_OK):
        lacking(f"a writable {RCU}", "run as root, on a kernel with more than one CPU")
    # A plugin of another test may move a link now.
    wait_until("the parameter to have its value", lambda: RCU.read_text() != "0\n")
    value = RCU.read_text()
    host, pod, wire = new_netns(), new_netns(), new_netns()
    add_veth(host, "eth1", wire)
    periods = GracePeriods(RCU_PARAMETERS, tmp_path / "stored", FileSystem())
    kernel = NetlinkKernel(host_path=f"/proc/self/fd/{host}", shortened=periods.shortened)
    netns = kernel.identify(f"/proc/self/fd/{pod}")
    assert netns is not None
    assert kernel.hold(netns)

    def index(namespace: int) -> int:
        with closing(run_inside(namespace, open_here)) as netlink:
            return index_of(netlink, "find eth1", "eth1")

    def values_during(op: Op) -> set[str]:
        with (
            closing(kernel.session(netns)) as session,
            session.shortened(),
            noted_values() as values,
        ):
            session.apply(op)
        return values

    assert "0" in values_during(MoveLink(Ns.HOST, index(host), Ns.POD, "eth1"))
    assert "0" in values_during(DelLink(Ns.POD, index(pod)))
    wait_until("the parameter to have its value", lambda: RCU.read_text() == value)
