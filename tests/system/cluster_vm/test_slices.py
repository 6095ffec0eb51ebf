"""The slices show the machine's NICs as the machine itself does."""

from tests.system.cluster_vm.machine import Machine

NUMA = "resource.kubernetes.io/numaNode"


def test_each_function_is_shown_as_it_is(installed: Machine) -> None:
    shown = installed.published()

    assert shown == installed.functions
    nodes = [facts[NUMA] for facts in shown.values() if facts["dra.net/isSriovVf"]]
    assert sorted(map(str, nodes)) == ["0"] * 4 + ["1"] * 4


def test_there_is_no_uplink_among_them(installed: Machine) -> None:
    route = installed.node.run("ip", "-o", "route", "show", "default").stdout.split()
    uplink = route[route.index("dev") + 1]

    interfaces = {facts["dra.net/ifName"] for facts in installed.devices().values()}

    assert uplink not in interfaces
    assert len(interfaces) == 16
