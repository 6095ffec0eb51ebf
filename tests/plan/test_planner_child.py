"""The planner: links that are made for a pod on a device that stays on the host."""

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import Address, Link, LinkState, Ns, Observed
from dranet_nri.plan.ipoib import ALIAS, Child, alias_of, first_name, is_child
from dranet_nri.plan.ops import AddAddress, AddIpoib, DelLink, MoveLink, SetUp
from dranet_nri.plan.planner import AttachTarget, is_cut, is_restored, is_usable, make_plan
from dranet_nri.plan.pod_network import PodNetwork
from dranet_nri.plan.restore import RestoreTarget

CHILD = Child(alias_of("uid-1", "pci-0000-8a-00-0"), 5, 0x8001)
NET = PodNetwork("net1", addresses=(Address("192.168.0.5/24"),))
GONE = RestoreTarget(None, child=True)


def made(name: str, alias: str = CHILD.alias) -> LinkState:
    return LinkState(Link(9, name, kind="ipoib", arphrd=32, alias=alias))


def test_the_link_is_made_on_the_host_first_and_nothing_else_is_planned() -> None:
    ops = make_plan(AttachTarget(NET, child=CHILD), Observed())

    name = first_name(CHILD.alias)
    assert ops == (AddIpoib(5, name, CHILD.alias, 0x8001),)
    assert is_cut(None, ops)
    assert str(ops[0]) == f"add IPoIB child {name} of link 5 pkey 0x8001 mode datagram in host"


def test_without_a_key_it_takes_its_parents() -> None:
    (op,) = make_plan(AttachTarget(NET, child=Child(CHILD.alias, 5, connected=True)), Observed())

    assert str(op).endswith("of link 5 mode connected in host")


def test_what_is_made_moves_into_the_pod_and_is_configured() -> None:
    ops = make_plan(AttachTarget(NET, child=CHILD), Observed(host=made(first_name(CHILD.alias))))

    assert ops == (
        MoveLink(Ns.HOST, 9, Ns.POD, "net1"),
        AddAddress(Ns.POD, "net1", Address("192.168.0.5/24")),
        SetUp(Ns.POD, "net1"),
    )
    assert not is_cut(None, ops)


def test_what_is_in_the_pod_is_only_configured() -> None:
    ops = make_plan(AttachTarget(NET, child=CHILD), Observed(pod=made("net1")))

    assert [type(op) for op in ops] == [AddAddress, SetUp]


def test_a_name_that_is_taken_in_the_pod_is_refused_before_anything_is_made() -> None:
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
def test_it_is_home_when_it_is_nowhere(observed: Observed, ops: tuple[DelLink, ...]) -> None:
    assert make_plan(GONE, observed) == ops
    assert is_restored(GONE, observed) is not bool(ops)
    assert is_usable(GONE, observed) is not bool(ops)


@pytest.mark.parametrize(
    ("link", "own"),
    [
        pytest.param(Link(9, "net1", alias=CHILD.alias), True, id="its alias, any name"),
        pytest.param(Link(9, first_name(CHILD.alias)), True, id="no alias yet, its first name"),
        pytest.param(Link(9, "net1"), False, id="no alias, another name"),
        pytest.param(
            Link(9, first_name(CHILD.alias), alias="somebody's"), False, id="a foreign alias"
        ),
    ],
)
def test_it_is_known_by_its_alias(link: Link, own: bool) -> None:  # noqa: FBT001
    assert is_child(link, CHILD.alias) is own


def test_a_deletion_says_what_it_deletes() -> None:
    assert str(DelLink(Ns.POD, 9)) == "delete link 9 in pod"


def test_its_first_name_is_one_the_kernel_takes() -> None:
    alias = alias_of("6f1c0a52-3a57-4a0e-9a6b-0f7d3c1e2b4a", "pci-0000-8a-00-0")

    assert alias.startswith(ALIAS)
    assert len(first_name(alias)) == 14
    assert first_name(alias) != first_name(CHILD.alias)


def test_shares_of_a_device_have_aliases_of_their_own() -> None:
    share = "b1c7a0de-31f2-4c55-8f0e-2f6a9d7c4e10"

    assert alias_of("uid-1", "nic") == "dra.net/uid-1/nic"
    assert alias_of("uid-1", "nic", share) == f"dra.net/uid-1/nic/{share}"
