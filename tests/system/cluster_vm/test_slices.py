"""The slices show the machine's NICs as the machine itself does."""

from tests.system.cluster_vm.machine import Machine

NUMA = "resource.kubernetes.io/numaNode"


def test_slice_has_the_facts_of_each_function(installed: Machine) -> None:
    shown = installed.published()

    assert shown == installed.functions
    nodes = [facts[NUMA] for facts in shown.values() if facts["dra.net/isSriovVf"]]
    assert sorted(map(str, nodes)) == ["0"] * 4 + ["1"] * 4


def test_uplink_is_not_published(installed: Machine) -> None:
    route = installed.node.run("ip", "-o", "route", "show", "default").stdout.split()
    uplink = route[route.index("dev") + 1]

    interfaces = {facts["dra.net/ifName"] for facts in installed.devices().values()}

    assert uplink not in interfaces
    assert len(interfaces) == 16
