"""Claims with large records: attach and detach complete, and failures are recorded."""

from contextlib import suppress
from dataclasses import replace
from errno import EBUSY, ENETUNREACH

import pytest

from dranet_nri.errors import InvalidValueError
from dranet_nri.model import Address, Device, Link, Phase, Route
from dranet_nri.plan.ops import AddRoute, MoveLink
from dranet_nri.plan.retry import MAX_RESTORE_TRIES
from dranet_nri.state.record import MAX_RECORD, encode_attachment
from tests.dranet_nri.attach.execution.node import DATA, Node, claim, failure_of, given, pci

pytestmark = pytest.mark.process


# What ethtool shows of a ConnectX that can be switched.
FEATURES = [
    "rx-checksum",
    "tx-checksum-ip-generic",
    "tx-scatter-gather",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "rx-gro",
    "tx-vlan-hw-insert",
    "rx-vlan-hw-parse",
    "rx-hashing",
    "tx-udp_tnl-segmentation",
    "rx-vlan-filter",
    "tx-udp_tnl-csum-segmentation",
    "tx-gre-segmentation",
    "tx-gre-csum-segmentation",
    "tx-gso-partial",
    "tx-ipxip4-segmentation",
    "tx-ipxip6-segmentation",
    "tx-udp-segmentation",
    "tx-vlan-stag-hw-insert",
    "rx-udp_tunnel-port-offload",
    "tx-nocache-copy",
    "rx-lro",
    "rx-ntuple-filter",
    "loopback",
    "rx-fcs",
    "rx-all",
    "rx-gro-hw",
    "hw-tc-offload",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
    "rx-vlan-stag-filter",
    "tx-tcp-mangleid-segmentation",
    "tls-hw-tx-offload",
    "tls-hw-rx-offload",
    "esp-hw-offload",
]
FLAGS = [
    "rx_cqe_moder",
    "tx_cqe_moder",
    "rx_striding_rq",
    "rx_cqe_compress",
    "xdp_tx_mpwqe",
    "skb_tx_mpwqe",
    "tx_port_ts",
]
ATTRIBUTES = tuple(
    (f"dra.net/{name}", value)
    for name, value in (
        ("ibLinkLayer", "Ethernet"),
        ("mac", "02:11:22:33:44:55"),
        ("nodeGUID", "0c42:a103:0065:5a1e"),
        ("pciDevice", "ConnectX Family mlx5Gen Virtual Function"),
        ("pciVendor", "Mellanox Technologies"),
        ("rdmaFirmware", "20.38.1002"),
    )
)
MOST = 32  # devices of a claim, AllocationResultsMaxSize of resource.k8s.io
FIRST = 0x20
PREFIX = "2001:db8:aaaa:bbbb"


class NicLimitNode(Node):
    """A host with as many NICs as a claim can have."""

    watched = tuple(f"ens{number}np0" for number in range(FIRST, FIRST + MOST))

    def arrange(self) -> None:
        for number in range(FIRST, FIRST + MOST):
            name, parent = f"ens{number}np0", f"0000:{number:02x}:00.0"
            routes = (
                Route(
                    f"10.{number}.{third}.0/24", f"10.{number}.0.1", metric=100 + third, protocol=4
                )
                for third in range(8)
            )
            self.kernel.add_link(
                name,
                parent=parent,
                link=Link(0, name, mac=f"02:11:22:33:44:{number:02x}", up=True, max_mtu=9978),
                addresses=(Address(f"10.{number}.0.5/24"), Address(f"fd00:{number:x}::5/64")),
                routes=tuple(routes),
            )
            entry = self.kernel.space().named("arrange", name)
            entry.features = {feature: feature.startswith("t") for feature in FEATURES}
            entry.private_flags = {flag: flag.startswith("r") for flag in FLAGS}
            self.kernel.add_rdma(f"mlx5_{number}", parent=parent)


def nic(number: int) -> Device:
    device = pci(number)
    key = replace(device.key, name=f"ens{number}np0")
    return replace(device, key=key, attributes=ATTRIBUTES)


def test_claim_with_the_maximum_of_nics_is_attached_and_restored() -> None:
    node = NicLimitNode()

    node.attach((claim(DATA, *(given(nic(FIRST + offset)) for offset in range(MOST))),))

    assert node.journal.phases() == {DATA: Phase.ATTACHED}
    assert len(encode_attachment(node.journal.records[DATA])) <= MAX_RECORD
    node.detach()
    node.assert_restored()


class RouteLimitNode(Node):
    """A host with two NICs, each with the maximum of routes."""

    watched: tuple[str, ...] = ("eth7", "eth8")

    def arrange(self) -> None:
        for number in (7, 8):
            self.kernel.add_link(
                f"eth{number}",
                parent=f"0000:{number:02x}:00.0",
                link=Link(0, f"eth{number}", mac=f"02:00:00:00:00:0{number}", up=True),
                addresses=(Address(f"10.0.{number}.5/24"), Address(f"{PREFIX}::{number}/64")),
                routes=tuple(
                    Route(f"{PREFIX}:{metric:x}::/80", f"{PREFIX}::1", table=number, metric=metric)
                    for metric in range(0x1000, 0x1200)
                ),
            )


@pytest.fixture
def node() -> Node:
    """Return a host with two NICs of 512 routes each."""
    return RouteLimitNode()


CROWDED = (claim(DATA, *(given(replace(pci(bus), rdma_devices=())) for bus in (7, 8))),)


def test_two_nics_with_512_routes_each_are_moved_and_restored(node: Node) -> None:
    node.attach(CROWDED)
    assert len(node.in_pod("eth8").routes) == 512

    node.detach()

    assert node.journal.phases() == {DATA: Phase.RESTORED}
    node.assert_restored()


def fill(node: Node) -> None:
    """Grow the claim's record to the limit of an attached claim."""
    record = node.journal.records[DATA]
    first, second = record.devices
    with suppress(InvalidValueError):
        for count in range(0, MAX_RECORD, 1024):
            padded = replace(first.device, attributes=(("dra.net/pad", "x" * count),))
            node.journal.put(replace(record, devices=(replace(first, device=padded), second)))


def test_failure_of_a_detach_fits_into_the_largest_record(
    node: Node,
) -> None:
    node.attach(CROWDED)
    fill(node)
    node.kernel.fail_on(MoveLink, EBUSY, times=2)
    node.retry()
    assert "EBUSY" in failure_of(node).message
    node.kernel.fail_on(AddRoute, ENETUNREACH)

    for _ in range(MAX_RESTORE_TRIES):
        node.retry()
        assert node.journal.phases() == {DATA: Phase.DETACHING}
    node.retry()

    assert node.journal.phases() == {DATA: Phase.RESTORED}
