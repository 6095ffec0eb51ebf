"""Leases of dnsmasq, as a pod gets and keeps them, on the real kernel."""

from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from dranet_nri.attach.renewal import renewed
from dranet_nri.component.clock import SystemClock
from dranet_nri.errors import AttachError
from dranet_nri.kernel.session import NetlinkSession
from dranet_nri.model import (
    Addressing,
    Attachment,
    InterfaceConfig,
    Lease,
    MacvlanConfig,
    NetworkConfig,
    Phase,
    RouteConfig,
)
from dranet_nri.plan.ops import Op
from tests.box.waiting import wait_until
from tests.dranet_nri.attach.execution.journal import Crash
from tests.system.kernel.dnsmasq import LEASE_S, SERVER, dnsmasq, leases
from tests.system.kernel.rails import Rails, rails

NET1 = InterfaceConfig(name="net1", addressing=Addressing.DHCP)
LEASED = NetworkConfig(NET1)


class LaterClock(SystemClock):
    """The system's clock, which can be put forward.

    Attributes:
        ahead_s: by so much.
        waits: whether a wait takes its time.
    """

    def __init__(self) -> None:
        self.ahead_s = 0
        self.waits = True

    def boot(self) -> int:
        return super().boot() + self.ahead_s

    def sleep(self, seconds: float) -> None:
        if self.waits:
            super().sleep(seconds)


def lease_of(record: Attachment) -> Lease:
    """Return the lease of the only device."""
    (device,) = record.devices
    assert device.lease is not None
    return device.lease


def extended(host: Rails, record: Attachment, clock: LaterClock) -> Attachment:
    """Run what is due."""
    session = host.session()
    try:
        return renewed(session, record, clock, lambda: True)
    finally:
        session.close()


def address_of(host: Rails, name: str = "net1") -> str:
    """Return the IPv4 address of a link of the pod, with its lifetime."""
    return " ".join(host.shown(f"-4 addr show {name}", pod=0))


def test_pod_gets_address_routes_and_mtu_and_releases_its_lease(tmp_path: Path) -> None:
    options = (
        "--dhcp-option=option:router,10.77.0.254",
        "--dhcp-option=option:mtu,1400",
        "--dhcp-option=121,10.88.0.0/16,10.77.0.9,10.89.0.0/16,0.0.0.0,0.0.0.0/0,10.77.0.253",
    )
    config = replace(LEASED, routes=(RouteConfig("10.90.0.0/16", "10.77.0.1"),))
    with rails(1, clock=SystemClock()) as host, dnsmasq(host, tmp_path, *options) as server:
        before = host.shown("-d addr show nic0"), host.routes("root 0.0.0.0/0")

        record = host.attach("nic0", config=config)

        lease = lease_of(record)
        assert (lease.lease_s, lease.server) == (LEASE_S, SERVER)
        assert record.devices[0].addresses == (lease.address,)
        assert f"inet {lease.address}" in address_of(host)
        assert "valid_lft 1" in address_of(host)  # 1xx s
        assert "mtu 1400" in host.shown("link show net1", pod=0)[0]
        routes = "\n".join(host.shown("-4 route show dev net1", pod=0))
        assert "default via 10.77.0.253 proto dhcp metric 2048" in routes
        assert "10.88.0.0/16 via 10.77.0.9 proto dhcp" in routes
        assert "10.89.0.0/16 proto dhcp scope link" in routes
        assert "10.90.0.0/16 via 10.77.0.1 proto static" in routes
        assert host.detach(record).phase is Phase.RESTORED
        assert lease.address.partition("/")[0] in server.until("DHCPRELEASE")
        assert (host.shown("-d addr show nic0"), host.routes("root 0.0.0.0/0")) == before
    wait_until("the server to store the release", lambda: leases(tmp_path) == [])


def test_lease_is_renewed_by_its_server_and_rebound_by_any(tmp_path: Path) -> None:
    clock = LaterClock()
    with rails(1, clock=clock) as host, dnsmasq(host, tmp_path) as server:
        record = host.attach("nic0", config=LEASED)
        server.until("DHCPACK")
        first = lease_of(record)
        assert extended(host, record, clock) == record

        for ahead_s in (first.renew_s, first.rebind_s + 1):
            clock.ahead_s += ahead_s + 1
            host.ip(f"addr change {first.address} dev net1 valid_lft 30 preferred_lft 30", pod=0)
            asked_s = clock.boot()
            record = extended(host, record, clock)
            lease = lease_of(record)
            assert lease.address.partition("/")[0] in server.until("DHCPREQUEST")
            assert lease.address == first.address
            assert lease.since_s >= asked_s
            assert "valid_lft 1" in address_of(host)  # 1xx s, not what is left of 30


def test_lease_survives_a_crash_of_the_plugin_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, real = LaterClock(), NetlinkSession.apply
    with rails(1, clock=clock) as host, dnsmasq(host, tmp_path) as server:
        for step in count(1):
            done: list[str] = []

            def crash_after(session: NetlinkSession, op: Op, done: list[str] = done) -> None:
                real(session, op)
                done.append(str(op))
                if len(done) == step:  # noqa: B023 - called in this round only
                    raise Crash

            monkeypatch.setattr(NetlinkSession, "apply", crash_after)
            with suppress(Crash):
                host.attach("nic0", config=LEASED)
            monkeypatch.setattr(NetlinkSession, "apply", real)
            (before,) = host.journal.records.values()
            host.restart()

            is_whole = len(done) < step
            record = before if is_whole else host.attach("nic0", config=LEASED, before=before)

            lease = lease_of(record)
            assert leases(tmp_path) == [lease.address.partition("/")[0]], done
            assert f"inet {lease.address}" in address_of(host)
            clock.ahead_s += lease.renew_s + 1
            asked_s = clock.boot()
            renewed_lease = lease_of(extended(host, record, clock))
            assert renewed_lease.address == lease.address
            assert renewed_lease.since_s >= asked_s
            assert host.detach(record).phase is Phase.RESTORED
            assert lease.address.partition("/")[0] in server.until("DHCPRELEASE")
            wait_until("the server to store the release", lambda: leases(tmp_path) == [])
            if is_whole:
                break


def test_lease_that_no_server_extends_ends_and_is_acquired_again(tmp_path: Path) -> None:
    clock = LaterClock()
    with rails(1, clock=clock) as host:
        with dnsmasq(host, tmp_path):
            record = host.attach("nic0", config=LEASED)
        clock.waits = False
        for at_s in (lease_of(record).renew_s, lease_of(record).rebind_s):
            clock.ahead_s = at_s + 1
            assert extended(host, record, clock) == record

        clock.ahead_s = LEASE_S + 1
        lost = extended(host, record, clock)

        assert (lost.phase, lost.devices[0].addresses) == (Phase.INTENT, ())
        assert lost.failure is not None
        assert "no DHCP server extended it" in lost.failure.message
        assert "inet" not in address_of(host)
        with pytest.raises(AttachError, match="no DHCP server granted net1 an address within 2 s"):
            host.attach("nic0", config=LEASED, before=lost)
        clock.waits = True
        with dnsmasq(host, tmp_path, "--dhcp-option=option:router,10.77.0.254"):
            again = host.attach("nic0", config=LEASED, before=lost)
            assert again.phase is Phase.ATTACHED
            assert f"inet {lease_of(again).address}" in address_of(host)
            assert host.routes("default", pod=0) == [
                "default via 10.77.0.254 dev net1 proto dhcp metric 2048"
            ]


def test_address_withdrawn_by_a_server_is_removed_from_the_pod(tmp_path: Path) -> None:
    clock = LaterClock()
    with rails(1, clock=clock) as host:
        with dnsmasq(host, tmp_path):
            record = host.attach("nic0", config=LEASED)
        clock.ahead_s = lease_of(record).renew_s + 1
        (tmp_path / "leases").unlink()
        taken = lease_of(record).address.partition("/")[0]
        with dnsmasq(host, tmp_path, f"--dhcp-host=02:00:00:00:00:77,{taken}"):
            lost = extended(host, record, clock)

        assert lost.failure is not None
        assert (
            f"the DHCP server {SERVER} withdrew {lease_of(record).address}" in lost.failure.message
        )
        assert "inet" not in address_of(host)


def test_child_has_its_own_lease(tmp_path: Path) -> None:
    child = NetworkConfig(replace(NET1, macvlan=MacvlanConfig()))
    clock = LaterClock()
    with (
        rails(1, clock=clock) as host,
        dnsmasq(host, tmp_path, "--dhcp-option=option:mtu,9000") as server,
    ):
        record = host.attach("nic0", config=child)

        assert "mtu 1500" in host.shown("link show net1", pod=0)[0]  # no longer that of the parent
        clock.ahead_s = lease_of(record).renew_s + 1
        asked_s = clock.boot()
        assert lease_of(extended(host, record, clock)).since_s >= asked_s
        assert host.detach(record).phase is Phase.RESTORED
        server.until("DHCPRELEASE")


def test_lease_of_a_nic_that_the_pod_renamed_is_renewed_and_released(tmp_path: Path) -> None:
    clock = LaterClock()
    with rails(1, clock=clock) as host, dnsmasq(host, tmp_path) as server:
        record = host.attach("nic0", config=LEASED)
        host.ip("link set net1 down", "link set net1 name data0", "link set data0 up", pod=0)
        clock.ahead_s = lease_of(record).renew_s + 1
        asked_s = clock.boot()

        record = extended(host, record, clock)

        assert lease_of(record).since_s >= asked_s
        assert f"inet {lease_of(record).address}" in address_of(host, "data0")
        assert host.detach(record).phase is Phase.RESTORED
        server.until("DHCPRELEASE")


def test_nic_without_a_dhcp_server_is_restored_on_the_host(tmp_path: Path) -> None:
    clock = LaterClock()
    clock.waits = False
    with rails(2, clock=clock) as host, dnsmasq(host, tmp_path):
        before = host.shown("-d addr show nic1")
        clock.waits = True
        with pytest.raises(AttachError, match="device nic1: no DHCP server granted nic1"):
            host.attach("nic0", "nic1", config=NetworkConfig(replace(NET1, name=None)))

        assert host.shown("-d addr show nic1") == before
    wait_until("the release of nic0", lambda: leases(tmp_path) == [])
