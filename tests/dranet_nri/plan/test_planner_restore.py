"""Restore plans of one device, from literals."""

from dataclasses import replace
from errno import EBUSY, EINVAL, ENOENT, EPERM

import pytest

from dranet_nri.errors import KernelError, RefusedError
from dranet_nri.model import (
    Address,
    LinkState,
    Neighbour,
    Ns,
    Observed,
    Route,
    Sysctl,
    TcxProgram,
    TcxSide,
    XdpMode,
    XdpProgram,
)
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    AddNeighbour,
    AddRoute,
    AddRule,
    DelAltname,
    LinkSettings,
    MoveLink,
    Op,
    RenameLink,
    SetDown,
    SetLink,
    SetMaster,
    SetSysctl,
    SetUp,
)
from dranet_nri.plan.planner import is_restored, make_plan
from dranet_nri.plan.restore import RestoreTarget, is_permanent
from dranet_nri.plan.settings.programs import AttachTcx, DetachTcx, DetachXdp
from tests.dranet_nri.plan.examples import FULL, HOST_NAMES, NIC, PLAIN, away, kinds, on_host

NODAD = 0x02  # IFA_F_NODAD, linux/if_addr.h
KERNEL_LL = 3  # IFAPROT_KERNEL_LL
# --------------------------------------------------------------------------- restore


def test_restore_operations_have_a_fixed_order() -> None:
    snapshot = replace(FULL, master_name="br0")
    left = LinkState(replace(NIC, index=9, name="net1", mtu=9000, alias="pod", altnames=()))

    ops = make_plan(RestoreTarget(snapshot), away(left, on_host=HOST_NAMES | {"br0"}))

    assert ops[:3] == (
        SetDown(Ns.POD, 9),
        RenameLink(Ns.POD, 9, "eth1"),
        MoveLink(Ns.POD, 9, Ns.HOST, "eth1"),
    )
    assert ops[3:] == (
        SetLink(Ns.HOST, "eth1", LinkSettings(alias="")),
        SetLink(Ns.HOST, "eth1", LinkSettings(mtu=1500)),
        AddAltname(Ns.HOST, "eth1", "enp138s0"),
        SetMaster(Ns.HOST, "eth1", "br0"),
        SetSysctl(Ns.HOST, "eth1", Sysctl("ipv4", "rp_filter", "2")),
        AddAddress(Ns.HOST, "eth1", Address("10.1.0.5/24")),
        AddAddress(Ns.HOST, "eth1", Address("2001:db8::5/64")),
        SetUp(Ns.HOST, "eth1"),
        *(AddRoute(Ns.HOST, "eth1", route) for route in FULL.routes),
        *(AddRule(Ns.HOST, rule) for rule in FULL.rules),
        AddNeighbour(Ns.HOST, "eth1", FULL.neighbours[0]),
    )


INVALID = KernelError("set", EINVAL)
ADDR_GEN_MODE = SetSysctl(Ns.HOST, "eth1", Sysctl("ipv6", "addr_gen_mode", "2"))


@pytest.mark.parametrize(
    ("failed", "vain"),
    [
        pytest.param([], False, id="nothing"),
        pytest.param([(ADDR_GEN_MODE, INVALID)], True, id="a value that is none"),
        pytest.param([(ADDR_GEN_MODE, KernelError("set", EBUSY))], False, id="a busy kernel"),
        pytest.param([(SetUp(Ns.HOST, "eth1"), INVALID)], False, id="another operation"),
        pytest.param(
            [(ADDR_GEN_MODE, INVALID), (SetUp(Ns.HOST, "eth1"), INVALID)], False, id="one of two"
        ),
    ],
)
def test_rejected_sysctl_value_is_permanent(
    failed: list[tuple[Op, KernelError]], *, vain: bool
) -> None:
    assert is_permanent(failed) is vain


NATIVE, GENERIC = XdpProgram(XdpMode.NATIVE, 7), XdpProgram(XdpMode.GENERIC, 8)


def test_link_settings_changed_by_the_pod_are_reset() -> None:
    own = replace(NIC, flags=0x1000, group=7, kept="05", xdp=(NATIVE,))
    snapshot = replace(PLAIN, link=own)
    left = replace(
        own,
        flags=0x100,
        group=9,
        kept="06",
        xdp=(NATIVE, GENERIC),
        mtu=9000,
        altnames=("enp138s0", "mine"),
    )

    ops = make_plan(RestoreTarget(snapshot), away(LinkState(left)))

    assert ops[:8] == (
        DelAltname(Ns.POD, 7, "mine"),
        SetDown(Ns.POD, 7),
        DetachXdp(Ns.POD, 7, XdpMode.GENERIC),  # it may be what forbids a larger MTU
        SetLink(Ns.POD, "eth1", LinkSettings(flags=0x1000)),
        MoveLink(Ns.POD, 7, Ns.HOST, "eth1"),
        SetLink(Ns.HOST, "eth1", LinkSettings(group=7)),
        SetLink(Ns.HOST, "eth1", LinkSettings(kept="05")),
        SetLink(Ns.HOST, "eth1", LinkSettings(mtu=1500)),
    )
    assert kinds(ops[8:]) == [AddAddress, SetUp]


def test_flags_are_set_under_the_name_in_the_pod() -> None:
    own = replace(NIC, flags=0x1000, altnames=(), up=False)
    left = replace(own, flags=0x100, name="net1")

    ops = make_plan(RestoreTarget(replace(PLAIN, link=own)), away(LinkState(left)))

    assert ops[:3] == (
        SetLink(Ns.POD, "net1", LinkSettings(flags=0x1000)),
        RenameLink(Ns.POD, 7, "eth1"),  # the rest of the plan does not need it
        MoveLink(Ns.POD, 7, Ns.HOST, "eth1"),
    )


def test_restore_on_the_host_removes_programs_and_keeps_altnames() -> None:
    own = replace(NIC, xdp=(NATIVE,))
    left = replace(own, xdp=(replace(NATIVE, id=9), GENERIC), altnames=("enp138s0", "udev"))
    before = replace(PLAIN, link=own)

    ops = make_plan(RestoreTarget(before), on_host(replace(PLAIN, link=left)))

    assert ops == (
        DetachXdp(Ns.HOST, 7, XdpMode.NATIVE),
        DetachXdp(Ns.HOST, 7, XdpMode.GENERIC),
    )
    assert not is_restored(RestoreTarget(before), on_host(replace(PLAIN, link=left)))


OWN, STRANGE = TcxProgram(TcxSide.INGRESS, 7), TcxProgram(TcxSide.EGRESS, 8)


def test_removed_tcx_program_is_attached_again_except_for_one_of_a_bpf_link() -> None:
    before = replace(PLAIN, tcx=(OWN, replace(STRANGE, link=3)))

    ops_from_pod = make_plan(RestoreTarget(before), away(LinkState(NIC)))
    ops_on_host = make_plan(RestoreTarget(before), on_host(replace(PLAIN, tcx=())))

    assert [op for op in ops_from_pod if isinstance(op, AttachTcx)] == [
        AttachTcx(Ns.HOST, "eth1", OWN)
    ]
    assert ops_on_host == (AttachTcx(Ns.HOST, "eth1", OWN),)


def test_program_that_is_no_longer_loaded_is_a_permanent_failure() -> None:
    op = AttachTcx(Ns.HOST, "eth1", OWN)

    assert is_permanent([(op, KernelError(str(op), ENOENT))])
    assert not is_permanent([(op, KernelError(str(op), EPERM))])


def test_tcx_programs_of_the_pod_are_removed_before_the_link_is_up() -> None:
    ops = make_plan(RestoreTarget(replace(PLAIN, tcx=(OWN,))), away(LinkState(NIC)))

    at = ops.index(DetachTcx(Ns.HOST, "eth1", (OWN,)))
    assert isinstance(ops[at - 1], MoveLink)
    assert SetUp not in kinds(ops[:at])
    assert kinds(ops).count(DetachTcx) == 1


@pytest.mark.parametrize(
    ("now", "ops"),
    [
        ((OWN, STRANGE), (DetachTcx(Ns.HOST, "eth1", (OWN,)),)),
        ((OWN,), ()),
        ((OWN, replace(STRANGE, link=3)), ()),
        ((), (AttachTcx(Ns.HOST, "eth1", OWN),)),
        (None, ()),
    ],
)
def test_tcx_programs_are_reset_to_those_of_the_host(
    now: tuple[TcxProgram, ...] | None, ops: tuple[Op, ...]
) -> None:
    assert (
        make_plan(RestoreTarget(replace(PLAIN, tcx=(OWN,))), on_host(replace(PLAIN, tcx=now)))
        == ops
    )
    assert make_plan(RestoreTarget(PLAIN), on_host(replace(PLAIN, tcx=now))) == ()


def test_record_without_programs_flags_and_group_resets_none() -> None:
    left = replace(NIC, flags=0x100, group=9, xdp=(NATIVE,))

    assert make_plan(RestoreTarget(PLAIN), on_host(replace(PLAIN, link=left))) == ()


def test_other_link_with_the_name_of_a_virtual_device_is_refused() -> None:
    virtual = replace(NIC, bus="", parent="", altnames=())
    inside = LinkState(replace(virtual, index=9, name="net1"))
    other = LinkState(replace(virtual, index=12))

    with pytest.raises(RefusedError, match="another link on the host has its name"):
        make_plan(RestoreTarget(LinkState(virtual)), Observed(host=other, pod=inside))


def test_virtual_device_with_a_taken_name_is_restored_under_a_temporary_one() -> None:
    virtual = replace(NIC, bus="", parent="", altnames=())
    left = LinkState(replace(virtual, index=9, name="net1", up=False))

    ops = make_plan(RestoreTarget(LinkState(virtual)), replace(away(left), taken_host_names=TAKEN))

    assert ops[0] == MoveLink(Ns.POD, 9, Ns.HOST, "dra9")
    waiting = LinkState(replace(virtual, index=9, name="dra9"))
    assert RenameLink(Ns.HOST, 9, "eth1") in make_plan(
        RestoreTarget(LinkState(virtual)), on_host(waiting)
    )


TAKEN = frozenset({"eth1"})


def test_virtual_device_is_renamed_by_the_move() -> None:
    virtual = replace(NIC, bus="", parent="", altnames=())
    left = LinkState(replace(virtual, index=9, name="net1", up=False))

    ops = make_plan(RestoreTarget(LinkState(virtual)), away(left))

    assert ops[0] == MoveLink(Ns.POD, 9, Ns.HOST, "eth1")


def test_device_that_was_down_stays_down_and_gets_no_routes() -> None:
    snapshot = replace(FULL, link=replace(NIC, up=False))

    ops = make_plan(RestoreTarget(snapshot), away(LinkState(replace(NIC, name="net1", up=False))))

    assert ops[0] == RenameLink(Ns.POD, 7, "eth1")
    assert not {SetUp, AddRoute, SetDown} & set(kinds(ops))
    assert AddAddress in kinds(ops)


def test_device_that_kept_its_name_is_not_renamed() -> None:
    assert make_plan(RestoreTarget(PLAIN), away(PLAIN)) == (
        SetDown(Ns.POD, 7),
        MoveLink(Ns.POD, 7, Ns.HOST, "eth1"),
        AddAddress(Ns.HOST, "eth1", Address("10.1.0.5/24")),
        SetUp(Ns.HOST, "eth1"),
    )


def test_name_of_another_link_in_the_pod_is_set_by_the_move() -> None:
    ops = make_plan(
        RestoreTarget(PLAIN), away(LinkState(replace(NIC, name="net1")), in_pod=("lo", "eth1"))
    )

    assert ops[:2] == (SetDown(Ns.POD, 7), MoveLink(Ns.POD, 7, Ns.HOST, "eth1"))


@pytest.mark.parametrize(
    ("taken", "pod_name", "name"),
    [
        pytest.param({"eth1"}, "net1", "dra7", id="after the index"),
        pytest.param({"eth1", "dra7"}, "net1", "dra70", id="the next free one"),
        pytest.param({"eth1", "dra7"}, "dra7", "dra7", id="the one it has already"),
        pytest.param({"eth1", "dra7"}, "dra70", "dra70", id="stable while it is away"),
        pytest.param({"eth1"}, "dra4", "dra4", id="of the index that it had before"),
        pytest.param({"eth1", "dra4"}, "dra4", "dra7", id="one that is the host's"),
    ],
)
def test_name_taken_on_the_host_is_replaced_by_a_temporary_one(
    taken: set[str], pod_name: str, name: str
) -> None:
    # "dra7" may be taken by this very link: a half-failed rename is observed as such.
    names = frozenset(HOST_NAMES | taken) - ({"dra7"} if pod_name == "dra7" else set())

    ops = make_plan(
        RestoreTarget(PLAIN), away(LinkState(replace(NIC, name=pod_name)), on_host=names)
    )

    assert MoveLink(Ns.POD, 7, Ns.HOST, name) in ops
    assert AddAddress(Ns.HOST, name, Address("10.1.0.5/24")) in ops
    assert (RenameLink(Ns.POD, 7, name) in ops) == (pod_name != name)


def test_host_without_a_free_temporary_name_is_reported() -> None:
    taken = HOST_NAMES | {"eth1", "dra7"} | {f"dra7{number}" for number in range(10)}

    with pytest.raises(RefusedError, match="no free name on the host for device eth1"):
        make_plan(RestoreTarget(PLAIN), away(LinkState(replace(NIC, name="net1")), on_host=taken))


def test_device_with_a_temporary_name_is_not_restored() -> None:
    desired = RestoreTarget(PLAIN)
    now = replace(PLAIN, link=replace(NIC, name="dra7"))

    assert make_plan(desired, on_host(now, "eth1")) == ()
    assert not is_restored(desired, on_host(now, "eth1"))
    assert is_restored(desired, on_host(PLAIN))


def test_device_with_a_taken_name_gets_a_temporary_one() -> None:
    desired = RestoreTarget(PLAIN)
    now = replace(PLAIN, link=replace(NIC, name="eth2"))

    ops = make_plan(desired, on_host(now, "eth1"))

    assert ops[:2] == (SetDown(Ns.HOST, 7), RenameLink(Ns.HOST, 7, "dra7"))
    assert SetUp(Ns.HOST, "dra7") in ops
    assert make_plan(desired, on_host(now)) != ops, "its own is free"


def test_route_that_depended_on_an_expired_address_is_not_restored() -> None:
    leased = Address("10.1.0.5/24", valid_s=100)
    through, direct = Route("10.9.0.0/16", gateway="10.1.0.1"), Route("10.8.0.0/16", scope=253)
    independent = Route("10.7.0.0/16", gateway="192.0.2.1")  # independent of our addresses
    snapshot = LinkState(NIC, addresses=(leased,), routes=(through, direct, independent))
    initial = LinkState(NIC)

    early = make_plan(RestoreTarget(snapshot, 99), on_host(initial))
    late = make_plan(RestoreTarget(snapshot, 100), on_host(initial))

    assert {op.route for op in early if isinstance(op, AddRoute)} == {through, direct, independent}
    assert {op.route for op in late if isinstance(op, AddRoute)} == {direct, independent}


def test_own_name_is_restored_as_soon_as_it_is_free() -> None:
    link = replace(NIC, name="dra7", altnames=("enp138s0", "eth1"))
    appeared = replace(
        FULL,
        link=link,
        addresses=(*FULL.addresses, Address("2001:db8::99/64"), Address("10.1.0.99/24")),
        routes=(*FULL.routes, Route("10.77.0.0/16", scope=253)),
        neighbours=(*FULL.neighbours, Neighbour("10.1.0.9", "02:00:00:00:00:0a")),
    )

    ops = make_plan(RestoreTarget(FULL), on_host(appeared))

    assert ops == (
        DelAltname(Ns.HOST, 7, "eth1"),
        SetDown(Ns.HOST, 7),
        RenameLink(Ns.HOST, 7, "eth1"),
        AddAddress(Ns.HOST, "eth1", Address("2001:db8::5/64")),
        AddAddress(Ns.HOST, "eth1", Address("2001:db8::99/64")),
        SetUp(Ns.HOST, "eth1"),
        AddRoute(Ns.HOST, "eth1", Route("10.77.0.0/16", scope=253)),
        *(AddRoute(Ns.HOST, "eth1", route) for route in FULL.routes),
        AddNeighbour(Ns.HOST, "eth1", FULL.neighbours[0]),
        AddNeighbour(Ns.HOST, "eth1", Neighbour("10.1.0.9", "02:00:00:00:00:0a")),
    )


def test_device_returned_by_the_kernel_without_configuration_is_restored() -> None:
    returned = LinkState(
        replace(NIC, index=3, name="dev7", up=False, mac="02:00:00:00:00:99", altnames=())
    )

    ops = make_plan(RestoreTarget(PLAIN), on_host(returned))

    assert ops == (
        RenameLink(Ns.HOST, 3, "eth1"),
        SetLink(Ns.HOST, "eth1", LinkSettings(mac="02:00:00:00:00:07")),
        AddAltname(Ns.HOST, "eth1", "enp138s0"),
        AddAddress(Ns.HOST, "eth1", Address("10.1.0.5/24")),
        SetUp(Ns.HOST, "eth1"),
    )


@pytest.mark.parametrize(
    ("pod_altnames", "dropped", "given_back"),
    [
        pytest.param(("enp138s0",), [], [], id="its own travels"),
        pytest.param((), [], ["enp138s0"], id="one that was dropped comes back"),
        pytest.param(("enp138s0", "eth0"), ["eth0"], [], id="taken on the host"),
        pytest.param(("enp138s0", "eth1"), ["eth1"], [], id="the name it shall have"),
        pytest.param(("enp138s0", "mine"), ["mine"], [], id="the pod's own"),
    ],
)
def test_altnames_that_the_host_must_not_get_are_removed_in_the_pod(
    pod_altnames: tuple[str, ...], dropped: list[str], given_back: list[str]
) -> None:
    now = LinkState(replace(NIC, name="net1", altnames=pod_altnames))

    ops = make_plan(RestoreTarget(PLAIN), away(now))

    assert [op.altname for op in ops if isinstance(op, DelAltname)] == dropped
    assert [op.altname for op in ops if isinstance(op, AddAltname)] == given_back
    assert kinds(ops)[0] is (DelAltname if dropped else SetDown)


def test_claimed_altname_on_a_device_returned_by_the_kernel_is_removed() -> None:
    returned = replace(PLAIN, link=replace(NIC, altnames=("enp138s0", "rail-0", "udev")))
    desired = RestoreTarget(PLAIN, altnames=("enp138s0", "rail-0"))

    assert make_plan(desired, on_host(returned)) == (DelAltname(Ns.HOST, NIC.index, "rail-0"),)


def test_altname_taken_by_another_link_is_not_restored() -> None:
    now = replace(PLAIN, link=replace(NIC, altnames=()))

    assert make_plan(RestoreTarget(PLAIN), on_host(now, "enp138s0")) == ()
