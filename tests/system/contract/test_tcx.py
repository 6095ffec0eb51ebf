"""TCX programs of a link, on both kernels."""

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.model import Ns, TcxProgram
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import LinkSettings, MoveLink
from dranet_nri.plan.settings.programs import AttachTcx, DetachTcx, DisableTcx
from tests.system.contract.cases import apply, in_pod, index, move_in, refused
from tests.system.contract.worlds import World


def programs(session: Session) -> tuple[TcxProgram, ...]:
    found = session.tcx(Ns.HOST, index(session))
    assert found is not None
    return found


def test_programs_are_listed_and_detached_except_kept_ones(world: World, session: Session) -> None:
    assert programs(session) == ()
    for _ in range(3):
        world.attach_tcx("eth1")
    first, second, third = programs(session)

    apply(session, DetachTcx(Ns.HOST, "eth1", (first, third)))
    assert programs(session) == (first, third)

    for _ in range(2):
        apply(session, DetachTcx(Ns.HOST, "eth1", (second,)))
        assert programs(session) == ()


def test_disabled_programs_are_attached_again_in_order(world: World, session: Session) -> None:
    for _ in range(2):
        world.attach_tcx("eth1")
    before = programs(session)

    for _ in range(2):
        apply(session, DisableTcx(Ns.HOST, "eth1"))
        assert programs(session) == ()
    move_in(session)
    assert session.tcx(Ns.POD, in_pod(session).link.index) == ()
    back = MoveLink(Ns.POD, in_pod(session).link.index, Ns.HOST, "eth1", LinkSettings())
    apply(session, back)

    for program in (*before, *before):
        apply(session, AttachTcx(Ns.HOST, "eth1", program))
    assert programs(session) == before


def test_move_keeps_tcx_programs(world: World, session: Session) -> None:
    world.attach_tcx("eth1")
    before = programs(session)

    move_in(session)
    assert session.tcx(Ns.POD, in_pod(session).link.index) == before

    back = MoveLink(Ns.POD, in_pod(session).link.index, Ns.HOST, "eth1", LinkSettings())
    apply(session, back)
    assert programs(session) == before


def test_programs_of_a_missing_link_are_an_error(session: Session) -> None:
    with pytest.raises(KernelError) as caught:
        session.tcx(Ns.HOST, 4711)

    assert caught.value.already_gone
    assert refused(session, DetachTcx(Ns.HOST, "eth9", ())).already_gone
