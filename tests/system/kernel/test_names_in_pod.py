"""Names and addresses that claims give to NICs in pods, on the real kernel (cases c13, c26)."""

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import InterfaceConfig, NetworkConfig, Phase
from tests.system.kernel.rails import rails


def named(name: str) -> NetworkConfig:
    return NetworkConfig(InterfaceConfig(name=name))


@pytest.mark.parametrize("name", ["gpu0rdma2.100", "a23456789012345", "net9"])
def test_c13_nic_has_the_claimed_name_and_is_restored_without_it(name: str) -> None:
    with rails(2) as host:
        host.ip("link property add dev nic1 altname net9")
        before = host.shown("-d link show nic0")

        record = host.attach("nic0", config=named(name))

        assert record.phase is Phase.ATTACHED
        assert host.shown(f"-br link show {name}", pod=0)
        assert host.detach(record).phase is Phase.RESTORED
        assert host.shown("-d link show nic0") == before


def test_c13_eth0_is_refused_with_the_remedy_and_the_nic_stays_on_the_host() -> None:
    with rails(1) as host:
        before = host.shown("-d addr show nic0")

        with pytest.raises(RefusedError, match=r"'eth0' for device nic0 is taken in the pod; set"):
            host.attach("nic0", config=named("eth0"))

        assert host.shown("-d addr show nic0") == before
        (cni,) = host.shown("-br addr show eth0", pod=0)
        assert "10.244.1.5/24" in cni


def test_c13_second_claim_with_the_same_name_is_refused() -> None:
    with rails(2) as host:
        host.attach("nic0", config=named("net1"))
        before = host.shown("-d addr show nic1")

        with pytest.raises(RefusedError, match=r"'net1' for device nic1 is taken in the pod; set"):
            host.attach("nic1", config=named("net1"))

        assert host.shown("-d addr show nic1") == before
        assert host.shown("-br addr show net1", pod=0)[0].split()[2] == "10.5.0.7/24"


def test_c26_nics_with_one_claimed_address_are_restored_with_their_own() -> None:
    config = NetworkConfig(InterfaceConfig(hardware_addr="00:23:00:24:8d:13"))
    with rails(2, pods=2) as host:
        before = [host.shown(f"-d addr show nic{number}") for number in range(2)]

        records = [host.attach(f"nic{number}", pod=number, config=config) for number in range(2)]

        for number, record in enumerate(records):
            assert record.phase is Phase.ATTACHED
            assert "00:23:00:24:8d:13" in host.shown(f"-br link show nic{number}", pod=number)[0]
            assert host.detach(record).phase is Phase.RESTORED
        assert [host.shown(f"-d addr show nic{number}") for number in range(2)] == before
