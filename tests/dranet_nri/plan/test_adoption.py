"""A device that is found in a pod without a record."""

from dataclasses import replace

import pytest

from dranet_nri.model import (
    AllocatedDevice,
    Device,
    DeviceKey,
    InterfaceConfig,
    LinkState,
    NetworkConfig,
    RdmaLink,
    Route,
    RouteConfig,
    Sysctl,
    XdpMode,
    XdpProgram,
)
from dranet_nri.plan.adoption import adopted, adopted_rdma
from tests.dranet_nri.plan.examples import FULL, NIC

PUBLISHED = Device(
    "pci-0000-8a-00-0",
    DeviceKey("pci", "0000:8a:00.0", "eth1"),
    (("dra.net/mac", NIC.mac), ("dra.net/mtu", 1500)),
)


def test_inherited_configuration_is_restored_under_the_published_name() -> None:
    there = replace(FULL, link=replace(NIC, name="net1", mtu=9000, mac="02:00:00:00:77:07"))
    there = replace(there, sysctls=(Sysctl("ipv4", "forwarding", "1"),))

    state = adopted(there, AllocatedDevice("nic", "node", PUBLISHED))

    assert state == replace(FULL, link=replace(NIC, xdp=()), sysctls=(), tcx=())


def test_program_found_in_the_pod_belongs_to_the_pod() -> None:
    there = replace(NIC, flags=0x1000, group=7, xdp=(XdpProgram(XdpMode.NATIVE, 7),))

    link = adopted(LinkState(there), AllocatedDevice("nic", "node", PUBLISHED)).link

    assert link == replace(there, xdp=())


def test_claimed_addresses_altnames_and_routes_are_omitted() -> None:
    config = NetworkConfig(
        InterfaceConfig(addresses=("192.168.7.5/24",), altnames=("rail-0",)),
        routes=(RouteConfig("172.31.0.0/16", gateway="192.168.7.1"),),
    )
    there = LinkState(replace(NIC, altnames=(*NIC.altnames, "rail-0")))
    given = replace(
        there,
        addresses=(replace(FULL.addresses[0], cidr="192.168.7.5/24"),),
        routes=(Route("172.31.0.0/16", gateway="192.168.7.1", protocol=4),),
    )

    state = adopted(given, AllocatedDevice("nic", "node", PUBLISHED, config))

    assert (state.addresses, state.routes, state.link.altnames) == ((), (), NIC.altnames)


def test_mtu_and_address_are_kept_without_published_facts() -> None:
    without_attributes = Device("pci-0000-8a-00-0", DeviceKey("pci", "0000:8a:00.0", "eth1"))

    assert adopted(
        LinkState(NIC), AllocatedDevice("nic", "node", without_attributes)
    ).link == replace(NIC, xdp=())


HCA = RdmaLink(3, "mlx5_0", "0c42:a103:0065:5a1e")
SMI = RdmaLink(4, "smi0", "0c42:a103:0065:5a1f")
GUID = ("dra.net/nodeGUID", HCA.node_guid)


@pytest.mark.parametrize(
    ("there", "names", "found"),
    [
        pytest.param((HCA,), ("mlx5_0",), (HCA,), id="its name"),
        pytest.param((replace(HCA, name="hca0"),), ("mlx5_0",), (HCA,), id="renamed"),
        pytest.param(
            (SMI, replace(HCA, name="hca0")), ("mlx5_0", "smi0"), (SMI, HCA), id="one renamed"
        ),
        pytest.param(
            (replace(SMI, name="a"), replace(HCA, name="b")), ("mlx5_0", "smi0"), (), id="both"
        ),
        pytest.param((HCA, replace(SMI, name="rxe0")), ("mlx5_0",), (HCA,), id="one more"),
        pytest.param(
            (replace(HCA, name="a"), replace(SMI, name="b")), ("mlx5_0",), (), id="unclear"
        ),
        pytest.param((replace(HCA, node_guid="0:0:0:1"),), ("mlx5_0",), (), id="another's GUID"),
        pytest.param((SMI,), ("mlx5_0", "smi0"), (SMI,), id="the second's own GUID"),
        pytest.param((), ("mlx5_0",), (), id="none"),
    ],
)
def test_rdma_devices_are_restored_under_their_published_names(
    there: tuple[RdmaLink, ...], names: tuple[str, ...], found: tuple[RdmaLink, ...]
) -> None:
    published = replace(PUBLISHED, attributes=(GUID,), rdma_devices=names)

    assert adopted_rdma(there, published) == found


def test_rdma_device_without_a_published_guid_is_identified_by_name() -> None:
    assert adopted_rdma((HCA,), replace(PUBLISHED, rdma_devices=("mlx5_0",))) == (HCA,)


def test_claimed_route_with_another_metric_is_no_host_route() -> None:
    claimed = NetworkConfig(routes=(RouteConfig("0.0.0.0/0", gateway="10.1.0.1"),))
    hosts = Route("10.9.0.0/16", gateway="10.1.0.1", metric=3)
    there = replace(FULL, routes=(Route("0.0.0.0/0", gateway="10.1.0.1", metric=2), hosts))

    state = adopted(there, AllocatedDevice("nic", "node", PUBLISHED, claimed))

    assert state.routes == (hosts,)
