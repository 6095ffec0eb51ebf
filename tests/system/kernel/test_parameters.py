"""Parameters of a claim on the real kernel: seen in the pod by iproute2, and not on the host."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from dranet_nri.config import parse_network_config
from dranet_nri.config.fields import BLOCK_FIELDS, TOP_FIELDS
from dranet_nri.linux.bpf import tcx_names
from dranet_nri.model import Ns, Phase, SettingGroup
from tests.box.waiting import settled
from tests.system.kernel import bpf
from tests.system.kernel.rails import Rails, rails
from tests.system.vm import test_children, test_driver_settings, test_link_settings

TESTS = Path(__file__).parents[2]
MAC = "02:00:00:00:77:05"
Document = dict[str, object]


@dataclass(frozen=True, slots=True)
class Row:
    """Parameters, and what must be among the lines that commands of iproute2 show in the pod."""

    claimed: Document
    shown: Mapping[str, tuple[str, ...]]


def interface(**fields: object) -> Document:
    return {"interface": fields}


ROWS = {
    "name and addresses": Row(
        interface(name="net1", addresses=["10.9.0.5/24", "fd09::5/64"]),
        {"-oneline addr show net1": ("inet 10.9.0.5/24", "inet6 fd09::5/64")},
    ),
    "child without addresses": Row(
        interface(type="MACVLAN", name="net1", addressing="Unnumbered"),
        {"-details link show net1": ("macvlan mode bridge", "state UP")},
    ),
    "no address": Row(interface(addresses=[]), {"-4 -oneline addr": ("eth0 inet 10.244.1.5/24",)}),
    "MTU and MAC": Row(
        interface(mtu=1400, hardwareAddr=MAC),
        {"link show nic0": ("mtu 1400", f"link/ether {MAC}")},
    ),
    "sizes of IPv6": Row(
        interface(gsoMaxSize=40000, groMaxSize=30000),
        {"-details link show nic0": ("gso_max_size 40000", "gro_max_size 30000")},
    ),
    "routes": Row(
        {
            **interface(addresses=["10.5.0.7/24", "10.5.0.8/24", "fd00::7/64"]),
            "routes": [
                {"destination": "10.8.0.0/16", "gateway": "10.5.0.1", "source": "10.5.0.8"},
                {"destination": "10.7.0.0/16", "scope": 253, "metric": 9},
                {"destination": "fd08::/48", "gateway": "fd00::1", "metric": 7, "table": 77},
            ],
        },
        {
            "-4 route show dev nic0": (
                "10.8.0.0/16 via 10.5.0.1 proto static src 10.5.0.8",
                "10.7.0.0/16 proto static scope link metric 9",
            ),
            "-6 route show table 77": ("fd08::/48 via fd00::1 dev nic0 proto static metric 7",),
        },
    ),
    "rules": Row(
        {
            "rules": [
                {"priority": 700, "source": "10.5.0.0/24", "table": 77},
                {"priority": 701, "destination": "10.8.0.0/16", "table": 77},
                {"priority": 702, "source": "fd00::/64", "destination": "fd08::/48", "table": 77},
            ]
        },
        {
            "rule": (
                "700: from 10.5.0.0/24 lookup 77",
                "701: from all to 10.8.0.0/16 lookup 77",
            ),
            "-6 rule": ("702: from fd00::/64 to fd08::/48 lookup 77",),
        },
    ),
    "neighbors": Row(
        {
            "neighbors": [
                {"destination": "10.5.0.9", "hardwareAddr": MAC},
                {"destination": "fd00::9", "hardwareAddr": MAC},
            ]
        },
        {
            "neigh show nud permanent": (
                f"10.5.0.9 dev nic0 lladdr {MAC} PERMANENT",
                f"fd00::9 dev nic0 lladdr {MAC} PERMANENT",
            )
        },
    ),
}
SYSCTLS = interface(arpIgnore=8, arpAnnounce=2, forwarding=True)
QUEUES: Document = {"channels": {"rx": 2, "tx": 3}}
# Fields that another test sets and observes.
_VRF = "system/vm/test_link_settings.py::test_existing_vrf_of_the_pod_is_used_if_its_table_matches"
_RSS = (
    "system/vm/test_driver_settings.py"
    "::test_rss_is_applied_in_the_pod_and_follows_the_channels_on_the_host"
)
ELSEWHERE = {
    "profile": "system/cluster_vm/test_dranet_cases.py::test_address_of_a_profile_is_released",
    "interface.disableEbpfPrograms": (
        "system/kernel/test_parameters.py"
        "::test_programs_of_the_host_are_detached_in_the_pod_and_restored"
    ),
    "interface.altnames": (
        "system/vm/test_link_settings.py"
        "::test_attributes_of_the_link_are_applied_in_the_pod_and_restored"
    ),
    "interface.vrf.name": _VRF,
    "interface.vrf.table": _VRF,
    "ethtool.features": "box/attach.py::test_parameters_of_the_claim_are_applied",
    "ethtool.privateFlags": (
        "system/vm/test_driver_settings.py"
        "::test_private_flag_is_applied_in_the_pod_and_restored_on_the_host"
    ),
    "ethtool.rss.equal": _RSS,
    "ethtool.rss.weights": _RSS,
    "rdma.charDevices": (
        "system/vm/test_rdma_shared.py"
        "::test_claim_selects_its_device_files_and_a_missing_one_is_reported"
    ),
    "rdma.name": (
        "system/vm/test_rdma_trouble.py::test_rdma_name_is_set_in_the_pod_and_removed_on_the_host"
    ),
}
# No kernel here has an InfiniBand port, or a driver with these settings.
UNSEEN = {
    *("interface.ipoib.pkey", "interface.ipoib.mode"),
    *("ethtool.rings.rxMini", "ethtool.channels.other", "ethtool.pause.autoneg"),
}


@pytest.fixture
def host() -> Iterator[Rails]:
    with rails(1) as host:
        yield host


def state(host: Rails) -> list[list[str]]:
    """Return the lines about the host, sorted, without link-local addresses, which need time."""
    commands = (
        "-details link show nic0",
        "addr",
        "-4 route show table all",
        "-6 route show table all",
        "rule",
        "-6 rule",
        "neigh show nud permanent",
    )
    shown = [host.shown(command) for command in commands]
    return [sorted(line for line in lines if "fe80:" not in line) for lines in shown]


@pytest.mark.parametrize("name", ROWS)
def test_parameter_is_applied_in_the_pod_and_the_host_restored(host: Rails, name: str) -> None:
    before, row = state(host), ROWS[name]

    record = host.attach("nic0", config=parse_network_config(row.claimed))

    for command, texts in row.shown.items():
        lines = host.shown(command, pod=0)
        assert [text for text in texts if not any(text in line for line in lines)] == [], lines
    if name in ("no address", "child without addresses"):
        link = "net1" if name == "child without addresses" else "nic0"
        assert not host.shown(f"-oneline addr show {link} scope global", pod=0)
    assert host.detach(record).phase is Phase.RESTORED
    assert settled(lambda: state(host), before) == before


def test_sysctls_are_applied_in_the_pod_and_those_of_the_host_restored(host: Rails) -> None:
    keys = [
        f"net.{key}"
        for key in (
            "ipv4.conf.nic0.arp_ignore",
            "ipv4.conf.nic0.arp_announce",
            "ipv4.conf.nic0.forwarding",
            "ipv6.conf.nic0.forwarding",
        )
    ]
    host.write_sysctl(f"{keys[0]}=1")
    before = [host.read_sysctl(key) for key in keys]

    record = host.attach("nic0", config=parse_network_config(SYSCTLS))

    assert [host.read_sysctl(key, pod=0) for key in keys] == ["8", "2", "1", "1"]
    assert host.detach(record).phase is Phase.RESTORED
    assert [host.read_sysctl(key) for key in keys] == before == ["1", "0", "0", "0"]


def test_programs_of_the_host_are_detached_in_the_pod_and_restored(host: Rails) -> None:
    host.call(lambda: bpf.attach_tcx("nic0", "count"))
    host.call(lambda: bpf.attach_tcx("nic0", "send", bpf.TCX_EGRESS))
    host.call(lambda: bpf.attach_filter("nic0", "filter"))
    before = host.call(tcx_names)
    assert [*before.values()] == [("count", "send")]
    config = parse_network_config(interface(disableEbpfPrograms=True))

    record = host.attach("nic0", config=config)

    assert host.call(tcx_names, pod=0) == {}
    assert host.shown("filter show dev nic0 ingress", pod=0, tool="tc") == []
    assert host.detach(record).phase is Phase.RESTORED
    assert host.call(tcx_names) == before


def test_queues_are_set_in_the_pod_and_restored(host: Rails) -> None:
    host.ip("link add nic1 numrxqueues 4 numtxqueues 4 type veth peer name far1")

    record = host.attach("nic1", config=parse_network_config({"ethtool": QUEUES}))

    assert queues(host, Ns.POD) == {"channels.rx": 2, "channels.tx": 3}
    assert host.detach(record).phase is Phase.RESTORED
    assert queues(host, Ns.HOST) == {"channels.rx": 4, "channels.tx": 4}


def queues(host: Rails, ns: Ns) -> dict[str, int]:
    """Return the numbers of receive and transmit queues of nic1, as the kernel answers."""
    (line,) = host.shown("-oneline link show nic1", pod=0 if ns is Ns.POD else None)
    session = host.session()
    try:
        state = session.ethtool(ns, int(line.partition(":")[0]), (SettingGroup.CHANNELS,))
    finally:
        session.close()
    assert state is not None
    return {setting.name: setting.value for setting in state.settings if setting.maximum}


def test_every_field_has_a_test_on_a_kernel() -> None:
    documents: list[object] = [row.claimed for row in ROWS.values()]
    documents += [SYSCTLS, {"ethtool": QUEUES}, {"interface": test_link_settings.LINK}]
    documents += [{"interface": claimed} for claimed, _, _ in test_link_settings.ROWS]
    documents += [{"ethtool": claimed} for claimed, _, _ in test_driver_settings.ROWS.values()]
    children = [row.values[0] for row in test_children.ROWS]
    documents += [
        {"interface": row.interface} for row in children if isinstance(row, test_children.Row)
    ]
    claimed = {field for document in documents for field in fields_of(document)}

    assert {*known_fields()} == claimed | ELSEWHERE.keys() | UNSEEN
    assert not claimed & (ELSEWHERE.keys() | UNSEEN)
    for place in ELSEWHERE.values():
        file, _, test = place.partition("::")
        assert f"def {test}(" in (TESTS / file).read_text(), place


def fields_of(value: object, path: str = "") -> Iterator[str]:
    """Yield the paths of the values in a document, without positions in lists."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from fields_of(inner, f"{path}.{name}".removeprefix("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from fields_of(inner, path)
    else:
        yield path


def known_fields() -> Iterator[str]:
    """Yield the paths of the fields of a NetworkConfig that change a pod."""
    yield "profile"
    for top, fields in TOP_FIELDS.items():
        for name in fields:
            inner = BLOCK_FIELDS.get(name)
            yield from (f"{top}.{name}.{field}" for field in inner) if inner else (f"{top}.{name}",)
