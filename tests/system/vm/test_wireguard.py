"""NICs through which WireGuard of the node sends."""

import subprocess

import pytest
from pyroute2 import WireGuard

from dranet_nri.facts.scan import read_host
from dranet_nri.inventory import inventory_from_facts
from dranet_nri.kernel.netns import run_inside
from tests.system.kernel.namespaces import add_veth, open_netns

KEY = "YNqHbfBQKaGvzefSDpCqMkDMEmFpCHCi7fIxnCSxKFA="


@pytest.mark.parametrize(
    ("endpoint", "mark", "names"),
    [
        pytest.param("10.5.0.9", 0, {"nic1"}, id="on the link"),
        pytest.param("fd00::9", 0, {"nic1"}, id="IPv6"),
        pytest.param("10.9.0.9", 0, set(), id="without a route"),
        pytest.param("10.9.0.9", 7, {"nic2"}, id="by a rule for the mark"),
    ],
)
def test_nic_towards_a_wireguard_peer_is_excluded(
    endpoint: str, mark: int, names: set[str]
) -> None:
    subprocess.run(("modprobe", "wireguard"), check=True)
    peer = {"public_key": KEY, "endpoint_addr": endpoint, "endpoint_port": 51820}

    def reasons() -> dict[str, str]:
        for command in (
            "link set lo up",
            "addr add 10.5.0.7/24 dev nic1",
            "addr add fd00::7/64 dev nic1 nodad",
            *(f"link set {name} up" for name in ("nic1", "nic2")),
            "route add 10.9.0.0/16 dev nic2 table 7",
            "rule add fwmark 7 lookup 7",
            "link add wg0 type wireguard",
        ):
            subprocess.run(["ip", *command.split()], check=True)
        with WireGuard() as wireguard:
            wireguard.set("wg0", private_key=KEY, fwmark=mark, peer=peer)
        return dict(inventory_from_facts(read_host()).excluded)

    with open_netns() as host, open_netns() as wire:
        for name in ("nic1", "nic2"):
            add_veth(host, name, wire)
        excluded = run_inside(host, reasons)

    found = {name for name, reason in excluded.items() if reason.startswith("WireGuard of the")}
    assert found == names
