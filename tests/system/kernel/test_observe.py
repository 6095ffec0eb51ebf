"""Observation beyond veths: parents known only to sysfs, InfiniBand, unusual rules."""

import os
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from errno import EPERM
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.inventory import hazards
from dranet_nri.kernel.host import host_facts
from dranet_nri.kernel.namespace import Namespace
from dranet_nri.kernel.netns import run_inside
from dranet_nri.kernel.observe import observe
from dranet_nri.kernel.session import NetlinkKernel
from dranet_nri.kernel.settings import sysctl
from dranet_nri.kernel.settings.neighbour_tables import NEIGHBOUR_KEYS, parameters_of
from dranet_nri.kernel.settings.sysctl import IN_NO_ARRAY, RESET_BY_A_MOVE
from dranet_nri.linux.netlink.links import (
    IFLA_ADDRESS,
    IFLA_INFO_KIND,
    IFLA_LINK,
    IFLA_LINKINFO,
    IFLA_MASTER,
    IFLA_PARENT_DEV_BUS_NAME,
    IFLA_PARENT_DEV_NAME,
    IFLA_PERM_ADDRESS,
    IFLA_PHYS_PORT_NAME,
    DumpedLink,
    link_from,
)
from dranet_nri.linux.netlink.policy_routing import RTM_GETRULE
from dranet_nri.linux.netlink.routes import RouteUses
from dranet_nri.linux.netlink.socket import NetlinkSocket
from dranet_nri.model import (
    ARPHRD_INFINIBAND,
    DeviceKey,
    Link,
    LinkState,
    NetnsId,
    Ns,
    Rule,
    Sysctl,
)
from dranet_nri.plan.identity import DeviceIdentity
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import AddRoute, MoveLink, RenameLink, SetSysctl, SetUp
from tests.system.kernel.namespaces import add_veth, new_netns

KEY = DeviceKey("pci", "0000:8a:00.0", "eth1", "0000:8a:00.0")


class Machine:
    """A host with two links, and a sysfs that gives one of them a PCI parent."""

    def __init__(self, host: int, directory: Path) -> None:
        """Make links, namespaces and the sysfs."""
        self.host, self.pod, self._wire = host, new_netns(), new_netns()
        for name in ("eth1", "eth2"):
            add_veth(host, name, self._wire)
        function = directory / "devices" / "0000:8a:00.0"
        function.mkdir(parents=True)
        (directory / "bus" / "pci").mkdir(parents=True)
        (function / "subsystem").symlink_to(directory / "bus" / "pci")
        for name in ("eth1", "eth2", "lo"):
            (directory / "class" / "net" / name).mkdir(parents=True)
        (directory / "class" / "net" / "eth1" / "device").symlink_to(function)
        (directory / "class" / "net" / "eth1" / "dev_port").write_text("1\n")
        self.kernel = NetlinkKernel(host_path=f"/proc/self/fd/{host}", sys_root=str(directory))
        netns = self.kernel.identify(f"/proc/self/fd/{self.pod}")
        assert netns is not None
        self.netns: NetnsId = netns
        assert self.kernel.hold(netns)

    def close(self) -> None:
        """Delete everything."""
        self.kernel.release(self.netns)
        os.close(self.pod)
        os.close(self._wire)

    def ip(self, *arguments: str) -> None:
        """Run iproute2 on the host."""
        command = ["ip", *arguments]
        run_inside(self.host, lambda: subprocess.run(command, check=True, capture_output=True))


@pytest.fixture
def machine(nsfd: int, tmp_path: Path) -> Iterator[Machine]:
    """Return a machine."""
    with closing(Machine(nsfd, tmp_path)) as made:
        yield made


@pytest.fixture
def session(machine: Machine) -> Iterator[Session]:
    """Return a session with the machine's pod."""
    with closing(machine.kernel.session(machine.netns)) as opened:
        yield opened


def test_parent_is_read_from_sysfs_without_kernel_information(session: Session) -> None:
    host = session.observe(KEY, "net1").host

    assert host is not None
    assert (host.link.name, host.link.bus, host.link.parent) == ("eth1", "pci", "0000:8a:00.0")


@pytest.mark.parametrize(
    ("reports_parents", "parent"), [(False, "0000:8a:00.0"), (True, ""), (None, "")]
)
def test_scan_reads_parents_from_the_sysfs_of_an_old_kernel(
    machine: Machine, tmp_path: Path, *, reports_parents: bool | None, parent: str
) -> None:
    """A recent kernel reports no parent of a veth either, but then it has none."""
    path = f"/proc/self/fd/{machine.host}"
    kernel = NetlinkKernel(host_path=path, sys_root=str(tmp_path), reports_parents=reports_parents)

    with closing(kernel.session(None)) as session:
        parents = {device.link.name: device.link.parent for device in session.host_facts().netdevs}

    assert parents == {"lo": "", "eth1": parent, "eth2": ""}


def test_port_number_is_read_from_sysfs(session: Session) -> None:
    observed = session.observe(KEY, "net1")
    another = session.observe(KEY, "net1", DeviceIdentity(0, "", frozenset(), port=0))

    assert observed.host is not None
    assert observed.host.link.dev_port == 1
    assert (another.host, another.ambiguous) == (None, ())


@pytest.mark.parametrize("reported", [None, ""], ids=["no file", "no number"])
def test_port_without_a_number_is_found(
    session: Session, tmp_path: Path, reported: str | None
) -> None:
    number = tmp_path / "class" / "net" / "eth1" / "dev_port"
    number.unlink() if reported is None else number.write_text(reported)

    observed = session.observe(KEY, "net1", DeviceIdentity(0, "", frozenset(), port=0))

    assert observed.host is not None
    assert observed.host.link.dev_port is None


def test_device_in_the_pod_is_identified_by_its_index(session: Session) -> None:
    host = session.observe(KEY, "net1").host
    assert host is not None
    session.apply(MoveLink(Ns.HOST, host.link.index, Ns.POD, "net1"))
    index = session.pod_link("net1").index
    session.apply(RenameLink(Ns.POD, index, "mine"))
    identity = DeviceIdentity(host.link.index, "veth", frozenset(), index)

    observed = session.observe(KEY, "net1", identity)

    assert observed.pod is not None
    assert observed.pod.link.name == "mine"


def test_device_in_the_pod_is_identified_by_its_name(session: Session) -> None:
    host = session.observe(KEY, "net1").host
    assert host is not None

    session.apply(MoveLink(Ns.HOST, host.link.index, Ns.POD, "net1"))

    observed = session.observe(KEY, "net1")
    assert observed.host is None
    assert observed.pod is not None
    assert observed.pod.link.parent == "0000:8a:00.0"


@pytest.mark.parametrize(
    "selector",
    [
        ("dport", "80"),
        ("uidrange", "0-0"),
        ("ipproto", "tcp"),
        ("suppress_prefixlength", "0"),
    ],
    ids=lambda selector: str(selector[0]),
)
def test_rule_with_an_unsupported_selector_is_omitted(
    machine: Machine, session: Session, selector: tuple[str, str]
) -> None:
    before = session.observe(KEY, "net1").host_rules
    machine.ip("rule", "add", "iif", "eth1", *selector, "table", "1000")

    observed = session.observe(KEY, "net1")

    assert observed.host_rules == before
    assert observed.host is not None
    assert observed.host.rules == ()


def test_route_with_a_nexthop_object_is_reported_as_unrestorable(
    machine: Machine, session: Session
) -> None:
    machine.ip("address", "add", "10.0.0.5/24", "dev", "eth1")
    machine.ip("link", "set", "eth1", "up")
    machine.ip("nexthop", "add", "id", "7", "via", "10.0.0.1", "dev", "eth1")
    machine.ip("route", "add", "10.1.0.0/16", "nhid", "7")

    host = session.observe(KEY, "net1").host

    assert host is not None
    assert host.routes == ()
    assert host.unrestorable == ("10.1.0.0/16 in table 254, which has nexthop object 7",)


def test_route_with_a_source_prefix_is_reported_as_unrestorable(
    machine: Machine, session: Session
) -> None:
    machine.ip("link", "set", "eth1", "up")
    machine.ip(*["-6", "route", "add", "2001:db8:9::/48", "from", "2001:db8:7::/64", "dev", "eth1"])

    host = session.observe(KEY, "net1").host

    assert host is not None
    assert host.routes == ()
    (reported,) = host.unrestorable
    assert reported.endswith("which has a source prefix of 64 bits")


def test_expired_route_is_omitted(machine: Machine, session: Session) -> None:
    route = "2001:db8:9::/48", "dev", "eth1"
    machine.ip("link", "set", "eth1", "up")
    machine.ip("-6", "route", "add", *route, "expires", "1")
    time.sleep(0.1)  # less than a second is left: 0 would mean that the route does not expire
    ending = session.observe(KEY, "net1").host
    time.sleep(1.2)
    expired = session.observe(KEY, "net1").host
    machine.ip("-6", "route", "del", *route)  # the kernel still had it

    assert ending is not None
    assert expired is not None
    assert (ending.routes, expired.routes) == ((), ())


def test_ipv4_route_through_an_ipv6_gateway_is_read(machine: Machine, session: Session) -> None:
    machine.ip("link", "set", "eth1", "up")
    machine.ip("route", "add", "10.1.0.0/16", "via", "inet6", "fe80::1", "dev", "eth1")

    host = session.observe(KEY, "net1").host
    assert host is not None
    session.apply(AddRoute(Ns.HOST, "eth1", host.routes[0]))

    assert host.routes[0].gateway == "fe80::1"


def test_temporary_address_is_marked(machine: Machine, session: Session) -> None:
    machine.ip("link", "set", "eth1", "up")
    run_inside(
        machine.host,
        lambda: Path("/proc/sys/net/ipv6/conf/eth1/use_tempaddr").write_text("2"),
    )
    machine.ip(
        *("address", "add", "2001:db8::5/64", "dev", "eth1", "mngtmpaddr"),
        *("valid_lft", "86400", "preferred_lft", "43200"),
    )

    host = session.observe(KEY, "net1").host

    assert host is not None
    flags = {address.cidr: address.flags for address in host.addresses if address.scope == 0}
    assert flags.pop("2001:db8::5/64") == 0x100
    assert [flag & 0x01 for flag in flags.values()] == [1]


# Values that "1" and "0" are not: the kernel rounds milliseconds to its ticks.
OTHERS = {
    **dict.fromkeys(("anycast_delay", "locktime", "proxy_delay"), "50"),
    **dict.fromkeys(
        ("base_reachable_time_ms", "interval_probe_time_ms", "retrans_time_ms"), "8000"
    ),
    **dict.fromkeys((f"mldv{n}_unsolicited_report_interval" for n in (1, 2)), "4000"),
    "unres_qlen_bytes": "111111",
}


def test_sysctl_reset_by_a_move_is_read_from_its_own_place(session: Session) -> None:
    def sysctls() -> dict[tuple[str, str], str]:
        host = session.observe(KEY, "net1").host
        assert host is not None
        return {(sysctl.family, sysctl.key): sysctl.value for sysctl in host.sysctls}

    plain = sysctls()
    tables = (RESET_BY_A_MOVE, IN_NO_ARRAY)
    link_keys = {
        (family, key) for table in tables for family, keys in table.items() for key in keys
    }
    assert plain.keys() == {
        (family, key)
        for family, key in link_keys
        if (family != "mpls" and key not in {"ra_honor_pio_life", "ra_honor_pio_pflag"})
        or Path(f"/proc/sys/net/{family}/conf/all/{key}").exists()
    }

    for (family, key), value in plain.items():
        other = OTHERS.get(key, "0" if value == "1" else "1")
        session.apply(SetSysctl(Ns.HOST, "eth1", Sysctl(family, key, other)))
        assert sysctls() == {**plain, (family, key): other}
        session.apply(SetSysctl(Ns.HOST, "eth1", Sysctl(family, key, value)))


def host_sysctls(session: Session) -> set[Sysctl]:
    """Return the sysctls of the device on the host."""
    host = session.observe(KEY, "net1").host
    assert host is not None
    return set(host.sysctls)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of sysctls that are read from files; no neighbour sysctls are known."""
    read: list[str] = []
    plain = sysctl.read_from_files

    def noted(proc_root: str, name: str, keys: Sequence[tuple[str, str]]) -> tuple[Sysctl, ...]:
        read.extend(f"{family} {key}" for family, key in keys)
        return plain(proc_root, name, keys)

    monkeypatch.setattr(sysctl, "read_from_files", noted)
    monkeypatch.setattr("dranet_nri.kernel.settings.neighbour_tables._known", {})
    return read


def test_neighbour_sysctls_are_read_once_for_equal_parameters(
    session: Session, reads: list[str]
) -> None:
    first = host_sysctls(session)
    assert {"ipv4 locktime", "ipv6 locktime"} <= {*reads}
    reads.clear()

    assert host_sysctls(session) == first
    assert not [name for name in reads if name.split()[1] in NEIGHBOUR_KEYS]

    changed = Sysctl("ipv6", "locktime", "80")
    session.apply(SetSysctl(Ns.HOST, "eth1", changed))
    assert host_sysctls(session) == first - {Sysctl("ipv6", "locktime", "0")} | {changed}
    assert "ipv6 locktime" in reads


def test_rules_of_a_scan_serve_the_observation_until_an_operation(
    machine: Machine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumped: list[int] = []
    plain = NetlinkSocket.dump

    def noted(self: NetlinkSocket, what: str, kind: int, *rest: Any) -> list[bytes]:
        dumped.append(kind)
        return plain(self, what, kind, *rest)

    def read() -> tuple[list[int], int]:
        """Return the tables of the link's rules, and how often rules were dumped on the host."""
        dumped.clear()
        session.host_facts()
        host = session.observe(KEY, "net1", link_only=True).host
        assert host is not None
        return [rule.table for rule in host.rules], dumped.count(RTM_GETRULE)

    monkeypatch.setattr(NetlinkSocket, "dump", noted)
    assert read() == ([], 1)
    machine.ip("rule", "add", "iif", "eth1", "lookup", "77")
    session.apply(SetUp(Ns.HOST, "eth2"))

    assert read() == ([77], 1)


@pytest.mark.parametrize("kept", [0, 1], ids=["both families", "one family"])
def test_neighbour_sysctls_that_the_dump_skips_are_read_from_files(
    session: Session, monkeypatch: pytest.MonkeyPatch, reads: list[str], kept: int
) -> None:
    """The kernel skips a link if another one ends between the parts of a dump."""
    expected = host_sysctls(session)
    session.apply(SetUp(Ns.HOST, "eth1"))  # drops the tables of the session
    reads.clear()
    monkeypatch.setattr(
        "dranet_nri.kernel.namespace.parameters_of",
        lambda tables, index: parameters_of(tables, index)[:kept],
    )
    # Those of a link without IPv6 may be known.
    monkeypatch.setattr("dranet_nri.kernel.namespace.known_sysctls", lambda _: ())

    assert host_sysctls(session) == expected
    assert {"ipv4 locktime", "ipv6 locktime"} <= {*reads}


def test_neighbour_sysctls_without_one_that_was_not_read_are_not_remembered(
    session: Session, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    """The files of a link move when it is renamed."""
    plain = sysctl.read_from_files
    monkeypatch.setattr(sysctl, "read_from_files", lambda *arguments: plain(*arguments)[:-1])
    partial = host_sysctls(session)
    monkeypatch.setattr(sysctl, "read_from_files", plain)

    assert host_sysctls(session) > partial


def test_neighbour_sysctls_that_change_during_the_read_are_not_remembered(
    session: Session, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    plain = sysctl.read_from_files
    path = Path("/proc/sys/net/ipv4/neigh/eth1/locktime")
    before: list[Sysctl] = []

    def changing(proc_root: str, name: str, keys: Sequence[tuple[str, str]]) -> tuple[Sysctl, ...]:
        before.append(Sysctl("ipv4", "locktime", path.read_text().strip()))
        path.write_text("80")
        return plain(proc_root, name, keys)

    monkeypatch.setattr(sysctl, "read_from_files", changing)
    assert Sysctl("ipv4", "locktime", "80") in host_sysctls(session)
    monkeypatch.setattr(sysctl, "read_from_files", plain)
    session.apply(SetSysctl(Ns.HOST, "eth1", before[0]))

    assert before[0] in host_sysctls(session)


OWN_NETNS = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@dataclass
class Mute:
    """A socket on which each dump fails."""

    error: KernelError
    requests: int = 0

    def dump(self, *_: object) -> NoReturn:
        """Fail."""
        self.requests += 1
        raise self.error


class WithoutVlans:
    """A socket on which each dump is empty."""

    def dump(self, *_: object) -> list[bytes]:
        """Return nothing."""
        return []


@dataclass(frozen=True)
class Dumped:
    """A host whose links are given. No kernel here makes InfiniBand, nor every one VLANs."""

    dumped: tuple[DumpedLink, ...]
    netlink: Mute | WithoutVlans | None = None
    ns: Ns = Ns.HOST
    fd: int = OWN_NETNS

    def links(self) -> tuple[DumpedLink, ...]:
        """Return them."""
        return self.dumped

    def rules(self) -> tuple[Rule, ...]:
        """Return none."""
        return ()

    def rule_messages(self) -> list[bytes]:
        """Return none."""
        return []

    def main_routes(self) -> RouteUses:
        """Return none."""
        return (), (), ()

    def upper_kinds(self) -> dict[int, tuple[str, ...]]:
        """Return none."""
        return {}

    def ipsec(self) -> None:
        """Return no socket, as a kernel without IPsec."""

    def state(self, link: Link, compared: object = None) -> LinkState:
        """Return nothing but the link."""
        return LinkState(link)


def test_representor_of_another_function_is_never_the_device() -> None:
    parent = {IFLA_PARENT_DEV_BUS_NAME: b"pci\0", IFLA_PARENT_DEV_NAME: b"0000:8a:00.0\0"}
    sides = {"eth1_0": b"pf0vf0\0", "eth9": b"p0\0"}
    host = Dumped(
        tuple(
            DumpedLink(name, index, 1, 0, {**parent, IFLA_PHYS_PORT_NAME: side})
            for index, (name, side) in enumerate(sides.items(), 2)
        )
    )
    alone = Dumped(host.dumped[:1])

    observed = observe(cast("Namespace", host), None, KEY, "", "/no/sysfs")
    without = observe(cast("Namespace", alone), None, KEY, "", "/no/sysfs")

    assert observed.host is not None
    assert observed.host.link.name == "eth9"
    assert (without.host, without.ambiguous) == (None, ())


def test_permanent_address_is_decoded() -> None:
    address = bytes.fromhex("0c42a165d27a")
    observed = DumpedLink("eth1", 2, 1, 0, {IFLA_PERM_ADDRESS: address})

    assert link_from(observed).perm_mac == "0c:42:a1:65:d2:7a"


def test_infiniband_links_lost_with_an_rdma_device_are_listed(tmp_path: Path) -> None:
    function = tmp_path / "devices" / "0000:8a:00.0"
    function.mkdir(parents=True)
    (function / "subsystem").symlink_to("/bus/pci")
    for name in ("ib0", "ib1"):
        (tmp_path / "class" / "net" / name).mkdir(parents=True)
        (tmp_path / "class" / "net" / name / "device").symlink_to(function)
    on_top = {IFLA_LINK: struct.pack("=I", 3)}
    host = Dumped(
        (
            DumpedLink("ib0", 3, ARPHRD_INFINIBAND, 0, {}),
            DumpedLink("ib1", 4, ARPHRD_INFINIBAND, 0, {}),
            DumpedLink("ib0.8001", 8, ARPHRD_INFINIBAND, 0, on_top),
            DumpedLink("vlan7", 9, 1, 0, on_top),
        )
    )
    key = DeviceKey("pci", "0000:8a:00.0", "ib0", "0000:8a:00.0")

    observed = observe(cast("Namespace", host), None, key, "", str(tmp_path))

    assert observed.host is not None
    assert observed.host.link.name == "ib0"
    assert observed.lost_with_rdma == ("ib0.8001", "ib1")


def vlans(*masters: int, wire: Mute | WithoutVlans) -> Dumped:
    """Return a host whose NIC has a VLAN for each master, 0 for none."""
    parent = {IFLA_PARENT_DEV_BUS_NAME: b"pci\0", IFLA_PARENT_DEV_NAME: b"0000:8a:00.0\0"}
    info = struct.pack("=HH5s3x", 9, IFLA_INFO_KIND, b"vlan\0")
    above = {IFLA_LINK: struct.pack("=I", 2), IFLA_LINKINFO: info}
    made = (
        DumpedLink(
            f"eth1.{number}", number, 1, 0, {**above, IFLA_MASTER: struct.pack("=I", master)}
        )
        for number, master in enumerate(masters, 5)
    )
    return Dumped((DumpedLink("eth1", 2, 1, 0, parent), *made), wire)


def test_vlan_removed_during_the_read_is_not_in_use() -> None:
    """Its addresses are dumped after it."""
    (eth1, *_) = hazards(
        host_facts(cast("Namespace", vlans(0, 8, wire=WithoutVlans())), "/no/sysfs")
    ).values()

    assert eth1.startswith("carries eth1.6, a VLAN that the host uses")


def test_unreadable_vlan_addresses_are_an_error() -> None:
    refused = Mute(KernelError("dump addresses", EPERM))

    with pytest.raises(KernelError, match="EPERM"):
        host_facts(cast("Namespace", vlans(0, wire=refused)), "/no/sysfs")


def test_unreadable_link_is_excluded_with_the_error() -> None:
    observed = DumpedLink("eth1", 2, 1, 0, {IFLA_MASTER: b"\0"})

    facts = host_facts(cast("Namespace", Dumped((observed,), WithoutVlans())), "/no/sysfs")

    assert "EBADMSG" in hazards(facts)[2]


def test_recreated_infiniband_link_in_the_pod_is_identified_by_its_guid() -> None:
    """The kernel reports no parents and chooses the name: see ipoib_intf_alloc."""
    key = DeviceKey("pci", "0000:8a:00.0", "ibs5", "0000:8a:00.0")
    guid = bytes.fromhex("0c42a10300655a1e")
    before, now, other = (
        bytes.fromhex(f"8000{pair}fe80000000000000") + port
        for pair, port in (("0041", guid), ("0112", guid), ("0113", guid[:-1] + b"\x1f"))
    )
    pod = Dumped(
        (
            DumpedLink("eth0", 2, 1, 0, {IFLA_ADDRESS: bytes(6)}),
            DumpedLink("ib0", 3, ARPHRD_INFINIBAND, 0, {IFLA_ADDRESS: other}),
            DumpedLink("ib1", 4, ARPHRD_INFINIBAND, 0, {IFLA_ADDRESS: now}),
        )
    )
    identity = DeviceIdentity(9, "ipoib", frozenset({before.hex(":")}))

    def look(identity: DeviceIdentity | None) -> LinkState | None:
        spaces = cast("Namespace", Dumped(())), cast("Namespace", pod)
        return observe(*spaces, key, "net1", "/no/sysfs", identity).pod

    found = look(identity)
    assert found is not None
    assert (found.link.name, found.link.parent) == ("ib1", "0000:8a:00.0")
    assert look(None) is None
