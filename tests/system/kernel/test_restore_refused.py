"""Restore on the real kernel of a NIC whose earlier setting the kernel refuses."""

from dranet_nri.model import Phase
from tests.system.kernel.rails import rails


def test_nic_returns_although_its_parent_has_a_lower_mtu_now() -> None:
    with rails(1) as host:
        host.ip("link set nic0 mtu 9000", "link add link nic0 name data0 type macvlan")
        host.ip("addr add 10.6.0.7/24 dev data0", "link set data0 up")
        record = host.attach("data0")
        host.ip("link set nic0 mtu 1500")

        record = host.detach(record)

        (shown,) = host.shown("-oneline link show data0")
        assert " mtu 1500 " in shown
        assert any("10.6.0.7/24" in line for line in host.shown("-oneline addr show data0"))
        assert record.phase is Phase.DETACHING
        assert record.failure is not None
        assert "set mtu 9000 on data0 in host: EINVAL" in record.failure.message


def test_nic_whose_altname_another_link_has_now_returns_with_a_report() -> None:
    with rails(1) as host:
        host.ip("link property add dev nic0 altname enp9s0")
        record = host.attach("nic0")
        host.ip("link property add dev uplink altname enp9s0")

        record = host.detach(record)

        assert record.phase is Phase.RESTORED
        assert record.failure is not None
        assert "another link has its altname enp9s0" in record.failure.message
