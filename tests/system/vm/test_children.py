"""Children on a real kernel: one row for each kind, and crashes at every step."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from dranet_nri.config import parse_network_config
from dranet_nri.errors import AttachError, RefusedError
from dranet_nri.kernel.session import NetlinkSession
from dranet_nri.model import NetworkConfig, Phase
from dranet_nri.plan.ops import Op
from tests.box.waiting import wait_until
from tests.dranet_nri.attach.execution.journal import Crash
from tests.system.kernel.rails import Rails, rails

ADDRESS = "10.5.0.20/24"
GATEWAY = "10.5.0.1"


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of child: its claim, and its attributes in iproute2 in the pod."""

    interface: dict[str, object]
    shown: dict[str, object]
    kind: str
    default: str = f"default via {GATEWAY} dev net1 proto static"
    own_mac: bool = True


ROWS = [
    pytest.param(Row({"type": "IPVLAN"}, {"mode": "l2"}, "ipvlan", own_mac=False), id="IPVLAN L2"),
    pytest.param(
        Row(
            {"type": "IPVLAN", "ipvlan": {"mode": "L3", "flag": "Private"}},
            {"mode": "l3", "private": True},
            "ipvlan",
            default="default dev net1 proto static scope link",
            own_mac=False,
        ),
        id="IPVLAN L3 private",
    ),
    pytest.param(
        Row(
            {"type": "IPVLAN", "ipvlan": {"mode": "L3S", "flag": "VEPA"}},
            {"mode": "l3s", "vepa": True},
            "ipvlan",
            default="default dev net1 proto static scope link",
            own_mac=False,
        ),
        id="IPVLAN L3S VEPA",
    ),
    pytest.param(Row({"type": "MACVLAN"}, {"mode": "bridge"}, "macvlan"), id="MACVLAN bridge"),
    pytest.param(
        Row({"type": "MACVLAN", "macvlan": {"mode": "VEPA"}}, {"mode": "vepa"}, "macvlan"),
        id="MACVLAN VEPA",
    ),
    pytest.param(
        Row({"type": "MACVLAN", "macvlan": {"mode": "Private"}}, {"mode": "private"}, "macvlan"),
        id="MACVLAN private",
    ),
    pytest.param(
        Row(
            {"type": "VLAN", "vlan": {"id": 7}},
            {"protocol": "802.1Q", "id": 7},
            "vlan",
            own_mac=False,
        ),
        id="VLAN",
    ),
    pytest.param(
        Row(
            {"type": "VLAN", "vlan": {"id": 4094, "protocol": "802.1ad"}},
            {"protocol": "802.1ad", "id": 4094},
            "vlan",
            own_mac=False,
        ),
        id="VLAN 802.1ad",
    ),
]


@pytest.fixture(autouse=True)
def modules() -> None:
    subprocess.run(("modprobe", "--all", "ipvlan", "macvlan", "8021q"), check=True)
    subprocess.run(("modprobe", "bonding", "max_bonds=0"), check=True)  # else it makes bond0


@pytest.fixture
def host() -> Iterator[Rails]:
    with rails(1, pods=2) as host:
        host.ip(f"route add default via {GATEWAY} dev nic0 table 105")
        yield host


def config(interface: dict[str, object], **rest: object) -> NetworkConfig:
    named = {"name": "net1", "addresses": [ADDRESS], "mtu": 1400, **interface}
    return parse_network_config({"interface": named, **rest})


def links(host: Rails, pod: int | None = None) -> dict[str, dict[str, object]]:
    """Return the links of iproute2, by name."""
    (text,) = host.shown("-json -details link show", pod)
    return {str(link["ifname"]): link for link in json.loads(text)}


def state(host: Rails) -> list[object]:
    """Return the host state that a child must not change."""
    commands = (
        "-brief link show up",  # with flags and MAC
        "-4 -oneline addr show",
        "-6 -oneline addr show scope global",
        "-4 route show table all",
        "rule show",
    )
    return [host.shown(command) for command in commands]


@pytest.mark.parametrize("row", ROWS)
def test_pod_gets_the_child_and_the_host_is_unchanged(host: Rails, row: Row) -> None:
    before = state(host)

    record = host.attach("nic0", config=config(row.interface))

    child = links(host, pod=0)["net1"]
    info = child["linkinfo"]
    assert isinstance(info, dict)
    assert (info["info_kind"], child["mtu"], "UP" in str(child["flags"])) == (row.kind, 1400, True)
    assert row.shown.items() <= info["info_data"].items()
    assert (child["address"] != links(host)["nic0"]["address"]) is row.own_mac
    assert record.devices[0].addresses == (ADDRESS,)
    assert record.devices[0].mac == child["address"]
    (rule,) = [line for line in host.shown("rule", pod=0) if line.startswith("32000:")]
    assert rule == "32000: from 10.5.0.20 lookup 1891 proto static"
    assert host.shown("route show table 1891", pod=0) == [
        row.default,
        "10.5.0.0/24 dev net1 proto static scope link",
    ]
    assert state(host) == before
    assert host.detach(record).phase is Phase.RESTORED
    assert "net1" not in links(host, pod=0)
    assert state(host) == before


@pytest.mark.parametrize("row", [ROWS[0], ROWS[3], ROWS[6]])
def test_crash_at_any_step_leaves_no_child(
    host: Rails, row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(host)
    real = NetlinkSession.apply
    done: list[str] = []

    for step in range(1, 100):
        done.clear()

        def crash_after(session: NetlinkSession, op: Op, step: int = step) -> None:
            real(session, op)
            done.append(str(op))
            if len(done) == step:
                raise Crash

        monkeypatch.setattr(NetlinkSession, "apply", crash_after)
        try:
            record = host.attach("nic0", config=config(row.interface))
        except Crash:
            monkeypatch.setattr(NetlinkSession, "apply", real)
            (record,) = host.journal.records.values()
            assert host.detach(record).phase is Phase.RESTORED, done
            assert not {"net1", *filter(is_first_name, links(host, pod=0))} & {*links(host, pod=0)}
            assert state(host) == before, done
        else:
            assert len(done) > 5  # made, named, sized, addressed, up, routed
            assert host.detach(record).phase is Phase.RESTORED
            return
    pytest.fail("the attach has no end")


@pytest.mark.parametrize("row", [ROWS[0], ROWS[3], ROWS[6]])
def test_child_is_deleted_by_the_kernel_with_the_namespace_of_the_pod(
    host: Rails, row: Row
) -> None:
    before = state(host)
    record = host.attach("nic0", config=config(row.interface))

    host.end_pod(0)

    assert host.detach(record, netns_exists=False).phase is Phase.RESTORED
    assert state(host) == before


def test_settings_and_routing_of_the_claim_are_those_of_the_child_only(host: Rails) -> None:
    before, parent = state(host), links(host)["nic0"]
    sizes = ("gsoMaxSize", "groMaxSize", "gsoIPv4MaxSize", "groIPv4MaxSize")
    sysctls = {"arpIgnore": 1, "arpAnnounce": 2, "acceptRA": 0}
    interface = {"type": "IPVLAN", **dict.fromkeys(sizes, 32768), **sysctls}
    routing: dict[str, object] = {
        "routes": [
            {"destination": f"{GATEWAY}/32", "scope": 253, "table": 150},
            {"destination": "10.9.0.0/16", "gateway": GATEWAY, "table": 150},
        ],
        "rules": [
            {"source": "10.5.0.20/32", "table": 150, "priority": 32000},
            {"destination": "10.9.0.0/16", "table": 150, "priority": 32000},
        ],
    }

    record = host.attach("nic0", config=config(interface, **routing))

    child = links(host, pod=0)["net1"]
    assert child["mtu"] == 1400
    for name in ("gso", "gro", "gso_ipv4", "gro_ipv4"):
        assert child[f"{name}_max_size"] == 32768
    keys = ("ipv4.conf.net1.arp_ignore", "ipv4.conf.net1.arp_announce", "ipv6.conf.net1.accept_ra")
    assert [host.read_sysctl(f"net.{key}", pod=0) for key in keys] == ["1", "2", "0"]
    assert host.shown("route show table 150", pod=0) == [
        f"{GATEWAY} dev net1 proto static scope link",
        f"10.9.0.0/16 via {GATEWAY} dev net1 proto static",
    ]
    assert [line for line in host.shown("rule", pod=0) if "proto static" in line] == [
        "32000: from 10.5.0.20 lookup 150 proto static",
        "32000: from all to 10.9.0.0/16 lookup 150 proto static",
    ]
    assert host.detach(record).phase is Phase.RESTORED
    assert (state(host), links(host)["nic0"]) == (before, parent)


def test_parent_that_is_down_is_set_up(host: Rails) -> None:
    host.ip("link set nic0 down")

    host.attach("nic0", config=config({"type": "MACVLAN"}))

    assert "UP" in str(links(host)["nic0"]["flags"])


def test_children_of_one_parent_in_two_pods_reach_each_other(host: Rails) -> None:
    records = [
        host.attach("nic0", pod=pod, config=config({"type": "IPVLAN", "addresses": [address]}))
        for pod, address in enumerate(("10.5.0.20/24", "10.5.0.21/24"))
    ]

    (route,) = host.shown("route get 10.5.0.21 from 10.5.0.20", pod=0)[:1]
    assert route.startswith("10.5.0.21 from 10.5.0.20 dev net1 table 1891")
    host.ping("10.5.0.21", "10.5.0.20", pod=0)
    assert all(host.detach(record).phase is Phase.RESTORED for record in records)


def test_child_of_a_bond_keeps_its_traffic_when_a_port_loses_its_carrier() -> None:
    with rails(2) as host:
        host.ip(*bonded("bond0", "nic0", "nic1"), "addr add 10.9.0.7/24 dev bond0")
        for command in (*bonded("bond1", "pnic0", "pnic1"), "addr add 10.9.0.1/24 dev bond1"):
            run_on_wire(host, command)
        before = state(host)
        record = host.attach(
            "bond0", config=config({"type": "IPVLAN", "addresses": ["10.9.0.20/24"]})
        )
        with host.in_pod("ping", "-w200", "-i0.1", "-I10.9.0.20", "10.9.0.1") as ping:
            await_replies(ping, 5)
            for lost, other in (("pnic0", "pnic1"), ("pnic1", "pnic0")):
                set_port(host, other, "up")
                set_port(host, lost, "down")
                await_replies(ping, 20)
            set_port(host, "pnic1", "up")
            ping.terminate()
        assert host.detach(record).phase is Phase.RESTORED
        wait_until("the host to be as before", lambda: state(host) == before)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        pytest.param({"type": "IPVLAN"}, {"type": "MACVLAN"}, "EBUSY", id="another kind"),
        pytest.param(
            {"type": "VLAN", "vlan": {"id": 7}},
            {"type": "VLAN", "vlan": {"id": 7}},
            r"EEXIST.*another interface\.vlan\.id",
            id="one VLAN twice",
        ),
    ],
)
def test_conflicting_child_is_refused_with_the_remedy(
    host: Rails, first: dict[str, object], second: dict[str, object], message: str
) -> None:
    record = host.attach("nic0", config=config(first))

    with pytest.raises(AttachError, match=message):
        host.attach("nic0", pod=1, config=config(second))

    assert "net1" not in links(host, pod=1)
    assert "net1" in links(host, pod=0)
    assert host.detach(record).phase is Phase.RESTORED


@pytest.mark.parametrize(
    ("rate", "shown"), [(16 * 10**6, "16Mbit"), (10**9, "1Gbit"), (400 * 10**9, "400Gbit")]
)
def test_bandwidth_of_a_share_limits_the_traffic_of_the_pod(
    host: Rails, rate: int, shown: str
) -> None:
    before = state(host)

    record = host.attach("nic0", config=config({"type": "IPVLAN"}), bandwidth=rate)

    (discipline,) = host.shown("-s qdisc show dev net1", pod=0, tool="tc")[:1]
    assert discipline.startswith("qdisc tbf")
    assert "root" in discipline
    assert f"rate {shown} burst" in discipline
    assert host.rate(record) == rate
    assert not record.devices[0].warnings
    assert host.detach(record).phase is Phase.RESTORED
    assert state(host) == before


def test_mtu_above_that_of_the_parent_is_refused_before_any_change(host: Rails) -> None:
    before = state(host)

    with pytest.raises(RefusedError, match=r"interface\.mtu 9000 is above that of nic0"):
        host.attach("nic0", config=config({"type": "MACVLAN", "mtu": 9000}))

    assert state(host) == before


def bonded(name: str, *ports: str) -> tuple[str, ...]:
    """Return commands that make an LACP bond of ports, which is up."""
    return (
        f"link add {name} type bond mode 802.3ad miimon 10 lacp_rate fast",
        *(f"link set {port} down" for port in ports),
        *(f"link set {port} master {name}" for port in ports),
        f"link set {name} up",
    )


def run_on_wire(host: Rails, command: str) -> None:
    """Run iproute2 at the other end of the NICs."""
    with host.on_wire("ip", *command.split()) as run:
        output, _ = run.communicate()
    assert run.returncode == 0, (command, output)


def set_port(host: Rails, far: str, state: str) -> None:
    """Set the other end of a port of the host's bond, and wait until the bond knows."""
    run_on_wire(host, f"link set {far} {state}")
    port = far.removeprefix("p")
    wait_until(f"{port} to be {state}", lambda: mii_status(host, port) == state.upper())


def mii_status(host: Rails, port: str) -> str:
    """Return whether a port of a bond has its carrier, "UP" or "DOWN"."""
    info = links(host)[port]["linkinfo"]
    assert isinstance(info, dict)
    return str(info["info_slave_data"]["mii_status"])


def await_replies(ping: "subprocess.Popen[str]", number: int) -> None:
    """Read what ping prints until so many replies have come."""
    assert ping.stdout is not None
    for line in ping.stdout:
        number -= "bytes from" in line
        if number == 0:
            return
    pytest.fail("ping ended")


def is_first_name(name: str) -> bool:
    """Whether it is the name under which the plugin makes a child."""
    return name.startswith("dra")
