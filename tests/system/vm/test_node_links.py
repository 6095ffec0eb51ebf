"""NICs that the node uses by modules of distributions: HSR, PRP, AMT and WireGuard."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyroute2 import WireGuard

from dranet_nri.facts.scan import scan
from dranet_nri.kernel.netns import run_inside
from tests.system.kernel.namespaces import add_veth, open_netns

KEY = "YNqHbfBQKaGvzefSDpCqMkDMEmFpCHCi7fIxnCSxKFA="


class Host:
    """A host with nic1 (10.5.0.7/24), nic2 and nic3."""

    def __init__(self, nsfd: int, wire: int) -> None:
        """Make it in these namespaces."""
        self._nsfd = nsfd
        for name in ("nic1", "nic2", "nic3"):
            add_veth(nsfd, name, wire)
            self.ip(f"link set {name} up")
        self.ip("addr add 10.5.0.7/24 dev nic1")

    def ip(self, command: str) -> None:
        """Run iproute2."""
        arguments = ["ip", *command.split()]
        run_inside(self._nsfd, lambda: subprocess.run(arguments, check=True))

    def add_peer(self, name: str, endpoint: str) -> None:
        """Add a peer to a WireGuard link."""

        def work() -> None:
            peer = {"public_key": KEY, "endpoint_addr": endpoint, "endpoint_port": 51820}
            with WireGuard() as wireguard:
                wireguard.set(name, private_key=KEY, peer=peer)

        run_inside(self._nsfd, work)

    def reasons(self) -> dict[str, str]:
        """Return the reasons why NICs are excluded."""
        excluded = dict(run_inside(self._nsfd, scan).excluded)
        return {name: reason for name, reason in excluded.items() if name.startswith("nic")}


@pytest.fixture
def host() -> Iterator[Host]:
    subprocess.run(("modprobe", "--all", "amt", "hsr", "wireguard"), check=True)
    with ExitStack() as stack:
        yield Host(stack.enter_context(open_netns()), stack.enter_context(open_netns()))


@pytest.mark.parametrize("protocol", ["0", "1"], ids=["HSR", "PRP"])
def test_ports_of_a_redundant_ring_are_excluded(host: Host, protocol: str) -> None:
    host.ip(f"link add ring0 type hsr slave1 nic1 slave2 nic2 proto {protocol}")

    reason = "carries ring0, a hsr link, which loses its network when the NIC leaves"
    assert host.reasons() == {"nic1": reason, "nic2": reason}


def test_lower_link_of_a_multicast_tunnel_is_excluded(host: Host) -> None:
    host.ip("link add amt0 type amt mode gateway local 10.5.0.7 discovery 10.5.0.9 dev nic1")

    assert host.reasons() == {"nic1": "carries amt0, which the kernel deletes when it leaves"}


@pytest.mark.parametrize(("endpoint", "names"), [("10.5.0.9", {"nic1"}), ("10.9.0.9", set())])
def test_nic_towards_a_wireguard_peer_is_excluded(
    host: Host, endpoint: str, names: set[str]
) -> None:
    host.ip("link add wg0 type wireguard")
    host.add_peer("wg0", endpoint)

    reasons = host.reasons()

    assert reasons.keys() == names
    assert all(reason.startswith("WireGuard of the node sends") for reason in reasons.values())
