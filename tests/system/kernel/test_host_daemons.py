"""Daemons of the host that act on a NIC as soon as it is back (case c20), on the real kernel."""

from collections.abc import Sequence

import pytest

from dranet_nri.kernel.session import NetlinkSession
from dranet_nri.model import Ns, Phase
from dranet_nri.plan.ops import MoveLink, Op
from tests.system.kernel.rails import Rails, rails

RENAME = ("link set nic0 name enp9s0",)
GRAB = (
    "link set nic0 up",
    "addr add 192.168.9.9/24 dev nic0",
    "route add 10.200.0.0/16 via 192.168.9.1",
)
ENSLAVE = ("link set nic0 master br0",)


def act_when_restored(
    host: Rails, monkeypatch: pytest.MonkeyPatch, commands: Sequence[str]
) -> list[Op]:
    """Let a daemon act right after a NIC moved to the host; return that move when it is done."""
    apply, moves = NetlinkSession.apply, list[Op]()

    def apply_beside_a_daemon(session: NetlinkSession, op: Op) -> None:
        apply(session, op)
        if isinstance(op, MoveLink) and op.target is Ns.HOST and not moves:
            moves.append(op)
            host.ip(*commands)

    monkeypatch.setattr(NetlinkSession, "apply", apply_beside_a_daemon)
    return moves


def owned(host: Rails) -> list[str]:
    """Return the addresses of the NIC without those of the kernel; none if it is missing."""
    lines = [line for line in host.shown("-br addr") if line.startswith("nic0@")]
    return [word for line in lines for word in line.split()[2:] if not word.startswith("fe80")]


@pytest.mark.parametrize(
    ("commands", "undo"),
    [
        pytest.param(GRAB, ("addr del 192.168.9.9/24 dev nic0",), id="address"),
        pytest.param(ENSLAVE, ("link set nic0 nomaster",), id="bridge"),
        pytest.param(RENAME, (), id="name"),
    ],
)
def test_c20_nic_changed_by_a_daemon_at_its_return_is_restored(
    monkeypatch: pytest.MonkeyPatch, commands: Sequence[str], undo: Sequence[str]
) -> None:
    with rails(2) as host:
        host.ip("link add br0 type bridge", "link set br0 up")
        host.ip("route add 10.66.0.0/16 via 10.5.0.1")
        addresses, routes = owned(host), host.shown("route show 10.66.0.0/16")
        other = host.shown("-d addr show nic1")
        record = host.attach("nic0")
        moves = act_when_restored(host, monkeypatch, commands)

        record = host.detach(record)
        if record.phase is not Phase.RESTORED:  # an operation met another name than the plan has
            record = host.detach(record)

        assert moves
        host.ip(*undo)
        assert record.phase is Phase.RESTORED
        assert owned(host) == addresses
        assert host.shown("route show 10.66.0.0/16") == routes
        assert host.shown("-d addr show nic1") == other
