"""Plans for children: links created for a pod on a device that stays on the host."""

from dataclasses import replace

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    Address,
    ChildConfig,
    ChildFlag,
    InterfaceConfig,
    IpoibConfig,
    IpoibMode,
    IpvlanConfig,
    IpvlanMode,
    Link,
    LinkState,
    MacvlanConfig,
    NetworkConfig,
    Ns,
    Observed,
    Route,
    RouteConfig,
    RuleConfig,
    VlanConfig,
    VlanProtocol,
    VrfConfig,
)
from dranet_nri.plan.child import (
    ALIAS,
    Child,
    alias_of,
    generated_name,
    is_any_child,
    is_any_child_on_host,
    is_child,
    why_incompatible,
)
from dranet_nri.plan.ops import AddAddress, AddChild, DelLink, LinkSettings, MoveLink, SetUp
from dranet_nri.plan.planner import AttachTarget, is_incomplete, is_restored, is_usable, make_plan
from dranet_nri.plan.pod_network import PodNetwork, child_network
from dranet_nri.plan.restore import RestoreTarget
from dranet_nri.plan.settings.rate import LimitRate

PARENT = Link(5, "ib0", kind="ipoib", arphrd=32, up=True)
CHILD = Child(alias_of("uid-1", "pci-0000-8a-00-0"), PARENT, IpoibConfig(0x8001))
NET = PodNetwork("net1", addresses=(Address("192.168.0.5/24"),))
GONE = RestoreTarget(None, child=True)


def made(name: str, alias: str = CHILD.alias) -> LinkState:
    return LinkState(Link(9, name, kind="ipoib", arphrd=32, alias=alias))


def test_child_is_created_on_the_host_as_the_only_operation() -> None:
    ops = make_plan(AttachTarget(NET, child=CHILD), Observed())

    name = generated_name(CHILD.alias)
    assert ops == (AddChild(Ns.HOST, 5, name, CHILD.alias, CHILD.link),)
    assert is_incomplete(None, ops)
    assert str(ops[0]) == f"add IPoIB child {name} of link 5 pkey 0x8001 mode datagram in host"


def test_bandwidth_limit_is_set_before_the_child_is_up() -> None:
    limited = replace(NET, rate=10**9)
    limit = LimitRate(Ns.POD, "net1", 10**9)

    moved = make_plan(
        AttachTarget(limited, child=CHILD), Observed(host=made(generated_name(CHILD.alias)))
    )
    named = make_plan(AttachTarget(limited, child=CHILD), Observed(pod=made("net1")))

    assert moved[:2] == (MoveLink(Ns.HOST, 9, Ns.POD, "net1"), limit)
    assert named[0] == limit
    assert isinstance(moved[-1], SetUp)
    assert isinstance(named[-1], SetUp)
    assert str(limit) == "limit link net1 to 1000000000 bit/s in pod"


@pytest.mark.parametrize(("rate", "planned"), [(10**9, False), (10**8, True), (0, True)])
def test_bandwidth_limit_is_set_again_only_if_it_differs(rate: int, *, planned: bool) -> None:
    observed = Observed(pod=made("net1"), pod_rate=rate)

    ops = make_plan(AttachTarget(replace(NET, rate=10**9), child=CHILD), observed)

    assert (LimitRate(Ns.POD, "net1", 10**9) in ops) is planned


def test_ipoib_child_without_a_pkey_uses_that_of_its_parent() -> None:
    (op,) = make_plan(
        AttachTarget(NET, child=Child(CHILD.alias, PARENT, IpoibConfig(mode=IpoibMode.CONNECTED))),
        Observed(),
    )

    assert str(op).endswith("of link 5 mode connected in host")


def test_created_child_is_moved_to_the_pod_and_configured() -> None:
    ops = make_plan(
        AttachTarget(NET, child=CHILD), Observed(host=made(generated_name(CHILD.alias)))
    )

    assert ops == (
        MoveLink(Ns.HOST, 9, Ns.POD, "net1"),
        AddAddress(Ns.POD, "net1", Address("192.168.0.5/24")),
        SetUp(Ns.POD, "net1"),
    )
    assert not is_incomplete(None, ops)


def test_child_in_the_pod_is_only_configured() -> None:
    ops = make_plan(AttachTarget(NET, child=CHILD), Observed(pod=made("net1")))

    assert [type(op) for op in ops] == [AddAddress, SetUp]


def test_name_taken_in_the_pod_is_refused_before_the_creation() -> None:
    observed = Observed(taken_pod_names=frozenset({"net1"}))

    with pytest.raises(RefusedError, match=r"interface\.name 'net1' is taken in the pod"):
        make_plan(AttachTarget(NET, child=CHILD), observed)


@pytest.mark.parametrize(
    ("observed", "ops"),
    [
        pytest.param(Observed(pod=made("net1")), (DelLink(Ns.POD, 9),), id="in the pod"),
        pytest.param(Observed(host=made("dev9")), (DelLink(Ns.HOST, 9),), id="on the host"),
        pytest.param(Observed(), (), id="nowhere"),
    ],
)
def test_child_is_restored_when_it_is_deleted(observed: Observed, ops: tuple[DelLink, ...]) -> None:
    assert make_plan(GONE, observed) == ops
    assert is_restored(GONE, observed) is not bool(ops)
    assert is_usable(GONE, observed) is not bool(ops)


@pytest.mark.parametrize(
    ("link", "own"),
    [
        pytest.param(Link(9, "net1", alias=CHILD.alias), True, id="its alias, any name"),
        pytest.param(Link(9, generated_name(CHILD.alias)), True, id="no alias yet, its first name"),
        pytest.param(Link(9, "net1"), False, id="no alias, another name"),
        pytest.param(
            Link(9, generated_name(CHILD.alias), alias="somebody's"), False, id="a foreign alias"
        ),
    ],
)
def test_child_is_identified_by_its_alias(link: Link, own: bool) -> None:  # noqa: FBT001
    assert is_child(link, CHILD.alias) is own


def test_delete_operation_is_printed() -> None:
    assert str(DelLink(Ns.POD, 9)) == "delete link 9 in pod"


def test_first_name_of_a_child_is_a_valid_interface_name() -> None:
    alias = alias_of("6f1c0a52-3a57-4a0e-9a6b-0f7d3c1e2b4a", "pci-0000-8a-00-0")

    assert alias.startswith(ALIAS)
    assert len(generated_name(alias)) == 14
    assert generated_name(alias) != generated_name(CHILD.alias)


def test_shares_of_a_device_have_different_aliases() -> None:
    share = "b1c7a0de-31f2-4c55-8f0e-2f6a9d7c4e10"

    assert alias_of("uid-1", "nic") == "dra.net/uid-1/nic"
    assert alias_of("uid-1", "nic", share) == f"dra.net/uid-1/nic/{share}"


NIC = Link(4, "eth1", mtu=1500, up=True)
SERVICE = VlanConfig(7, VlanProtocol.SERVICE)


@pytest.mark.parametrize(
    ("link", "text"),
    [
        (IpvlanConfig(), "IPVLAN child NAME of link 4 mode L2 Bridge"),
        (MacvlanConfig(ChildFlag.VEPA), "MACVLAN child NAME of link 4 mode VEPA"),
        (SERVICE, "VLAN child NAME of link 4 id 7 protocol 802.1ad"),
    ],
    ids=["IPVLAN", "MACVLAN", "VLAN"],
)
def test_other_children_are_created_in_the_pod(link: ChildConfig, text: str) -> None:
    child = Child(CHILD.alias, NIC, link)

    (op,) = make_plan(AttachTarget(NET, child=child), Observed())

    assert op == AddChild(Ns.POD, 4, generated_name(CHILD.alias), CHILD.alias, link)
    assert str(op) == f"add {text.replace('NAME', generated_name(CHILD.alias))} in pod"


def test_parent_that_is_down_is_set_up_first() -> None:
    child = Child(CHILD.alias, Link(4, "eth1", mtu=1500), IpvlanConfig())

    first, second = make_plan(AttachTarget(NET, child=child), Observed())

    assert (first, type(second)) == (SetUp(Ns.HOST, "eth1"), AddChild)


@pytest.mark.parametrize(("mtu", "fits"), [(1500, True), (1501, False)])
def test_child_mtu_above_that_of_the_parent_is_refused(mtu: int, fits: bool) -> None:  # noqa: FBT001
    desired = AttachTarget(
        PodNetwork("net1", LinkSettings(mtu=mtu)), child=Child(CHILD.alias, NIC, MacvlanConfig())
    )
    if fits:
        assert len(make_plan(desired, Observed())) == 1
        return
    with pytest.raises(RefusedError, match=r"1501 is above that of eth1, the parent .* has 1500"):
        make_plan(desired, Observed())


@pytest.mark.parametrize(
    ("desired", "other", "reason"),
    [
        pytest.param(IpvlanConfig(), IpvlanConfig(), "", id="the same IPVLAN"),
        pytest.param(
            IpvlanConfig(),
            IpvlanConfig(IpvlanMode.L3),
            "its IPVLAN children have mode L3 Bridge; use the same in interface.ipvlan",
            id="another mode",
        ),
        pytest.param(
            MacvlanConfig(),
            IpvlanConfig(),
            "it has a child of type IPVLAN; use the same in interface.type",
            id="MACVLAN beside IPVLAN",
        ),
        pytest.param(
            IpvlanConfig(),
            MacvlanConfig(),
            "it has a child of type MACVLAN; use the same in interface.type",
            id="IPVLAN beside MACVLAN",
        ),
        pytest.param(
            SERVICE,
            SERVICE,
            "another pod has its VLAN 7; use another interface.vlan.id",
            id="one VLAN",
        ),
        pytest.param(SERVICE, VlanConfig(7), "", id="another tag"),
        pytest.param(VlanConfig(7), IpvlanConfig(), "", id="VLAN beside IPVLAN"),
        pytest.param(MacvlanConfig(), MacvlanConfig(ChildFlag.VEPA), "", id="MACVLAN modes"),
    ],
)
def test_incompatible_children_of_one_parent_are_reported(
    desired: ChildConfig, other: ChildConfig, reason: str
) -> None:
    assert why_incompatible(desired, other) == reason


def test_child_inherits_only_name_and_mtu_of_its_parent() -> None:
    parent = LinkState(
        NIC, addresses=(Address("10.5.0.7/24"),), routes=(Route("0.0.0.0/0", "10.5.0.1"),)
    )
    config = NetworkConfig(InterfaceConfig(addresses=("10.5.0.20/24",)))

    network = child_network(config, IpvlanConfig(), parent)

    assert (network.name, network.addresses) == ("eth1", (Address("10.5.0.20/24"),))
    assert [route.gateway for route in network.routes] == ["", "10.5.0.1"]
    assert len(network.rules) == 1
    l3 = child_network(config, IpvlanConfig(IpvlanMode.L3S), parent)
    assert [route.gateway for route in l3.routes] == ["", ""]


@pytest.mark.parametrize(
    "config",
    [
        NetworkConfig(routes=(RouteConfig("10.9.0.0/16", scope=253),)),
        NetworkConfig(rules=(RuleConfig(700, source="10.5.0.0/24", table=77),)),
    ],
    ids=["routes", "rules"],
)
def test_claimed_routing_replaces_generated_routing(config: NetworkConfig) -> None:
    interface = InterfaceConfig(addresses=("10.5.0.20/24",))
    config = NetworkConfig(interface, config.routes, config.rules)

    network = child_network(config, MacvlanConfig(), LinkState(NIC))

    assert (len(network.routes), len(network.rules)) == (len(config.routes), len(config.rules))


@pytest.mark.parametrize(
    ("link", "in_pod", "on_host"),
    [
        (Link(9, "net1", kind="ipvlan", alias=CHILD.alias), True, False),
        (Link(9, "net1", kind="ipoib", alias=CHILD.alias, lower=5), True, True),
        (Link(9, "net1", alias=CHILD.alias), False, False),
    ],
    ids=["in a pod", "on the host", "a port"],
)
def test_links_created_by_the_plugin_are_recognized(
    link: Link, *, in_pod: bool, on_host: bool
) -> None:
    assert (is_any_child(link), is_any_child_on_host(link)) == (in_pod, on_host)


def test_child_in_a_vrf_has_its_default_route_there_and_no_rules() -> None:
    parent = LinkState(NIC, routes=(Route("0.0.0.0/0", "10.5.0.1"),))
    vrf = VrfConfig("blue", 1541)
    config = NetworkConfig(InterfaceConfig(addresses=("10.5.0.20/24",), vrf=vrf))

    network = child_network(config, MacvlanConfig(), parent)

    assert [(route.destination, route.table) for route in network.routes] == [("0.0.0.0/0", 1541)]
    assert (network.rules, network.vrf) == ((), vrf)
