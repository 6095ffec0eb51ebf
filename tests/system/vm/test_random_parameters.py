"""Random valid parameters on a real kernel: attached, and restored without residue.

`hack/prove random` tries 300.
"""

import os
import subprocess
from collections.abc import Iterator

import pytest

from dranet_nri.config import parse_network_config
from dranet_nri.model import Phase
from tests.fakes.configs import random_parameters
from tests.system.kernel.rails import Rails, rails

COUNT = int(os.environ.get("RANDOM_PARAMETERS", "8"))


@pytest.fixture
def host() -> Iterator[Rails]:
    subprocess.run(("modprobe", "--all", "ipvlan", "macvlan", "8021q", "vrf"), check=True)
    with rails(1) as host:
        host.ip("route add 10.66.0.0/16 via 10.5.0.1 dev nic0 table 105")
        host.ip("rule add from 10.5.0.7 table 105 priority 900")
        yield host


def state(host: Rails, pod: int | None = None) -> list[list[str]]:
    commands = (
        "-brief link",
        "-4 -oneline addr",
        "-6 -oneline addr show scope global",
        "-4 route show table all",
        "-6 route show table all proto boot",
        "rule show",
        "-6 rule show",
        "neigh show nud permanent",
    )
    # The secret cannot be read where it is not set.
    files = "/proc/sys/net/ipv4/conf/nic0 /proc/sys/net/ipv6/conf/nic0"
    settings = host.shown(f"-r --exclude=stable_secret . {files}", pod, "grep")
    return [sorted(host.shown(command, pod)) for command in commands] + [sorted(settings)]


@pytest.mark.parametrize("number", range(COUNT))
def test_valid_configuration_is_attached_and_leaves_no_residue(host: Rails, number: int) -> None:
    parameters = random_parameters(number)
    before = state(host)

    record = host.attach("nic0", config=parse_network_config(parameters))

    assert record.phase is Phase.ATTACHED, parameters
    name = record.devices[0].pod_name
    for address in record.devices[0].addresses:
        assert any(address in line for line in host.shown(f"-oneline addr show {name}", 0))
    detached = host.detach(record)
    assert detached.phase is Phase.RESTORED, (parameters, detached)
    assert state(host) == before, parameters
    assert [line for line in host.shown("-brief link", 0) if line.startswith(f"{name} ")] == []
