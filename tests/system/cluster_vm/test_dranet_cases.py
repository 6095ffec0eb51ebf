"""The end-to-end cases of kubernetes-sigs/dranet, on a machine with our DaemonSet.

Each case of its tests/*.bats by name, and the test that shows it here:

| case | test |
|---|---|
| dummy interface with IP addresses ResourceClaim | test_pod_has_the_address_of_the_claim |
| … and normalized name | test_pod_has_the_address_of_the_claim |
| validate per-interface ARP configuration on dummy interface | test_arp_sysctls_are_set |
| dummy interface with IP addresses ResourceClaimTemplate | test_address_of_the_host_is_kept |
| dummy interface with IP addresses ResourceClaim and routes | test_routes_of_the_claim_are_set |
| test metric server is up and operating on host | test_metrics_are_served_on_the_host |
| validate advanced network configurations with dummy | test_mtu_mac_and_offloads_are_set |
| validate big tcp network configurations on dummy interface | test_big_tcp_sizes_are_set |
| validate bpf filter attributes | test_bpf_programs_are_published |
| validate tcx bpf filter attributes | test_bpf_programs_are_published |
| validate bpf programs are removed | test_bpf_programs_are_removed_in_the_pod |
| 2 dummy interfaces with IP addresses ResourceClaimTemplate | test_request_gets_two_nics |
| reapply pod with dummy resource claim | test_pod_applied_again_has_its_address |
| driver should gracefully shutdown when terminated | test_sockets_are_removed_on_shutdown |
| unprepare claims on driver restart after pod deletion … | test_claim_is_unprepared_after_restart |
| permanent neighbor entry is copied to pod namespace | test_permanent_neighbours_are_copied |
| route rules and routes with non-default table … | test_pod_has_the_rules_and_tables_of_the_host |
| dummy interface with IPv6 subnet route | test_ipv6_subnet_route_exists_once |
| validate pbr configuration | test_pod_reaches_another_through_a_router |
| validate vrf routing | test_pod_reaches_another_through_a_router |
| allocated device in ResourceSlice remains unchanged | test_attributes_in_a_pod_are_kept |
| validate whereabouts cni integration | test_address_of_a_profile_is_released |
| validate python webhook configuration integration | test_parameters_of_a_webhook_are_set |

All links exist at once, and all pods of the cases run at once. The driver is removed from the node
once, for the last tests of the module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster import documents
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.daemons import Daemons
from tests.system.cluster.pods import Pods
from tests.system.cluster_vm import dranet_nics, webhook
from tests.system.cluster_vm.dranet_pods import (
    SOCKETS,
    Cases,
    attachments,
    leases,
    published,
    records,
    remove,
    set_affinity,
    sockets,
)
from tests.system.cluster_vm.machine import Machine

ARGS: Final = (
    "--v=4",
    "--filter=",
    "--feature-gates=PersistentResourceSliceAttributes=true",
    "--cloud-provider-hint=webhook",
    "--profile-provider=webhook",
    f"--webhook-url=http://127.0.0.1:{webhook.PORT}",
)
SERVE: Final = "python3 -m tests.system.cluster_vm.webhook >/io/webhook.log 2>&1 & echo $!"
PAGE: Final = "import urllib.request as r; print(r.urlopen('http://localhost:9177/metrics').read())"
TCX: Final = "from dranet_nri.linux.bpf import tcx_names; print(tcx_names())"
LABEL: Final = "e2e-test-do-not-schedule"
ELSEWHERE: Final = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": LABEL, "operator": "DoesNotExist"}]}
            ]
        }
    }
}


@pytest.fixture(scope="module")
def cases(cluster: ControlPlane, daemons: Daemons, installed: Machine) -> Iterator[Cases]:
    """Return the cases with all links and pods; the node is as before afterwards."""
    node = installed.node
    before = daemons.arguments()
    process = checked(node, "sh", "-c", SERVE).strip()
    pods = Pods(cluster)
    try:
        checked(node, "sh", "-ec", dranet_nics.CREATE)
        daemons.set_arguments([*before, *ARGS])
        made = documents.manifest(*dranet_nics.all_documents())
        found = Cases(cluster, daemons, pods, published(daemons, dranet_nics.NICS), {})
        pods.apply(made)
        found.wait_running(made.count("kind: Pod\n") + made.count("kind: Deployment\n"))
        yield found
    finally:
        deployments = f"/apis/apps/v1/namespaces/{pods.namespace}/deployments"
        pods.api.delete(deployments)
        pods.remove()
        # The plugin may have restarted a moment ago, and restores NICs after their pods are gone.
        wait_until("the restore of the cases' NICs", lambda: not attachments(daemons))
        checked(node, "sh", "-c", dranet_nics.DELETE)
        checked(node, "sh", "-c", 'kill "$0"', process)
        daemons.set_arguments(before)
    installed.wait_restored()
    installed.wait_published()


# --------------------------------------------------------------------------- addresses, routes


@pytest.mark.parametrize("case", ["static", "normalized"])
def test_pod_has_the_address_of_the_claim(cases: Cases, case: str) -> None:
    assert "169.254.169.13/24" in cases.run(case, "ip", "addr", "show", "eth99")
    assert "169.254.169.13/24" in cases.addresses(case)


def test_invalid_device_name_is_normalized(cases: Cases) -> None:
    claim = cases.pods.claim("normalized")

    assert claim is not None
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert result["device"] == "net-nvwhqnk7gy"


def test_address_of_the_host_is_kept(cases: Cases) -> None:
    assert "169.254.14.14/32" in cases.run("template", "ip", "addr", "show", "template")
    assert cases.addresses("template") == ["169.254.14.14/32"]


def test_request_gets_two_nics(cases: Cases) -> None:
    for number in (0, 1):
        shown = cases.run("double", "ip", "addr", "show", f"double{number}")
        assert f"169.254.15.1{3 + number}/32" in shown
    assert sorted(cases.addresses("double")) == ["169.254.15.13/32", "169.254.15.14/32"]


def test_routes_of_the_claim_are_set(cases: Cases) -> None:
    assert "169.254.169.13/32" in cases.run("routes", "ip", "addr", "show", "eth99")
    assert "169.254.169.0/24 via 169.254.169.1 dev eth99" in cases.run("routes", "ip", "route")
    assert cases.addresses("routes") == ["169.254.169.13/32"]


def test_pod_has_the_rules_and_tables_of_the_host(cases: Cases) -> None:
    routes = cases.run("rules", "ip", "route", "show", "table", "100")

    assert "10.10.10.0/24 via 169.254.18.1 dev eth99" in routes
    rules = cases.run("rules", "ip", "rule", "show", "priority", "500").split()
    assert rules == ["500:", "from", "10.20.30.0/24", "lookup", "100"]


def test_ipv6_subnet_route_exists_once(cases: Cases) -> None:
    routes = cases.run("subnet6", "ip", "-6", "route", "show", "fd36::3:0:e:0:0/96")

    (route,) = routes.splitlines()
    assert "dev subnet6 proto kernel metric 256 pref medium" in route


def test_permanent_neighbours_are_copied(cases: Cases) -> None:
    shown = cases.run("neigh", "ip", "neigh", "show", "nud", "permanent")

    assert "192.168.1.1 dev eth99 lladdr 00:11:22:33:44:55 PERMANENT" in shown
    assert "2001:db8::1 dev eth99 lladdr 00:aa:bb:cc:dd:ee PERMANENT" in shown


@pytest.mark.parametrize(
    ("pod", "command"),
    [("pbr1", ("192.168.102.1",)), ("vrf1", ("-I", "eth1", "10.10.20.1"))],
    ids=["pbr", "vrf"],
)
def test_pod_reaches_another_through_a_router(
    cases: Cases, pod: str, command: tuple[str, ...]
) -> None:
    shown = cases.pods.exec(pod, "ping", "-c", "1", *command)

    assert " 0% packet loss" in shown


# --------------------------------------------------------------------------- link settings


def test_arp_sysctls_are_set(cases: Cases) -> None:
    directory = "/proc/sys/net/ipv4/conf/dranet-arp"
    shown = cases.pods.exec("arp", "cat", f"{directory}/arp_ignore", f"{directory}/arp_announce")

    assert shown.split() == ["1", "2"]


def test_mtu_mac_and_offloads_are_set(cases: Cases) -> None:
    shown = cases.run("advanced", "ip", "addr", "show", "dranet0")
    features = cases.run("advanced", "ethtool", "-k", "dranet0")

    for text in ("169.254.169.14/24", "mtu 4321", "00:11:22:33:44:55"):
        assert text in shown
    for name in ("tcp-segmentation", "generic-receive", "large-receive"):
        assert f"{name}-offload: off" in features


def test_big_tcp_sizes_are_set(cases: Cases) -> None:
    shown = cases.run("bigtcp", "ip", "-details", "link", "show", "dranet1")
    features = cases.run("bigtcp", "ethtool", "-k", "dranet1")

    assert "mtu 8896" in shown
    for name in ("gso", "gro", "gso_ipv4", "gro_ipv4"):
        assert f" {name}_max_size 65536" in shown
    for name, state in (
        ("tcp-segmentation", "on"),
        ("generic-receive", "on"),
        ("large-receive", "off"),
    ):
        assert f"{name}-offload: {state}" in features


# --------------------------------------------------------------------------- BPF programs


def test_bpf_programs_are_published(cases: Cases) -> None:
    shown = cases.attributes["programs"]

    assert shown["dra.net/ebpf"] == {"bool": True}
    assert shown["dra.net/tcFilterNames"] == {"string": "dummy_bpf.o:[classifier]"}
    assert shown["dra.net/tcxProgramNames"] == {"string": "handle_ingress"}


def test_bpf_programs_are_removed_in_the_pod(cases: Cases) -> None:
    assert "UP" in cases.run("programs", "ip", "link", "show", "programs")
    assert cases.run("programs", "tc", "filter", "show", "dev", "programs", "ingress") == ""
    assert cases.run("programs", "python3", "-c", TCX).strip() == "{}"


# --------------------------------------------------------------------------- webhooks, metrics


def test_metrics_are_served_on_the_host(cases: Cases) -> None:
    page = checked(cases.daemons.node, "python3", "-c", PAGE)

    assert "process_start_time_seconds" in page


def test_address_of_a_profile_is_released(cases: Cases) -> None:
    (address,) = cases.addresses("leased")
    assert address.startswith("192.168.100.")
    assert address in cases.run("leased", "ip", "-4", "addr", "show", "leased")
    ip = address.partition("/")[0]
    assert ip in leases(cases)

    remove(cases, "leased")

    wait_until("the release of the address", lambda: ip not in leases(cases))


def test_parameters_of_a_webhook_are_set(cases: Cases) -> None:
    assert cases.attributes[webhook.NIC][webhook.ATTRIBUTE] == {"string": "python"}
    shown = cases.run("custom", "ip", "addr", "show", webhook.NIC)
    assert "10.200.200.200/24" in shown
    assert "mtu 1450" in shown

    remove(cases, "custom")


# --------------------------------------------------------------------------- life of the driver


def test_pod_applied_again_has_its_address(cases: Cases) -> None:
    assert "169.254.16.14/32" in cases.run("reapply", "ip", "addr", "show", "reapply")
    first = cases.pod("reapply")["metadata"]["uid"]
    running = len(cases.listed())

    remove(cases, "reapply")
    template, deployment = dranet_nics.templated("reapply", dranet_nics.claim_of("nic", "reapply"))
    cases.pods.apply(documents.manifest(template, deployment))
    wait_until("another pod", lambda: len(cases.listed()) == running)
    cases.wait_running(running)

    assert cases.pod("reapply")["metadata"]["uid"] != first
    assert "169.254.16.14/32" in cases.run("reapply", "ip", "addr", "show", "reapply")
    assert cases.addresses("reapply") == ["169.254.16.14/32"]


@dataclass(frozen=True)
class Absence:
    """Observations while the driver was not on the node.

    Attributes:
        sockets: those of the driver before its removal, without it, and after its return.
        recorded: whether a pod that was deleted without the driver had a record.
        uid: of the claim of that pod.
    """

    sockets: tuple[list[str], list[str], list[str]]
    recorded: bool
    uid: str


@pytest.fixture(scope="module")
def absence(cases: Cases) -> Absence:
    """Remove the driver from the node, delete a pod by force, and return the driver."""
    cluster, daemons = cases.cluster, cases.daemons
    claim = cases.pods.claim("arp")
    assert claim is not None
    uid = claim["metadata"]["uid"]
    node = f"node/{daemons.node.name}"
    before = sockets(daemons)

    cluster.kubectl("label", node, f"{LABEL}=true")
    set_affinity(cluster, ELSEWHERE)
    daemons.wait_gone()
    removed = sockets(daemons)
    cases.pods.delete("arp", grace_s=0)
    recorded = uid in records(daemons)
    set_affinity(cluster, None)
    cluster.kubectl("label", node, f"{LABEL}-")
    daemons.wait_ready()
    return Absence((before, removed, sockets(daemons)), recorded, uid)


def test_sockets_are_removed_on_shutdown(absence: Absence) -> None:
    assert absence.sockets == ([*SOCKETS], [], [*SOCKETS])


def test_claim_is_unprepared_after_restart(cases: Cases, absence: Absence) -> None:
    assert absence.recorded

    wait_until("the removal of its record", lambda: absence.uid not in records(cases.daemons))


@pytest.mark.usefixtures("absence")
def test_attributes_in_a_pod_are_kept(cases: Cases) -> None:
    assert not cases.daemons.is_on_node("static")

    assert published(cases.daemons, {"static"})["static"] == cases.attributes["static"]
