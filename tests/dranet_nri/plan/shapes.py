"""The plans whose descriptions are kept as golden files, so that a change reads as a diff.

python -m tests.dranet_nri.plan.shapes DIRECTORY     # what hack/golden does
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dranet_nri.model import (
    Address,
    InterfaceConfig,
    LinkState,
    NeighbourConfig,
    NetworkConfig,
    NextHop,
    Observed,
    Route,
    RouteConfig,
    RuleConfig,
)
from dranet_nri.plan.ops import Plan
from dranet_nri.plan.planner import make_plan
from dranet_nri.plan.restore import RestoreTarget
from tests.dranet_nri.plan.examples import FULL, GKE, NIC, PLAIN, RENAMED, in_pod, on_host

EVERYTHING = NetworkConfig(
    interface=InterfaceConfig(
        name="net1",
        addresses=("192.168.1.5/24", "2001:db8:1::5/64"),
        mtu=8896,
        hardware_addr="02:00:5e:10:00:01",
        gso_max_size=65536,
        gro_max_size=65537,
        gso_ipv4_max_size=65538,
        gro_ipv4_max_size=65539,
        arp_ignore=1,
        arp_announce=2,
        forwarding=True,
    ),
    routes=(
        RouteConfig("0.0.0.0/0", gateway="192.168.1.1", table=200),
        RouteConfig("172.16.0.0/12", scope=253, source="192.168.1.5"),
    ),
    rules=(RuleConfig(priority=100, source="192.168.1.5/32", table=200),),
    neighbors=(NeighbourConfig("192.168.1.1", "02:00:5e:10:00:02"),),
)
BONDED = replace(FULL, master_name="bond0")
MULTIPATH = replace(
    PLAIN,
    routes=(
        Route("10.7.0.0/16", nexthops=(NextHop("10.1.0.1"), NextHop("10.3.0.1", 2, device="eth2"))),
    ),
)
IN_POD = LinkState(
    replace(NIC, index=9, name="net1", mtu=8896, mac="02:00:5e:10:00:01"),
    addresses=(Address("192.168.1.5/24"),),
)
POD_NAMES = frozenset({"lo", "eth0"})
HOST_NAMES = frozenset({"lo", "eth0", "eth2", "bond0"})
OBSERVED_IN_POD = Observed(pod=IN_POD, taken_host_names=HOST_NAMES, taken_pod_names=POD_NAMES)


def shapes() -> Mapping[str, Plan]:
    """Return each plan by the name of its golden file."""
    host_rules = replace(OBSERVED_IN_POD, host_rules=FULL.rules)
    returned = replace(NIC, index=3, name="dev7", up=False, mac="02:00:5e:10:00:01")
    return {
        "attach-inheriting": make_plan(in_pod(NetworkConfig(), FULL), on_host(FULL)),
        "attach-everything-given": make_plan(in_pod(EVERYTHING, FULL), on_host(FULL)),
        "attach-gke-host-routes": make_plan(in_pod(RENAMED, GKE), on_host(GKE)),
        "attach-from-bond": make_plan(in_pod(RENAMED, BONDED), on_host(BONDED, "bond0")),
        "attach-altname-clash": make_plan(
            in_pod(RENAMED, PLAIN), on_host(PLAIN, in_pod=("lo", "enp138s0"))
        ),
        "attach-resumed-in-pod": make_plan(
            in_pod(EVERYTHING, FULL),
            replace(OBSERVED_IN_POD, pod=replace(IN_POD, link=replace(NIC, up=True))),
        ),
        "detach": make_plan(RestoreTarget(FULL), host_rules),
        "detach-to-bond": make_plan(RestoreTarget(BONDED), host_rules),
        "detach-multipath": make_plan(RestoreTarget(MULTIPATH), OBSERVED_IN_POD),
        "detach-name-taken-on-host": make_plan(
            RestoreTarget(PLAIN), replace(OBSERVED_IN_POD, taken_host_names=HOST_NAMES | {"eth1"})
        ),
        "detach-name-taken-in-pod": make_plan(
            RestoreTarget(PLAIN), replace(OBSERVED_IN_POD, taken_pod_names=POD_NAMES | {"eth1"})
        ),
        "returned-by-kernel": make_plan(RestoreTarget(FULL), on_host(LinkState(returned))),
    }


def write_shapes(directory: Path) -> None:
    """Write every golden file, one operation a line."""
    for name, ops in shapes().items():
        text = "".join(f"{op}\n" for op in ops)
        (directory / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_shapes(Path(sys.argv[1]))
