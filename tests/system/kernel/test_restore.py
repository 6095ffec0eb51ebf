"""Effects of a restore on the real kernel, connected routes included."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.kernel import namespace
from dranet_nri.kernel.netns import run_inside
from dranet_nri.kernel.session import NetlinkKernel
from dranet_nri.kernel.settings.neighbour_tables import NEIGHBOUR_KEYS
from dranet_nri.kernel.settings.sysctl import IN_NO_ARRAY, RESET_BY_A_MOVE
from dranet_nri.model import DeviceKey, LinkState, NetnsId, NetworkConfig, XdpMode
from dranet_nri.plan.identity import DeviceIdentity
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.planner import AttachTarget, DesiredState, make_plan
from dranet_nri.plan.pod_network import pod_network
from dranet_nri.plan.restore import RestoreTarget
from tests.box.waiting import settled
from tests.system.kernel import xdp
from tests.system.kernel.namespaces import add_veth, new_netns

KEY = DeviceKey("", "", "eth1")
ADDRESSES = (
    ("10.0.0.5/24",),
    ("2001:db8:1::5/64", "nodad"),
    ("2001:db8:2::5/64", "nodad", "valid_lft", "5000", "preferred_lft", "4000"),
    ("10.0.1.5/24", "valid_lft", "5000", "preferred_lft", "4000"),
)


class Host:
    """A host with a NIC that is up and has addresses with and without an end."""

    def __init__(self) -> None:
        """Make it, and a pod's namespace."""
        self._host, self._pod, self._wire = new_netns(), new_netns(), new_netns()
        add_veth(self._host, "eth1", self._wire)
        self.ip("link", "set", "eth1", "up")
        for words in ADDRESSES:
            self.ip("addr", "add", *words, "dev", "eth1")
        self.kernel = NetlinkKernel(host_path=f"/proc/self/fd/{self._host}")
        netns = self.kernel.identify(f"/proc/self/fd/{self._pod}")
        assert netns is not None
        self.netns: NetnsId = netns
        assert self.kernel.hold(netns)

    def ip(self, *arguments: str, inside: bool = False) -> str:
        """Run iproute2 on the host, or in the pod."""
        command = ["ip", *arguments]

        def run() -> str:
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            return done.stdout

        return run_inside(self._pod if inside else self._host, run)

    def attach_xdp(self, mode: XdpMode, *, inside: bool = False) -> None:
        """Attach a program to the NIC."""
        xdp.attach(self._pod if inside else self._host, "eth1", mode)

    def return_by_kernel(self) -> None:
        """Let the NIC leave the pod as it does when the kernel returns it: nothing is restored."""
        os.dup2(self._host, target := os.open("/dev/null", os.O_RDONLY))
        self.ip("link", "set", "eth1", "netns", f"/proc/{os.getpid()}/fd/{target}", inside=True)
        os.close(target)

    def sysctl(self, key: str, value: str = "", family: str = "ipv6", link: str = "eth1") -> str:
        """Write a sysctl if there is a value, and read it."""
        table = "neigh" if key in NEIGHBOUR_KEYS else "conf"
        path = Path("/proc/sys/net", family, table, link, key)

        def run() -> str:
            if value:
                path.write_text(value)
            return path.read_text().strip()

        return run_inside(self._host, run)

    def connected(self) -> set[str]:
        """Return the networks that the kernel reaches through the NIC, of both families."""
        shown = (self.ip(family, "route", "show", "dev", "eth1") for family in ("-4", "-6"))
        return {line.split()[0] for table in shown for line in table.splitlines()}

    def close(self) -> None:
        """Delete everything."""
        self.kernel.release(self.netns)
        for fd in (self._host, self._pod, self._wire):
            os.close(fd)


@pytest.fixture
def host() -> Iterator[Host]:
    """Return the host."""
    with closing(Host()) as made:
        yield made


def run(session: Session, desired: DesiredState) -> None:
    for op in make_plan(desired, session.observe(KEY, "eth1")):
        session.apply(op)


def attach(host: Host) -> LinkState:
    """Bring the NIC into the pod, and return its snapshot."""
    with closing(host.kernel.session(host.netns)) as session:
        snapshot = session.observe(KEY, "eth1").host
        assert snapshot is not None
        run(session, AttachTarget(pod_network(NetworkConfig(), snapshot), snapshot))
        assert session.observe(KEY, "eth1").host is None
    return snapshot


def detach(host: Host, snapshot: LinkState) -> None:
    """Restore the NIC."""
    with closing(host.kernel.session(host.netns)) as session:
        run(session, RestoreTarget(snapshot))
        assert make_plan(RestoreTarget(snapshot), session.observe(KEY, "eth1")) == ()


def link_of(host: Host) -> dict[str, object]:
    """Return the NIC on the host as shown by iproute2, without its index."""
    shown: dict[str, object] = json.loads(host.ip("-json", "-details", "link", "show", "eth1"))[0]
    return {name: value for name, value in shown.items() if name != "ifindex"}


def timeless(shown: tuple[str, ...]) -> list[str]:
    """Return the lines of iproute2, sorted, without what depends on the time of the command.

    That is remaining seconds, and the routes to the link's own link-local address: the kernel adds
    them when the detection of duplicates ends.
    """
    lines = (line for text in shown for line in text.splitlines())
    return sorted(
        re.sub(r"expires \d+sec", "", line) for line in lines if not line.startswith("local fe80:")
    )


LEFT_BY_PODS = (
    ("promisc", "on"),
    ("allmulticast", "on"),
    ("arp", "off"),
    ("multicast", "off"),
    ("group", "9"),
    ("dynamic", "on"),
    ("trailers", "off"),
    ("broadcast", "ff:ff:ff:ff:ff:00"),
    ("mode", "dormant"),
    ("gso_max_segs", "99"),
)


def test_link_settings_of_a_pod_reach_neither_the_host_nor_the_next_pod(
    host: Host,
) -> None:
    before, dad = link_of(host), host.sysctl("accept_dad")
    snapshot = replace(attach(host), sysctls=())  # all have the defaults
    for arguments in LEFT_BY_PODS:
        host.ip("link", "set", "eth1", *arguments, inside=True)
    host.ip("link", "property", "add", "dev", "eth1", "altname", "tenant", inside=True)
    host.attach_xdp(XdpMode.NATIVE, inside=True)

    detach(host, snapshot)

    assert link_of(host) == before
    assert host.sysctl("accept_dad") == dad


def test_link_settings_returned_by_the_kernel_are_reset_on_the_host(host: Host) -> None:
    before = link_of(host)
    snapshot = attach(host)
    for arguments in LEFT_BY_PODS:
        host.ip("link", "set", "eth1", *arguments, inside=True)
    host.attach_xdp(XdpMode.GENERIC, inside=True)
    host.return_by_kernel()

    detach(host, snapshot)

    assert link_of(host) == before


def test_link_settings_of_the_host_are_restored(host: Host) -> None:
    for arguments in LEFT_BY_PODS:
        host.ip("link", "set", "eth1", *arguments)
    host.attach_xdp(XdpMode.GENERIC)
    host.ip("link", "set", "eth1", "down")
    host.ip("link", "set", "eth1", "up")  # only now it is dormant
    before = link_of(host)
    snapshot = attach(host)
    others = {"on": "off", "off": "on", "dormant": "default"}
    others |= {"ff:ff:ff:ff:ff:00": "ff:ff:ff:ff:ff:ff"}
    for word, value in LEFT_BY_PODS:
        other = others.get(value, "7")
        host.ip("link", "set", "eth1", word, other, inside=True)

    detach(host, snapshot)

    assert link_of(host) == before


NEIGHBOURS = {
    "anycast_delay": "98",
    "app_solicit": "1",
    "base_reachable_time_ms": "20000",
    "delay_first_probe_time": "4",
    "gc_stale_time": "59",
    "interval_probe_time_ms": "8000",
    "locktime": "98",
    "mcast_resolicit": "1",
    "mcast_solicit": "2",
    "proxy_delay": "78",
    "proxy_qlen": "63",
    "retrans_time_ms": "4000",
    "ucast_solicit": "2",
    "unres_qlen_bytes": "111111",
}
SYSCTLS = (
    ("ipv4", "arp_evict_nocarrier", "0"),
    ("ipv4", "bc_forwarding", "1"),
    ("ipv4", "bootp_relay", "1"),
    ("ipv4", "disable_policy", "1"),
    ("ipv4", "disable_xfrm", "1"),
    ("ipv4", "drop_gratuitous_arp", "1"),
    ("ipv4", "igmpv3_unsolicited_report_interval", "999"),
    ("ipv4", "ignore_routes_with_linkdown", "1"),
    ("ipv4", "proxy_arp_pvlan", "1"),
    ("ipv6", "accept_ra_from_local", "1"),
    ("ipv6", "accept_ra_mtu", "0"),
    ("ipv6", "accept_ra_rtr_pref", "0"),
    ("ipv6", "hop_limit", "33"),
    ("ipv6", "ignore_routes_with_linkdown", "1"),
    ("ipv6", "ioam6_id_wide", "4294967294"),
    ("ipv6", "max_addresses", "3"),
    ("ipv6", "mldv1_unsolicited_report_interval", "9000"),
    ("ipv6", "ndisc_evict_nocarrier", "0"),
    ("ipv6", "optimistic_dad", "1"),
    ("ipv6", "ra_defrtr_metric", "4294967295"),
    ("ipv6", "router_probe_interval", "59"),
    ("ipv6", "router_solicitation_delay", "2"),
    ("ipv6", "router_solicitation_interval", "3"),
    ("ipv6", "router_solicitation_max_interval", "3599"),
    ("ipv6", "temp_valid_lft", "604799"),
    *((family, key, value) for family in ("ipv4", "ipv6") for key, value in NEIGHBOURS.items()),
)


def test_sysctls_reset_by_a_move_are_restored(host: Host) -> None:
    for family, key, value in SYSCTLS:
        assert host.sysctl(key, family=family) != value
        assert host.sysctl(key, value, family) == value
    snapshot = attach(host)

    detach(host, snapshot)

    assert [(family, key, host.sysctl(key, family=family)) for family, key, _ in SYSCTLS] == [
        *SYSCTLS
    ]


def test_ipv6_token_is_restored_after_the_sysctls_that_it_requires(host: Host) -> None:
    host.sysctl("accept_ra", "0", link="default")
    host.sysctl("accept_ra", "1")
    host.ip("token", "set", "::5", "dev", "eth1")
    snapshot = attach(host)

    detach(host, snapshot)

    assert host.ip("token", "get", "dev", "eth1") == "token ::5 dev eth1\n"


# Set again at each carrier (addrconf_notify); read only; restored with the mode that needs it.
NOT_RESTORED = {"mtu", "mc_forwarding", "stable_secret"}
# The same values as others, in another unit.
SEEN_TWICE = {"base_reachable_time", "retrans_time", "unres_qlen"}


def test_every_sysctl_file_of_a_link_is_restored_or_listed(host: Host) -> None:
    for family in RESET_BY_A_MOVE:
        files = {
            *(path.name for path in Path(f"/proc/sys/net/{family}/conf/lo").iterdir()),
            *(path.name for path in Path(f"/proc/sys/net/{family}/neigh/lo").iterdir()),
        }
        expected = {*RESET_BY_A_MOVE[family], *IN_NO_ARRAY[family]}
        assert files - expected <= NOT_RESTORED | SEEN_TWICE
    snapshot = attach(host)
    assert {sysctl.key for sysctl in snapshot.sysctls} & NEIGHBOURS.keys() == NEIGHBOURS.keys()


def test_link_local_address_is_restored_if_the_kernel_generates_none(host: Host) -> None:
    before = host.ip("-6", "address", "show", "dev", "eth1", "scope", "link")
    assert "fe80::" in before
    host.sysctl("addr_gen_mode", "1")
    snapshot = attach(host)

    detach(host, snapshot)

    after = host.ip("-6", "address", "show", "dev", "eth1", "scope", "link")
    assert set(before.split()) - set(after.split()) <= {"forever"}
    assert host.sysctl("addr_gen_mode") == "1"


@pytest.mark.parametrize("group", ["224.0.5.5/32", "ff02::77/128"])
def test_address_with_a_joined_group_is_restored(host: Host, group: str) -> None:
    def shown() -> list[str]:
        addresses = host.ip("-br", "addr", "show", "eth1")
        return sorted([*addresses.split(), *host.ip("maddr", "show", "eth1").split()])

    host.ip("addr", "add", group, "dev", "eth1", "autojoin")
    before = shown()
    snapshot = attach(host)

    detach(host, snapshot)

    assert group in before
    assert settled(shown, before) == before


def test_temporary_address_is_replaced_by_a_new_one(host: Host) -> None:
    def temporary() -> list[tuple[str, bool]]:
        shown = json.loads(host.ip("-json", "-6", "addr", "show", "eth1"))[0]["addr_info"]
        network = "2001:db8:3:"
        in_network = (entry for entry in shown if entry["local"].startswith(network))
        return [(entry["local"], entry.get("temporary", False)) for entry in in_network]

    host.sysctl("use_tempaddr", "2")
    lifetime = "valid_lft", "5000", "preferred_lft", "4000"
    host.ip("addr", "add", "2001:db8:3::5/64", "nodad", "mngtmpaddr", *lifetime, "dev", "eth1")
    ((first, _), own) = temporary()
    snapshot = attach(host)

    detach(host, snapshot)

    ((second, is_temporary), other) = temporary()
    assert (is_temporary, other) == (True, own)
    assert second != first


def test_stable_privacy_is_restored_with_its_secret(host: Host) -> None:
    secret = "2001:0db8:0000:0000:0000:0000:0000:0007"
    host.sysctl("stable_secret", secret)
    assert host.sysctl("addr_gen_mode") == "2"
    snapshot = attach(host)

    detach(host, snapshot)

    assert (host.sysctl("stable_secret"), host.sysctl("addr_gen_mode")) == (secret, "2")


ROUTES = (
    "10.9.0.0/16 via 10.0.0.1 initcwnd 20 advmss 1400 rto_min 5ms quickack 1 congctl reno",
    "10.8.0.0/16 via 10.0.0.1 mtu lock 1300 hoplimit 9",
    "10.7.0.0/16 via 10.0.0.1",
    "10.7.0.0/16 via 10.0.0.2 tos 0x10",
    "10.6.0.0/16 via 10.0.0.1 realms 5",
    "10.5.0.0/16 encap ip id 7 dst 10.0.0.9",
    "2001:db8:9::/48 via 2001:db8:1::1 initcwnd 20",
    "fe80::/64 table 55",
    "multicast ff00::/8 table 55",
    "multicast ff00::/8 metric 99 table local",
)


def test_routes_are_restored_with_all_attributes(host: Host) -> None:
    for route in ROUTES:
        host.ip("route", "add", *route.split(), "dev", "eth1")
    every = "-6", "route", "show", "table", "all"
    before = host.ip("-d", "route", "show", "dev", "eth1"), host.ip(*every)
    snapshot = attach(host)
    assert "encap" not in host.ip("route", "show", "dev", "eth1", inside=True)
    assert "10.5.0.0/16" not in host.ip("route", "show", "dev", "eth1", inside=True)
    assert "initcwnd 20" in host.ip("route", "show", "dev", "eth1", inside=True)

    detach(host, snapshot)

    after = host.ip("-d", "route", "show", "dev", "eth1"), host.ip(*every)
    assert timeless(after) == timeless(before)


LOCAL_ROUTES = (
    "broadcast 10.9.9.255 table local",
    "local 10.50.0.0/16 table local",
    "local 2001:db8:50::/48 table local",
    "multicast ff05::/16 table local",
)


def test_routes_of_table_local_are_restored_and_not_inherited(host: Host) -> None:
    def local() -> list[str]:
        shown = (host.ip(family, "route", "show", "table", "local") for family in ("-4", "-6"))
        return sorted(line for text in shown for line in text.splitlines())

    for route in LOCAL_ROUTES:
        family = "-6" if ":" in route else "-4"
        host.ip(family, "route", "add", *route.split(), "dev", "eth1")
    before = local()
    assert len([line for line in before if "proto kernel" not in line]) >= len(LOCAL_ROUTES)
    snapshot = attach(host)
    shown = host.ip("route", "show", "table", "local", inside=True)
    assert "10.50.0.0/16" not in shown

    detach(host, snapshot)

    assert settled(local, before) == before


def test_every_address_is_restored_with_its_connected_route(host: Host) -> None:
    before = host.connected()
    assert {"10.0.0.0/24", "10.0.1.0/24", "2001:db8:1::/64", "2001:db8:2::/64"} <= before
    snapshot = attach(host)

    detach(host, snapshot)

    assert host.connected() == before


def test_nic_is_found_among_more_links_than_the_dump_limit(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = attach(host)
    monkeypatch.setattr(namespace, "MAX_POD_DUMP", 8192)
    for inside in (False, True):
        for number in range(10):
            arguments = (f"wire{number}", "type", "veth", "peer", f"end{number}")
            host.ip("link", "add", *arguments, inside=inside)
    host.ip("link", "set", "eth1", "name", "mine", inside=True)
    index = json.loads(host.ip("-json", "link", "show", "mine", inside=True))[0]["ifindex"]
    identity = DeviceIdentity(snapshot.link.index, "veth", frozenset({snapshot.link.mac}), index)

    with closing(host.kernel.session(host.netns)) as session:
        for requested in (
            {},
            {"identity": identity},
            {"identity": replace(identity, pod_index=0), "link_only": True},
        ):
            with pytest.raises(KernelError, match=r"dump links in pod: E2BIG"):
                session.observe(KEY, "eth1", **requested)
        observed = session.observe(KEY, "eth1", identity, link_only=True)
        assert observed.pod is not None
        assert observed.pod.link.name == "mine"
        for op in make_plan(RestoreTarget(snapshot), observed):
            session.apply(op)
        assert session.observe(KEY, "eth1", identity, link_only=True).pod is None

    with closing(host.kernel.session(None)) as session:
        assert session.observe(KEY, "eth1", identity).host is not None


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(("tuntap", "add", "dev", "odd0", "mode", "tun"), id="tun"),
        pytest.param(("tuntap", "add", "dev", "odd0", "mode", "tap"), id="tap"),
        pytest.param(("link", "add", "odd0", "link", "eth1", "type", "macvlan"), id="macvlan"),
        pytest.param(("link", "add", "odd0", "type", "ifb"), id="ifb"),
        pytest.param(
            ("link", "add", "odd0", "type", "vxlan", "id", "9", "dstport", "4789"), id="vxlan"
        ),
    ],
)
def test_c24_link_that_is_not_ethernet_is_attached_and_restored(
    host: Host, make: tuple[str, ...]
) -> None:
    key = DeviceKey("", "", "odd0")
    host.ip(*make)
    host.ip("addr", "add", "10.8.0.1/24", "dev", "odd0")
    host.ip("link", "set", "odd0", "up")
    with closing(host.kernel.session(host.netns)) as session:
        snapshot = session.observe(key, "odd0").host
        assert snapshot is not None
        desired = AttachTarget(pod_network(NetworkConfig(), snapshot), snapshot)
        for op in make_plan(desired, session.observe(key, "odd0")):
            session.apply(op)

        assert "10.8.0.1/24" in host.ip("addr", "show", "odd0", inside=True)
        assert session.observe(key, "odd0").host is None
        for op in make_plan(RestoreTarget(snapshot), session.observe(key, "odd0")):
            session.apply(op)

        assert make_plan(RestoreTarget(snapshot), session.observe(key, "odd0")) == ()
    shown = host.ip("addr", "show", "odd0")
    assert "10.8.0.1/24" in shown
    assert re.search(r"[<,]UP[,>]", shown)
