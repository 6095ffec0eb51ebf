"""The files of an open gate: CDI specs, and the metadata of KEP-5304."""

import json
from dataclasses import replace

import pytest

from dranet_nri.cdi.edits import EditOptions
from dranet_nri.cdi.metadata import metadata
from dranet_nri.cdi.names import (
    cdi_ids,
    metadata_destination,
    metadata_source,
    mounted_claims,
    mounted_namespaces,
)
from dranet_nri.model import (
    Edits,
    Mount,
)
from tests.dranet_nri.cdi.examples import (
    ALLOCATION,
    APP,
    ATTACHMENT,
    DIRECTORY,
    RDMA_ONLY,
    TEMPLATE,
    given_to,
    spec_of,
)

SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "dra.net/nic",
    "devices": [
        {
            "name": "training_two-nics_data_c0ffee",
            "containerEdits": {
                "mounts": [
                    {
                        "hostPath": f"{DIRECTORY}/6f1c0a52/data/metadata.json",
                        "containerPath": "/var/run/kubernetes.io/dra-device-attributes/"
                        "resourceclaims/two-nics/data/dra.net-metadata.json",
                        "options": ["ro", "rbind", "rprivate", "nosuid", "nodev", "noexec"],
                    },
                    {
                        "hostPath": "/run/netns/cni-1",
                        "containerPath": "/var/run/dra.net/two-nics/data/netns",
                        "options": ["ro", "bind", "nosuid", "nodev", "noexec"],
                    },
                ],
                "deviceNodes": [
                    {
                        "path": "/dev/infiniband/rdma_cm",
                        "permissions": "rw",
                        "fileMode": 0o666,
                        "uid": 0,
                        "gid": 7,
                    },
                    {
                        "path": "/dev/infiniband/uverbs0",
                        "permissions": "rw",
                        "fileMode": 0o666,
                    },
                ],
                "env": [
                    "DRA_NET_TWO_NICS_DATA_IFNAMES=net1",
                    "DRA_NET_TWO_NICS_DATA_RDMA_DEVICES=mlx5_0",
                ],
            },
        },
        {
            "name": "training_two-nics_storage_c0ffee",
            "containerEdits": {
                "mounts": [
                    {
                        "hostPath": f"{DIRECTORY}/6f1c0a52/storage/metadata.json",
                        "containerPath": "/var/run/kubernetes.io/dra-device-attributes/"
                        "resourceclaims/two-nics/storage/dra.net-metadata.json",
                        "options": ["ro", "rbind", "rprivate", "nosuid", "nodev", "noexec"],
                    },
                    {
                        "hostPath": "/run/netns/cni-1",
                        "containerPath": "/var/run/dra.net/two-nics/storage/netns",
                        "options": ["ro", "bind", "nosuid", "nodev", "noexec"],
                    },
                ],
                "env": ["DRA_NET_TWO_NICS_STORAGE_IFNAMES=net2"],
            },
        },
    ],
}


# --------------------------------------------------------------------------- CDI specs


def test_cdi_spec_contains_the_devices_of_every_request() -> None:
    assert spec_of() == SPEC


def test_cdi_spec_names_the_devices_of_the_cdi_ids() -> None:
    spec = spec_of(TEMPLATE)

    devices = spec["devices"]
    assert isinstance(devices, list)
    assert [f"{spec['kind']}={device['name']}" for device in devices] == [
        cdi_id for _, cdi_id in cdi_ids(TEMPLATE)
    ]


def test_cdi_spec_covers_all_edits_except_the_memlock_limit() -> None:
    edits_of = [device["containerEdits"] for device in spec_of()["devices"]]  # type: ignore[attr-defined]
    shown = replace(
        APP,
        mounts=tuple(
            Mount(mount["hostPath"], mount["containerPath"])
            for e in edits_of
            for mount in e["mounts"]
        ),
        device_paths=tuple(node["path"] for e in edits_of for node in e.get("deviceNodes", ())),
        env=tuple(variable for e in edits_of for variable in e["env"]),
    )

    assert given_to(shown) == Edits(rlimits=given_to(APP).rlimits)


def test_cdi_spec_without_variables_has_no_env_field() -> None:
    spec = spec_of(options=EditOptions(environment=False))

    assert "env" not in spec["devices"][0]["containerEdits"]  # type: ignore[index]


def test_netns_mount_of_a_template_claim_uses_its_name_in_the_pod_spec() -> None:
    mounts = spec_of(TEMPLATE)["devices"][0]["containerEdits"]["mounts"]  # type: ignore[index]

    assert mounts[1]["containerPath"] == "/var/run/dra.net/nics.of-pod/data/netns"


# --------------------------------------------------------------------------- metadata


def test_metadata_paths_of_claims_and_templates_differ() -> None:
    root = "/var/run/kubernetes.io/dra-device-attributes"

    assert metadata_destination(ALLOCATION, "data") == (
        f"{root}/resourceclaims/two-nics/data/dra.net-metadata.json"
    )
    assert metadata_destination(TEMPLATE, "data") == (
        f"{root}/resourceclaimtemplates/nics.of-pod/data/dra.net-metadata.json"
    )


def test_metadata_has_one_object_per_version_newest_first() -> None:
    objects = [json.loads(line) for line in metadata(TEMPLATE, ATTACHMENT, "data").splitlines()]

    versions = [document.pop("apiVersion") for document in objects]
    assert versions == ["metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1"]
    assert objects[0] == objects[1]
    assert objects[0] == {
        "kind": "DeviceMetadata",
        "metadata": {
            "name": "two-nics",
            "namespace": "training",
            "uid": "6f1c0a52",
            "generation": 3,
        },
        "podClaimName": "nics.of-pod",
        "requests": [
            {
                "name": "data",
                "devices": [
                    {
                        "driver": "dra.net",
                        "pool": "node-a",
                        "name": "pci-0000-8a-00-0",
                        "attributes": {
                            "dra.net/driverVersion": {"version": "6.8.0"},
                            "dra.net/ifName": {"string": "eth1"},
                            "dra.net/mtu": {"int": 9000},
                            "dra.net/rdma": {"bool": True},
                        },
                        "networkData": {
                            "interfaceName": "net1",
                            "ips": ["10.1.0.5/24", "2001:db8::5/64"],
                            "hardwareAddress": "02:00:00:00:00:07",
                        },
                    }
                ],
            }
        ],
    }


def test_metadata_names_the_allocated_subrequest_and_its_path_does_not() -> None:
    data, storage, admin = ALLOCATION.devices
    either = replace(ALLOCATION, devices=(replace(data, subrequest="fast"), storage, admin))

    first = json.loads(metadata(either, ATTACHMENT, "data").splitlines()[0])
    other = json.loads(metadata(either, ATTACHMENT, "storage").splitlines()[0])

    assert [request["name"] for request in first["requests"]] == ["data/fast"]
    assert [request["name"] for request in other["requests"]] == ["storage"]
    assert cdi_ids(either) == cdi_ids(ALLOCATION)
    assert spec_of(either) == spec_of()
    assert given_to(APP, either) == given_to(APP)


def test_metadata_of_several_subrequests_distinguishes_their_devices() -> None:
    data, storage, _ = ALLOCATION.devices
    fast = replace(data, subrequest="fast")
    slow = replace(storage, request="data", subrequest="slow")
    attached = tuple(replace(device, request="data") for device in ATTACHMENT.devices)

    content = metadata(
        replace(ALLOCATION, devices=(fast, slow)), replace(ATTACHMENT, devices=attached), "data"
    )

    found = json.loads(content.splitlines()[0])["requests"]
    assert [
        (request["name"], [one["name"] for one in request["devices"]]) for request in found
    ] == [
        ("data/fast", ["pci-0000-8a-00-0"]),
        ("data/slow", ["pci-0000-8b-00-0"]),
    ]


def test_metadata_of_a_direct_claim_has_no_pod_claim_name() -> None:
    first = json.loads(metadata(ALLOCATION, ATTACHMENT, "storage").splitlines()[0])

    assert "podClaimName" not in first
    assert first["requests"][0]["devices"][0]["pool"] == "node-b"


def test_metadata_of_a_device_without_an_interface_has_no_network_data() -> None:
    first = json.loads(metadata(ALLOCATION, RDMA_ONLY, "data").splitlines()[0])

    assert first["requests"][0]["devices"][0]["networkData"] == {}


@pytest.mark.parametrize(
    ("sources", "uids"),
    [
        pytest.param((metadata_source(DIRECTORY, "6f1c0a52", "data"),), ("6f1c0a52",), id="ours"),
        pytest.param(
            tuple(
                metadata_source(DIRECTORY, *ref)
                for ref in (("6f1c0a52", "data"), ("0b7e", "data"), ("6f1c0a52", "storage"))
            ),
            ("6f1c0a52", "0b7e"),
            id="several",
        ),
        pytest.param(("/var/lib/kubelet/pods/x/metadata.json",), (), id="elsewhere"),
        pytest.param((f"{DIRECTORY}/6f1c0a52/data/other",), (), id="another file"),
        pytest.param((DIRECTORY,), (), id="the directory"),
    ],
)
def test_claims_of_a_container_are_read_from_its_metadata_mounts(
    sources: tuple[str, ...], uids: tuple[str, ...]
) -> None:
    mounts = (Mount("/etc/hosts", "/etc/hosts"), *(Mount(source, "/x") for source in sources))

    assert mounted_claims(replace(APP, mounts=mounts), DIRECTORY) == uids


def test_namespaces_of_a_container_are_read_from_its_cdi_mounts() -> None:
    spec = json.dumps(spec_of())
    netns_path = "/var/run/dra.net/two-nics/data/netns"
    mounts = (Mount("/etc/hosts", "/etc/hosts"), Mount("/run/netns/cni-1", netns_path))

    assert netns_path in spec
    assert mounted_namespaces(replace(APP, mounts=mounts)) == ("/run/netns/cni-1",)
