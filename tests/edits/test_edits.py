"""What containers get, and how it is written: NRI edits, CDI specs, metadata files."""

import json
from dataclasses import replace

import pytest

from dranet_nri.edits import (
    RLIM_INFINITY,
    EditOptions,
    cdi_id,
    cdi_ids,
    cdi_name,
    cdi_spec,
    edits,
    gated_requests,
    holder_of,
    listed,
    metadata,
    metadata_destination,
    metadata_source,
)
from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    CharDevice,
    Container,
    ContainerClaim,
    Device,
    DeviceKey,
    Edits,
    Mount,
    NetnsId,
    ObjectRef,
    Phase,
    Rlimit,
    Version,
)

DIRECTORY = "/run/dranet-nri/metadata"
CLAIM = ObjectRef("training", "two-nics", "6f1c0a52")
POD = ObjectRef("training", "worker-0", "0b9d5b1e")
UVERBS0 = CharDevice("/dev/infiniband/uverbs0", 231, 192)
RDMA_CM = CharDevice("/dev/infiniband/rdma_cm", 10, 58, mode=0o666, uid=0, gid=7)
DATA = Device(
    "pci-0000-8a-00-0",
    DeviceKey("pci", "0000:8a:00.0", "eth1", "0000:8a:00.0"),
    (
        ("dra.net/driverVersion", Version("6.8.0")),
        ("dra.net/ifName", "eth1"),
        ("dra.net/mtu", 9000),
        ("dra.net/rdma", True),
    ),
    ("mlx5_0",),
)
STORAGE = Device("pci-0000-8b-00-0", DeviceKey("pci", "0000:8b:00.0", "eth2", "0000:8b:00.0"))
WATCHED = Device("pci-0000-8c-00-0", DeviceKey("pci", "0000:8c:00.0", "eth3", "0000:8c:00.0"))
ALLOCATION = Allocation(
    claim=CLAIM,
    pod=POD,
    devices=(
        AllocatedDevice("data", "node-a", DATA),
        AllocatedDevice("storage", "node-b", STORAGE),
        AllocatedDevice("look", "node-a", WATCHED, admin_access=True),
    ),
    nonce="c0ffee",
    boot_id="8a1f5b1c",
)
TEMPLATE = replace(ALLOCATION, pod_claim_name="nics.of-pod")
ATTACHMENT = Attachment(
    claim=CLAIM,
    pod=POD,
    sandbox_id="3f9a6d0c",
    netns=NetnsId("/run/netns/cni-1", 4, 4026532801),
    phase=Phase.ATTACHED,
    devices=(
        AttachedDevice(
            "data",
            DATA,
            pod_name="net1",
            mac="02:00:00:00:00:07",
            addresses=("10.1.0.5/24", "2001:db8::5/64"),
            char_devices=(UVERBS0, RDMA_CM),
        ),
        AttachedDevice("storage", STORAGE, pod_name="net2", mac="02:00:00:00:00:08"),
    ),
    attempt=3,
)
RDMA_ONLY = replace(
    ATTACHMENT,
    devices=(AttachedDevice("data", DATA, char_devices=(RDMA_CM,)), ATTACHMENT.devices[1]),
)
APP = Container("c1", "3f9a6d0c", "app")
OPTIONS = EditOptions()
METADATA_OPTIONS = ("ro", "rbind", "rprivate", "nosuid", "nodev", "noexec")


def given_to(
    container: Container,
    allocation: Allocation = ALLOCATION,
    attachment: Attachment = ATTACHMENT,
    options: EditOptions = OPTIONS,
) -> Edits:
    return edits(allocation, attachment, container, DIRECTORY, options)


def spec_of(
    allocation: Allocation = ALLOCATION,
    attachment: Attachment = ATTACHMENT,
    options: EditOptions = OPTIONS,
) -> dict[str, object]:
    spec = json.loads(cdi_spec(allocation, attachment, DIRECTORY, options))
    assert isinstance(spec, dict)
    return spec


# --------------------------------------------------------------------------- CDI ids


def test_a_cdi_id_says_whose_it_is_and_ends_in_the_nonce() -> None:
    assert cdi_id(CLAIM, "data", "c0ffee") == "dra.net/nic=training_two-nics_data_c0ffee"


def test_another_nonce_makes_another_id() -> None:
    assert cdi_name(CLAIM, "data", "c0ffee") != cdi_name(CLAIM, "data", "decaf")


def test_characters_that_cdi_does_not_know_become_dashes() -> None:
    name = cdi_name(ObjectRef("a", "b.c:d/é", "u"), "r", "n")

    assert name == "a_b.c-d--_r_n"


def test_every_request_that_moves_a_device_has_an_id_and_admin_access_has_none() -> None:
    twice = AllocatedDevice("data", "node-a", WATCHED)
    allocation = replace(ALLOCATION, devices=(*ALLOCATION.devices, twice))

    assert cdi_ids(allocation) == (
        ("data", "dra.net/nic=training_two-nics_data_c0ffee"),
        ("storage", "dra.net/nic=training_two-nics_storage_c0ffee"),
    )
    assert gated_requests(replace(ALLOCATION, devices=ALLOCATION.devices[2:])) == ()


# --------------------------------------------------------------------------- which containers

LISTS = (
    ContainerClaim("whole"),
    ContainerClaim("data-only", "data"),
    ContainerClaim("both", "storage"),
    ContainerClaim("both", "data"),
    ContainerClaim("watcher", "look"),
    ContainerClaim("whole-and-one", "data"),
    ContainerClaim("whole-and-one"),
)


@pytest.mark.parametrize(
    ("container", "requests"),
    [
        pytest.param("whole", ("data", "storage"), id="lists the claim"),
        pytest.param("data-only", ("data",), id="lists a request"),
        pytest.param("both", ("data", "storage"), id="lists two requests, in the claim's order"),
        pytest.param("watcher", (), id="lists adminAccess only"),
        pytest.param("whole-and-one", ("data", "storage"), id="lists the claim and a request"),
        pytest.param("other", (), id="lists nothing while others do"),
    ],
)
def test_a_container_gets_the_requests_that_it_lists(
    container: str, requests: tuple[str, ...]
) -> None:
    assert listed(replace(ALLOCATION, containers=LISTS), container) == requests


def test_where_no_container_lists_the_claim_all_get_it() -> None:
    assert listed(ALLOCATION, "anything") == ("data", "storage")


# --------------------------------------------------------------------------- edits


def test_a_container_gets_mounts_devices_names_and_locked_memory() -> None:
    assert given_to(APP) == Edits(
        mounts=tuple(
            Mount(
                f"{DIRECTORY}/6f1c0a52/{request}/metadata.json",
                "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/two-nics/"
                f"{request}/dra.net-metadata.json",
                METADATA_OPTIONS,
            )
            for request in ("data", "storage")
        ),
        char_devices=(RDMA_CM, UVERBS0),
        env=(
            ("DRA_NET_TWO_NICS_DATA_IFNAMES", "net1"),
            ("DRA_NET_TWO_NICS_DATA_RDMA_DEVICES", "mlx5_0"),
            ("DRA_NET_TWO_NICS_STORAGE_IFNAMES", "net2"),
        ),
        rlimits=(Rlimit("RLIMIT_MEMLOCK", RLIM_INFINITY, RLIM_INFINITY),),
    )


def test_a_container_that_lists_one_request_gets_nothing_of_the_other() -> None:
    allocation = replace(ALLOCATION, containers=(ContainerClaim("app", "storage"),))

    given = given_to(APP, allocation)

    assert [mount.source for mount in given.mounts] == [
        f"{DIRECTORY}/6f1c0a52/storage/metadata.json"
    ]
    assert given.env == (("DRA_NET_TWO_NICS_STORAGE_IFNAMES", "net2"),)
    assert (given.char_devices, given.rlimits) == ((), ())


def test_a_container_that_lists_nothing_gets_nothing() -> None:
    allocation = replace(ALLOCATION, containers=(ContainerClaim("other"),))

    assert given_to(APP, allocation) == Edits()


def test_what_the_request_shows_already_is_not_sent_again() -> None:
    everything = given_to(APP)
    shown = replace(
        APP,
        mounts=everything.mounts,
        device_paths=tuple(each.path for each in everything.char_devices),
        env=tuple(f"{name}={value}" for name, value in everything.env),
        rlimits=("RLIMIT_MEMLOCK",),
    )

    assert given_to(shown) == Edits()


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        pytest.param({"mounts": given_to(APP).mounts[:1]}, "mounts", id="a mount"),
        pytest.param({"device_paths": (RDMA_CM.path,)}, "char_devices", id="a device"),
        pytest.param({"env": ("DRA_NET_TWO_NICS_DATA_IFNAMES=mine",)}, "env", id="a variable"),
    ],
)
def test_what_the_request_shows_in_part_is_completed(
    shown: dict[str, tuple[str, ...]], missing: str
) -> None:
    given = given_to(replace(APP, **shown))  # type: ignore[arg-type]  # one field each

    assert getattr(given, missing) == getattr(given_to(APP), missing)[1:]


@pytest.mark.parametrize(
    ("container", "options", "rlimits"),
    [
        pytest.param(APP, EditOptions(memlock=None), (), id="the operator leaves it"),
        pytest.param(
            APP,
            EditOptions(memlock=1 << 30),
            (Rlimit("RLIMIT_MEMLOCK", 1 << 30, 1 << 30),),
            id="1 GiB",
        ),
        pytest.param(
            APP, EditOptions(memlock=0), (Rlimit("RLIMIT_MEMLOCK", 0, 0),), id="none at all"
        ),
        pytest.param(replace(APP, rlimits=("RLIMIT_MEMLOCK",)), OPTIONS, (), id="set already"),
        pytest.param(
            replace(APP, rlimits=("RLIMIT_NOFILE",)),
            OPTIONS,
            (Rlimit("RLIMIT_MEMLOCK", 2**64 - 1, 2**64 - 1),),
            id="another one set",
        ),
    ],
)
def test_locked_memory(
    container: Container, options: EditOptions, rlimits: tuple[Rlimit, ...]
) -> None:
    assert given_to(container, options=options).rlimits == rlimits


def test_a_container_without_rdma_devices_keeps_its_limit() -> None:
    devices = tuple(replace(each, char_devices=()) for each in ATTACHMENT.devices)

    assert given_to(APP, attachment=replace(ATTACHMENT, devices=devices)).rlimits == ()


def test_variables_are_an_operators_choice() -> None:
    assert given_to(APP, options=EditOptions(environment=False)).env == ()


def test_variables_of_a_template_pod_carry_the_name_in_the_pods_spec() -> None:
    names = [name for name, _ in given_to(APP, TEMPLATE).env]

    assert names == [
        "DRA_NET_NICS_OF_POD_DATA_IFNAMES",
        "DRA_NET_NICS_OF_POD_DATA_RDMA_DEVICES",
        "DRA_NET_NICS_OF_POD_STORAGE_IFNAMES",
    ]


def test_variables_join_the_devices_of_a_request() -> None:
    more = replace(ATTACHMENT.devices[0], device=replace(DATA, name="x", rdma_devices=("mlx5_1",)))
    attachment = replace(
        ATTACHMENT, devices=(ATTACHMENT.devices[0], replace(more, pod_name="net9"))
    )

    assert given_to(APP, attachment=attachment).env == (
        ("DRA_NET_TWO_NICS_DATA_IFNAMES", "net1,net9"),
        ("DRA_NET_TWO_NICS_DATA_RDMA_DEVICES", "mlx5_0,mlx5_1"),
    )


def test_a_device_without_an_interface_names_its_rdma_device_only() -> None:
    assert given_to(APP, attachment=RDMA_ONLY).env[0] == (
        "DRA_NET_TWO_NICS_DATA_RDMA_DEVICES",
        "mlx5_0",
    )


def test_a_device_file_of_two_devices_is_given_once() -> None:
    devices = tuple(replace(each, char_devices=(RDMA_CM,)) for each in ATTACHMENT.devices)

    given = given_to(APP, attachment=replace(ATTACHMENT, devices=devices))

    assert given.char_devices == (RDMA_CM,)


# --------------------------------------------------------------------------- CDI specs


def test_the_cdi_spec_opens_the_gate_of_every_request() -> None:
    assert spec_of() == {
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
                        {"path": "/dev/infiniband/uverbs0", "permissions": "rw"},
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


def test_the_spec_names_the_devices_that_the_ids_ask_for() -> None:
    spec = spec_of(TEMPLATE)

    devices = spec["devices"]
    assert isinstance(devices, list)
    assert [f"{spec['kind']}={each['name']}" for each in devices] == [
        each for _, each in cdi_ids(TEMPLATE)
    ]


def test_the_spec_gives_what_nri_gives_and_nri_then_sends_only_the_limit() -> None:
    edits_of = [each["containerEdits"] for each in spec_of()["devices"]]  # type: ignore[attr-defined]
    shown = replace(
        APP,
        mounts=tuple(
            Mount(each["hostPath"], each["containerPath"]) for e in edits_of for each in e["mounts"]
        ),
        device_paths=tuple(each["path"] for e in edits_of for each in e.get("deviceNodes", ())),
        env=tuple(each for e in edits_of for each in e["env"]),
    )

    assert given_to(shown) == Edits(rlimits=given_to(APP).rlimits)


def test_a_spec_without_variables_has_no_empty_list() -> None:
    spec = spec_of(options=EditOptions(environment=False))

    assert "env" not in spec["devices"][0]["containerEdits"]  # type: ignore[index]


def test_the_netns_of_a_template_pod_is_below_its_name_in_the_pods_spec() -> None:
    mounts = spec_of(TEMPLATE)["devices"][0]["containerEdits"]["mounts"]  # type: ignore[index]

    assert mounts[1]["containerPath"] == "/var/run/dra.net/nics.of-pod/data/netns"


# --------------------------------------------------------------------------- metadata


def test_metadata_paths_tell_claims_from_templates() -> None:
    root = "/var/run/kubernetes.io/dra-device-attributes"

    assert metadata_destination(ALLOCATION, "data") == (
        f"{root}/resourceclaims/two-nics/data/dra.net-metadata.json"
    )
    assert metadata_destination(TEMPLATE, "data") == (
        f"{root}/resourceclaimtemplates/nics.of-pod/data/dra.net-metadata.json"
    )


def test_metadata_is_a_stream_of_one_object_a_version_newest_first() -> None:
    objects = [json.loads(line) for line in metadata(TEMPLATE, ATTACHMENT, "data").splitlines()]

    versions = [each.pop("apiVersion") for each in objects]
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


def test_metadata_of_a_direct_claim_names_no_pod_claim() -> None:
    first = json.loads(metadata(ALLOCATION, ATTACHMENT, "storage").splitlines()[0])

    assert "podClaimName" not in first
    assert first["requests"][0]["devices"][0]["pool"] == "node-b"


def test_metadata_of_a_device_without_an_interface_has_no_network_data() -> None:
    first = json.loads(metadata(ALLOCATION, RDMA_ONLY, "data").splitlines()[0])

    assert first["requests"][0]["devices"][0]["networkData"] == {}


@pytest.mark.parametrize(
    ("source", "uid"),
    [
        pytest.param(metadata_source(DIRECTORY, "6f1c0a52", "data"), "6f1c0a52", id="ours"),
        pytest.param("/var/lib/kubelet/pods/x/metadata.json", None, id="elsewhere"),
        pytest.param(f"{DIRECTORY}/6f1c0a52/data/other", None, id="another file"),
        pytest.param(DIRECTORY, None, id="the directory"),
    ],
)
def test_the_holder_is_read_from_the_metadata_mount(source: str, uid: str | None) -> None:
    container = replace(APP, mounts=(Mount("/etc/hosts", "/etc/hosts"), Mount(source, "/x")))

    assert holder_of(container, DIRECTORY) == uid
