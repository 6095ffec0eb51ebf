"""Settings that a device keeps on its way into a pod and back: both kernels."""

from dataclasses import replace
from errno import EINVAL

import pytest

from dranet_nri.model import Ns, Route, Sysctl, XdpMode
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import AddRoute, LinkSettings, SetLink, SetSysctl
from dranet_nri.plan.settings.programs import DetachXdp
from tests.system.contract.cases import (
    ALLMULTI,
    NOARP,
    UP,
    apply,
    in_pod,
    index,
    move_in,
    on_host,
    refused,
)
from tests.system.contract.worlds import World


def test_move_keeps_flags_group_and_programs(world: World, session: Session) -> None:
    changed = LinkSettings(flags=ALLMULTI | NOARP, group=7)
    session.apply(SetLink(Ns.HOST, "eth1", changed))
    world.attach_xdp("eth1", XdpMode.GENERIC)
    before = on_host(session).link
    assert before.xdp is not None
    assert [program.mode for program in before.xdp] == [XdpMode.GENERIC]

    move_in(session)

    link = in_pod(session).link
    assert (link.flags, link.group, link.xdp) == (ALLMULTI | NOARP, 7, before.xdp)


@pytest.mark.parametrize("mode", [XdpMode.GENERIC, XdpMode.NATIVE])
def test_only_the_xdp_program_of_the_mode_is_detached(
    world: World, session: Session, mode: XdpMode
) -> None:
    world.attach_xdp("eth1", mode)
    other = {XdpMode.GENERIC: XdpMode.NATIVE, XdpMode.NATIVE: XdpMode.GENERIC}[mode]
    number = index(session)

    session.apply(DetachXdp(Ns.HOST, number, other))
    assert [program.mode for program in on_host(session).link.xdp or ()] == [mode]

    session.apply(DetachXdp(Ns.HOST, number, mode))
    assert on_host(session).link.xdp == ()


def test_stable_privacy_without_a_secret_is_refused(session: Session) -> None:
    op = SetSysctl(Ns.HOST, "eth1", Sysctl("ipv6", "addr_gen_mode", "2"))

    assert refused(session, op).code == EINVAL


def test_routes_of_different_tos_are_distinct(session: Session) -> None:
    plain = Route("10.1.0.0/16", gateway="10.0.0.1")
    other = replace(plain, gateway="10.0.0.2", tos=16)

    apply(session, *UP, AddRoute(Ns.HOST, "eth1", plain), AddRoute(Ns.HOST, "eth1", other))

    assert {*on_host(session).routes} == {plain, other}
