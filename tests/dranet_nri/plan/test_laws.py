"""Laws of the planner, for any host, claim and change by the pod."""

from hypothesis import assume, given
from hypothesis import strategies as st

from dranet_nri.model import (
    Link,
    LinkState,
    NetworkConfig,
    Ns,
)
from dranet_nri.plan.ops import (
    Plan,
    SetUp,
)
from dranet_nri.plan.planner import is_restored
from tests.dranet_nri.plan.worlds import (
    ADDRESSES,
    NEIGHBOURS,
    POD_DEEDS,
    ROUTES,
    RULES,
    SYSCTLS,
    WORLDS,
    World,
    apply_changes,
    comparable,
)

# --------------------------------------------------------------------------- laws

CUTS = st.integers(0, 40)  # number of operations before a plan stops, modulo its length


def cut_short(ops: Plan, after: int) -> Plan:
    """Return a prefix of the plan: empty, whole, or anything between."""
    return ops[: after % (len(ops) + 1)]


@given(WORLDS)
def test_plan_of_an_unchanged_host_is_empty(world: World) -> None:
    assert world.plan(world.restore_target) == ()
    assert is_restored(world.restore_target, world.look())


@given(WORLDS)
def test_plan_after_an_applied_plan_is_empty(world: World) -> None:
    world.apply(world.attach_plan())

    assert world.plan(world.in_pod) == ()

    world.apply(world.plan(world.restore_target))

    assert world.plan(world.restore_target) == ()


@given(WORLDS, CUTS)
def test_host_is_restored_exactly_after_any_prefix_of_an_attach(world: World, cut: int) -> None:
    world.apply(cut_short(world.attach_plan(), cut))

    world.apply(world.plan(world.restore_target))

    world.assert_restored()


@given(WORLDS, CUTS)
def test_attach_completes_after_any_prefix_of_an_attach(world: World, cut: int) -> None:
    whole = World(world.host, world.config)
    whole.apply(whole.attach_plan())
    world.apply(cut_short(world.attach_plan(), cut))

    world.apply(world.plan(world.in_pod))

    assert world.plan(world.in_pod) == ()
    assert in_pod_state(world) == in_pod_state(whole)


@given(WORLDS, CUTS)
def test_host_is_restored_exactly_after_any_prefix_of_a_detach(world: World, cut: int) -> None:
    world.apply(world.attach_plan())
    world.apply(cut_short(world.plan(world.restore_target), cut))

    world.apply(world.plan(world.restore_target))

    world.assert_restored()


@given(WORLDS, CUTS)
def test_device_can_be_attached_again_after_any_prefix_of_a_detach(world: World, cut: int) -> None:
    world.apply(world.attach_plan())
    world.apply(cut_short(world.plan(world.restore_target), cut))

    world.apply(world.plan(world.in_pod))

    assert world.plan(world.in_pod) == ()


@given(WORLDS, CUTS)
def test_lost_namespace_after_any_prefix_of_an_attach_restores_the_device(
    world: World, cut: int
) -> None:
    world.apply(cut_short(world.attach_plan(), cut))
    world.kernel.destroy_netns(world.netns)

    world.apply(world.plan(world.restore_target))

    world.assert_restored()


@given(WORLDS, POD_DEEDS, st.booleans())
def test_device_is_restored_after_any_change_by_the_pod(
    world: World,
    changes: tuple[str, ...],
    dies: bool,  # noqa: FBT001 (Hypothesis passes it)
) -> None:
    # An altname that the kernel returns with the device could be the host's by then.
    assume(not dies or "an altname" not in changes)
    world.apply(world.attach_plan())
    apply_changes(world, changes)
    if dies:
        world.kernel.destroy_netns(world.netns)

    world.apply(world.plan(world.restore_target))

    world.assert_restored()


@given(WORLDS, POD_DEEDS)
def test_repair_configures_the_device_after_any_change_by_the_pod(
    world: World, changes: tuple[str, ...]
) -> None:
    assume("altname of its own name" not in changes or world.config.interface.name != "eth1")
    world.apply(world.attach_plan())
    apply_changes(world, changes)

    world.apply(world.plan(world.in_pod))

    assert world.plan(world.in_pod) == ()


@given(WORLDS)
def test_taken_host_name_is_restored_when_it_is_free(
    world: World,
) -> None:
    world.apply(world.attach_plan())
    world.kernel.add_link("eth1", kind="dummy")
    world.apply(world.plan(world.restore_target))
    assert not is_restored(world.restore_target, world.look())
    world.kernel.remove_link("eth1")

    world.apply(world.plan(world.restore_target))

    world.assert_restored()


def in_pod_state(world: World) -> LinkState:
    """Return the device's state in the pod."""
    state = world.look().pod
    assert state is not None
    return comparable(state)


def test_worlds_contain_the_subjects_of_the_laws() -> None:
    host = LinkState(
        Link(0, "eth1", mac="02:00:00:00:00:07", up=True, altnames=("enp138s0", "alt")),
        master_name="br0",
        addresses=ADDRESSES,
        routes=ROUTES,
        rules=RULES,
        neighbours=NEIGHBOURS,
        sysctls=SYSCTLS,
    )

    world = World(host, NetworkConfig())

    assert len(world.snapshot.routes) == len(ROUTES)
    assert world.snapshot.addresses == ADDRESSES
    assert world.snapshot.master_name == "br0"
    assert SetUp(Ns.POD, "eth1") in world.attach_plan()
