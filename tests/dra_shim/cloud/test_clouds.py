"""Device facts of each cloud, from recorded metadata without a server."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from dra_shim.cloud.alibaba import ALIBABA
from dra_shim.cloud.aws import AWS
from dra_shim.cloud.azure import AZURE
from dra_shim.cloud.coreweave import CoreWeave
from dra_shim.cloud.gce import GCE
from dra_shim.cloud.oke import OKE
from dra_shim.cloud.provider import (
    Cloud,
    CloudError,
    DeviceFacts,
    MetadataRequest,
    ProviderDeviceId,
    enriched,
    identity_of,
)
from dranet_nri.config import parse_network_config
from dranet_nri.config.addressing import gateway_violations
from dranet_nri.model import AttributeValue, Device, DeviceKey, Version, table_of

MAC = "02:00:00:00:00:01"
NIC = ProviderDeviceId("pci-0000-00-05-0", "eth1", MAC, "0000:00:05.0")
OTHER = ProviderDeviceId("pci-0000-00-06-0", "eth2", "02:00:00:00:00:02", "0000:00:06.0")
ID_ALONE = ProviderDeviceId("pci-0000-00-07-0")

Answers = Mapping[str, object]


def facts(cloud: Cloud, answers: Answers, device: ProviderDeviceId) -> DeviceFacts:
    async def ask(question: MetadataRequest) -> str:
        path = question.path.partition("?")[0]
        if path not in answers and question.optional:
            return ""
        answer = answers[path]
        return answer if isinstance(answer, str) else json.dumps(answer)

    async def load() -> DeviceFacts:
        return (await cloud.load(ask))(device)

    return asyncio.run(load())


def attributes(cloud: Cloud, answers: Answers, device: ProviderDeviceId) -> dict[str, object]:
    return dict(facts(cloud, answers, device).attributes)


# --------------------------------------------------------------------------- GCE

_GCE = "/computeMetadata/v1/instance"
GCE_ANSWERS: dict[str, object] = {
    f"{_GCE}/machine-type": "projects/11/machineTypes/a3-highgpu-8g",
    f"{_GCE}/attributes/physical_host": "/b1/s2/h3",
    f"{_GCE}/network-interfaces/": [
        {
            "mac": MAC,
            "network": "projects/628944397724/networks/rdma-0",
            "ipAliases": ["10.4.3.0/24", "10.5.0.0/28"],
        },
        {"mac": "02:00:00:00:00:02", "network": "default"},
    ],
}


def test_gce_describes_a_nic_by_its_mac() -> None:
    assert attributes(GCE, GCE_ANSWERS, NIC) == {
        "gce.dra.net/machineType": "a3-highgpu-8g",
        "gce.dra.net/block": "b1",
        "gce.dra.net/subBlock": "s2",
        "gce.dra.net/host": "h3",
        "gce.dra.net/networkName": "rdma-0",
        "gce.dra.net/networkProjectNumber": 628944397724,
        "gce.dra.net/ipAliases": "10.4.3.0/24,10.5.0.0/28",
    }


def test_gce_gives_other_devices_the_attributes_of_the_machine() -> None:
    answers = GCE_ANSWERS | {f"{_GCE}/attributes/physical_host": "/b1/s2"}

    assert attributes(GCE, answers, ID_ALONE) == {"gce.dra.net/machineType": "a3-highgpu-8g"}


def test_gce_gives_no_attributes_to_a_nic_with_an_invalid_network() -> None:
    assert attributes(GCE, GCE_ANSWERS, OTHER) == {}


@pytest.mark.parametrize(
    "listed",
    [
        {},
        [{"mac": MAC, "network": f"projects/{2**63}/networks/n"}],
        [{"mac": MAC, "network": f"projects/{'1' * 5000}/networks/n"}],
    ],
)
def test_gce_interface_list_of_unexpected_shape_is_ignored(listed: object) -> None:
    answers = GCE_ANSWERS | {f"{_GCE}/network-interfaces/": listed}
    expected = {} if listed else attributes(GCE, GCE_ANSWERS, ID_ALONE)

    assert attributes(GCE, answers, NIC) == expected


def test_gce_nic_without_aliases_has_no_alias_attribute() -> None:
    listed = [{"mac": MAC, "network": "projects/1/networks/n"}]

    given = attributes(GCE, GCE_ANSWERS | {f"{_GCE}/network-interfaces/": listed}, NIC)

    assert given["gce.dra.net/networkName"] == "n"
    assert "gce.dra.net/ipAliases" not in given


def test_invalid_json_in_metadata_is_an_error() -> None:
    answers = GCE_ANSWERS | {f"{_GCE}/network-interfaces/": "<html>"}

    with pytest.raises(CloudError, match=r"GCE metadata: .*valid JSON: '<html>'"):
        facts(GCE, answers, NIC)


def test_gce_aliases_are_cut_at_a_whole_range() -> None:
    ranges = [f"10.{number}.16.0/24" for number in range(9)]
    listed = [{"mac": MAC, "network": "projects/1/networks/n", "ipAliases": ranges}]

    given = attributes(GCE, GCE_ANSWERS | {f"{_GCE}/network-interfaces/": listed}, NIC)

    assert given["gce.dra.net/ipAliases"] == ",".join(ranges[:5])


def gce_child(alias: str, **fields: object) -> Mapping[str, object]:
    """Return the parameters of an IPVLAN child of the second NIC."""
    network = {"network": "projects/1/networks/n", "gateway": "10.0.0.1"}
    listed = [
        {"mac": OTHER.mac, "ipAliases": ["10.8.0.0/24"], **network},
        {"mac": MAC, "ipAliases": [alias, "10.9.0.0/24"], **network, **fields},
    ]
    answers = GCE_ANSWERS | {f"{_GCE}/network-interfaces/": listed}
    assert facts(GCE, answers, OTHER).ipvlan == facts(GCE, answers, ID_ALONE).ipvlan == {}
    return facts(GCE, answers, NIC).ipvlan


def test_gce_child_gets_an_address_of_the_first_alias_range_and_the_router() -> None:
    given = gce_child("10.4.3.0/24")

    table = table_of(MAC)
    assert given == {
        "interface": {"addresses": ["10.4.3.1-10.4.3.254/24"]},
        "routes": [
            {"destination": "10.4.3.0/24", "scope": 253, "table": table},
            {"destination": "10.0.0.1/32", "scope": 253, "table": table},
            {"destination": "0.0.0.0/0", "gateway": "10.0.0.1", "table": table},
        ],
        "rules": [{"source": "10.4.3.0/24", "table": table, "priority": 32000}],
    }
    assert not list(gateway_violations(parse_network_config(given)))


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        ({}, {"interface", "routes", "rules"}),
        ({"interface": {"vrf": {"name": "red"}}}, {"interface"}),
        ({"rules": [{"source": "10.7.0.0/16", "table": 7}]}, {"interface"}),
        ({"interface": {"addresses": ["10.9.0.1/24"]}}, set()),
        ({"profile": "fast"}, set()),
    ],
)
def test_gce_child_gets_what_its_claim_leaves_open(own: dict[str, Any], kept: set[str]) -> None:
    given = DeviceFacts(ipvlan=gce_child("10.4.3.0/24"))
    interface = {"type": "IPVLAN", **own.get("interface", {})}
    config = parse_network_config({**own, "interface": interface})

    assert given.parameters_for(config).keys() == kept
    assert not given.parameters_for(parse_network_config({}))


@pytest.mark.parametrize(
    ("alias", "addresses"),
    [
        ("10.4.3.9/32", "10.4.3.9-10.4.3.9/32"),
        ("10.4.3.8/31", "10.4.3.8-10.4.3.9/31"),
        ("10.4.3.8/30", "10.4.3.9-10.4.3.10/30"),
        ("10.0.0.0/8", "10.0.0.1-10.0.255.254/8"),
    ],
)
def test_gce_child_address_is_one_of_a_host(alias: str, addresses: str) -> None:
    given = parse_network_config(gce_child(alias))

    assert given.interface.addresses == (addresses,)


@pytest.mark.parametrize("fields", [{"gateway": ""}, {"ipAliases": ["fd00::/64"]}])
def test_gce_child_gets_no_address_without_a_range_and_a_router(fields: dict[str, Any]) -> None:
    assert gce_child("10.4.3.0/24", **fields) == {}


# --------------------------------------------------------------------------- AWS

_DOCUMENT = "/latest/dynamic/instance-identity/document"


def aws(kind: str, pci: str, driver: str = "efa") -> dict[str, object]:
    answers = {"/latest/api/token": "t0ken\n", _DOCUMENT: {"instanceType": kind}}
    return attributes(AWS, answers, ProviderDeviceId("d", pci=pci, driver=driver))


def test_efa_devices_of_one_group_have_one_identifier() -> None:
    first, second = aws("trn2.48xlarge", "0000:c9:00.0"), aws("trn2.48xlarge", "0000:b4:00.0")
    far = aws("trn2.48xlarge", "0000:6c:00.0")

    assert list(first) == [f"resource.aws.com/devicegroup{size}_id" for size in (1, 4, 8, 16)]
    assert first["resource.aws.com/devicegroup1_id"] == "0000:c9:00.0"
    assert first["resource.aws.com/devicegroup4_id"] == second["resource.aws.com/devicegroup4_id"]
    assert first["resource.aws.com/devicegroup4_id"] != far["resource.aws.com/devicegroup4_id"]
    assert first["resource.aws.com/devicegroup8_id"] == far["resource.aws.com/devicegroup8_id"]


def test_device_groups_are_those_of_a_recorded_machine() -> None:
    # ResourceSlice of a trn1.32xlarge, in dranet's example for EKS
    assert list(aws("trn1.32xlarge", "0000:10:19.0").values()) == [
        "0000:10:19.0",
        "178a9e264a26793e",
        "aa86c05423d6e8cd",
        "fb838249c99a6341",
    ]


@pytest.mark.parametrize("kind", ["trn3", "trn3p", "trn3pd98", "trn3s"])
def test_variants_of_trn3_have_one_layout(kind: str) -> None:
    assert aws(f"{kind}.48xlarge", "0000:be:00.0") == aws("trn3.48xlarge", "0000:be:00.0") != {}


@pytest.mark.parametrize(
    ("kind", "pci", "driver"),
    [
        ("trn2.48xlarge", "0000:c9:00.0", "ena"),
        ("trn2.48xlarge", "0000:01:00.0", "efa"),
        ("p5.48xlarge", "0000:c9:00.0", "efa"),
    ],
)
def test_aws_device_group_is_absent_for_other_devices_and_machines(
    kind: str, pci: str, driver: str
) -> None:
    assert aws(kind, pci, driver) == {}


# --------------------------------------------------------------------------- Azure

_AZURE = "/metadata/instance"
AZURE_ANSWERS: dict[str, object] = {
    f"{_AZURE}/compute": {
        "vmSize": "Standard_ND96isr_H100_v5",
        "placementGroupId": "pg",
        "interconnectGroupId": "",
    },
    f"{_AZURE}/network": {
        "interface": [
            {"macAddress": "020000000009", "ipv4": {"subnet": []}},
            {
                "macAddress": "020000000001",
                "ipv4": {"subnet": [{"address": "10.144.133.128", "prefix": "26"}]},
            },
        ]
    },
}


def test_azure_nic_has_a_rule_and_a_route_for_its_subnet() -> None:
    found = facts(AZURE, AZURE_ANSWERS, NIC)

    assert dict(found.attributes) == {
        "azure.dra.net/vmSize": "Standard_ND96isr_H100_v5",
        "azure.dra.net/placementGroupId": "pg",
        "azure.dra.net/subnet": "10.144.133.128/26",
    }
    assert found.parameters == {
        "rules": [{"source": "10.144.133.128/26", "table": 101}],
        "routes": [{"destination": "0.0.0.0/0", "gateway": "10.144.133.129", "table": 101}],
    }


@pytest.mark.parametrize("mac", ["02:00:00:00:00:09", "02:00:00:00:00:77", ""])
def test_azure_gives_other_devices_the_attributes_of_the_machine(mac: str) -> None:
    found = facts(AZURE, AZURE_ANSWERS, ProviderDeviceId("d", mac=mac))

    assert [name for name, _ in found.attributes] == [
        "azure.dra.net/vmSize",
        "azure.dra.net/placementGroupId",
    ]
    assert found.parameters == {}


def dual_stack(ipv4: object, address: str) -> Answers:
    nic = {
        "macAddress": "020000000001",
        "ipv4": ipv4,
        "ipv6": {"ipAddress": [{"privateIpAddress": address}]},
    }
    return AZURE_ANSWERS | {f"{_AZURE}/network": {"interface": [nic]}}


def test_azure_nic_has_a_rule_and_a_route_for_its_ipv6_address() -> None:
    ipv4 = {"subnet": [{"address": "10.144.133.128", "prefix": "26"}]}

    found = facts(AZURE, dual_stack(ipv4, "fda0:ad0a:cdcb:2000::5"), NIC)

    assert found.parameters == {
        "rules": [
            {"source": "10.144.133.128/26", "table": 100},
            {"source": "fda0:ad0a:cdcb:2000::5/128", "table": 100},
        ],
        "routes": [
            {"destination": "0.0.0.0/0", "gateway": "10.144.133.129", "table": 100},
            {"destination": "::/0", "gateway": "fe80::1234:5678:9abc", "table": 100},
        ],
    }
    parse_network_config(found.parameters)


@pytest.mark.parametrize(
    ("ipv4", "address", "rules"),
    [
        pytest.param({"subnet": []}, "fda0::5", 1, id="IPv6 only"),
        pytest.param({"subnet": [{"address": "10.0.0.5", "prefix": "24"}]}, "", 0, id="no base"),
        pytest.param({"subnet": []}, "fe80::1", 0, id="link-local"),
    ],
)
def test_azure_routes_only_usable_addresses(ipv4: object, address: str, rules: int) -> None:
    found = facts(AZURE, dual_stack(ipv4, address), NIC)

    assert len(found.parameters.get("rules", ())) == rules  # type: ignore[arg-type]


def test_azure_subnet_of_one_address_has_no_gateway() -> None:
    subnet = {"subnet": [{"address": "10.0.0.4", "prefix": "32"}]}
    network = {"interface": [{"macAddress": "020000000001", "ipv4": subnet}]}

    assert facts(AZURE, AZURE_ANSWERS | {f"{_AZURE}/network": network}, NIC).parameters == {}
    assert facts(AZURE, AZURE_ANSWERS | {f"{_AZURE}/network": []}, NIC).parameters == {}


# --------------------------------------------------------------------------- Oracle, Alibaba


def test_oke_ocids_are_shortened_to_their_unique_part() -> None:
    host = {
        "rackId": "r1",
        "networkBlockId": "ocid1.block.x",
        "rdmaTopologyData": {
            "customerHPCIslandId": f"ocid1.island.oc1.{'a' * 70}",
            "customerNetworkBlock": "ocid1.block.oc1.bbb",
            "customerLocalBlock": "ccc",
        },
    }

    assert attributes(OKE, {"/opc/v2/host/": host}, NIC) == {
        "oke.dra.net/hpcIslandId": "a" * 60,
        "oke.dra.net/networkBlockId": "bbb",
        "oke.dra.net/localBlockId": "ccc",
        "oke.dra.net/rackId": "r1",
    }


def test_oke_without_topology_data_has_block_and_rack() -> None:
    host = {"rackId": "r1", "networkBlockId": "ocid1.block.x"}

    assert attributes(OKE, {"/opc/v2/host/": host}, NIC) == {
        "oke.dra.net/networkBlockId": "x",
        "oke.dra.net/rackId": "r1",
    }


def test_alibaba_marks_elastic_rdma() -> None:
    answers = {
        "/latest/api/token": "t",
        "/latest/meta-data/instance/instance-type": "ecs.ebmgn8v.48xlarge\n",
    }
    elastic = ProviderDeviceId("pci-0000-00-08-0", pci="0000:00:08.0", rdma=("erdma_0",))

    assert attributes(ALIBABA, answers, NIC) == {
        "alibaba.dra.net/instanceType": "ecs.ebmgn8v.48xlarge"
    }
    assert attributes(ALIBABA, answers, elastic)["alibaba.dra.net/erdma"] is True


# --------------------------------------------------------------------------- invalid answers


@pytest.mark.parametrize(
    ("cloud", "path"),
    [
        (GCE, f"{_GCE}/machine-type"),
        (GCE, f"{_GCE}/attributes/physical_host"),
        (AWS, "/latest/api/token"),
        (ALIBABA, "/latest/api/token"),
        (ALIBABA, "/latest/meta-data/instance/instance-type"),
    ],
)
@pytest.mark.parametrize("page", ["<html>\n</html>\n", "<html></html>", "service unavailable"])
def test_page_of_a_proxy_is_an_error(cloud: Cloud, path: str, page: str) -> None:
    answers = GCE_ANSWERS | {"/latest/api/token": "t0ken", path: page}

    with pytest.raises(CloudError, match=r"metadata: answered .*, must be one word"):
        facts(cloud, answers, NIC)


# --------------------------------------------------------------------------- CoreWeave


def test_coreweave_facts_are_read_from_node_labels() -> None:
    labels = {
        "backend.coreweave.cloud/fabric": "f1",
        "node.coreweave.cloud/rack": "r1",
        "backend.coreweave.cloud/neighbors.expected.ibp0.device": "leaf-7",
    }

    async def node_labels() -> Mapping[str, str]:
        return labels

    hca = ProviderDeviceId("pci-0000-00-08-0", rdma=("ibp0",))
    described = asyncio.run(CoreWeave(node_labels).describe([NIC, hca])).facts

    assert dict(described[NIC].attributes) == {
        "coreweave.dra.net/fabric": "f1",
        "coreweave.dra.net/rack": "r1",
    }
    assert ("coreweave.dra.net/leafSwitch", "leaf-7") in described[hca].attributes


# --------------------------------------------------------------------------- the device


def device(*own: tuple[str, AttributeValue]) -> Device:
    key = DeviceKey("pci", "0000:00:05.0", "eth1", "0000:00:05.0")
    return Device("pci-0000-00-05-0", key, own)


def test_a_device_is_known_by_what_clouds_know_it_by() -> None:
    found = identity_of(device(("dra.net/mac", MAC), ("dra.net/driver", "gve")))

    assert found == ProviderDeviceId("pci-0000-00-05-0", "eth1", MAC, "0000:00:05.0", "gve")


def test_cloud_adds_attributes_and_replaces_none() -> None:
    given = DeviceFacts(
        (("x.io/a", "x" * 90), ("dra.net/ifName", "evil"), ("x.io/v", Version("1")))
    )

    named = dict(enriched(device(("dra.net/ifName", "eth1")), given).attributes)

    assert named == {"dra.net/ifName": "eth1", "x.io/a": "x" * 64, "x.io/v": Version("1")}


def test_half_of_a_surrogate_pair_is_replaced_in_an_attribute() -> None:
    cut = json.loads('"rack \\ud83d"')

    named = dict(enriched(device(), DeviceFacts((("x.io/a", cut),))).attributes)

    assert named == {"x.io/a": "rack \N{REPLACEMENT CHARACTER}"}


def test_device_keeps_its_own_attributes_if_a_cloud_gives_too_many() -> None:
    own = tuple((f"dra.net/a{index:02}", index) for index in range(29))
    given = DeviceFacts(tuple((f"x.io/b{index:02}", index) for index in range(5)))

    names = [name for name, _ in enriched(device(*own), given).attributes]

    assert names == [*(name for name, _ in own), "x.io/b00", "x.io/b01"]
