"""CDI ids, their assignment to containers, and the remaining edits sent through NRI."""

from dataclasses import replace

import pytest

from dranet_nri.cdi.edits import RLIM_INFINITY, EditOptions, merged_edits, rdma_warnings
from dranet_nri.cdi.names import cdi_id, cdi_ids, cdi_name, gated_requests, requests_of
from dranet_nri.model import (
    AllocatedDevice,
    CharDevice,
    Container,
    ContainerClaim,
    Edits,
    Mount,
    ObjectRef,
    RdmaLink,
    Rlimit,
)
from tests.dranet_nri.cdi.examples import (
    ALLOCATION,
    APP,
    ATTACHMENT,
    CLAIM,
    DATA,
    DIRECTORY,
    METADATA_OPTIONS,
    OPTIONS,
    RDMA_CM,
    RDMA_ONLY,
    TEMPLATE,
    UVERBS0,
    WATCHED,
    given_to,
)

# --------------------------------------------------------------------------- CDI ids


def test_cdi_id_contains_the_claim_and_ends_with_the_nonce() -> None:
    assert cdi_id(CLAIM, "data", "c0ffee") == "dra.net/nic=training_two-nics_data_c0ffee"


def test_cdi_name_depends_on_the_nonce() -> None:
    assert cdi_name(CLAIM, "data", "c0ffee") != cdi_name(CLAIM, "data", "decaf")


def test_characters_invalid_in_cdi_names_become_dashes() -> None:
    name = cdi_name(ObjectRef("a", "b.c:d/é", "u"), "r", "n")

    assert name == "a_b.c-d--_r_n"


def test_request_with_devices_has_a_cdi_id_and_admin_access_has_none() -> None:
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
def test_container_gets_the_requests_that_it_lists(
    container: str, requests: tuple[str, ...]
) -> None:
    assert requests_of(replace(ALLOCATION, containers=LISTS), container) == requests


def test_claim_that_no_container_lists_is_given_to_all_containers() -> None:
    assert requests_of(ALLOCATION, "anything") == ("data", "storage")


# --------------------------------------------------------------------------- edits


def test_container_gets_mounts_device_files_variables_and_locked_memory() -> None:
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
        char_devices=(RDMA_CM, replace(UVERBS0, mode=0o666)),
        env=(
            ("DRA_NET_TWO_NICS_DATA_IFNAMES", "net1"),
            ("DRA_NET_TWO_NICS_DATA_RDMA_DEVICES", "mlx5_0"),
            ("DRA_NET_TWO_NICS_STORAGE_IFNAMES", "net2"),
        ),
        rlimits=(Rlimit("RLIMIT_MEMLOCK", RLIM_INFINITY, RLIM_INFINITY),),
    )


def test_container_that_lists_one_request_gets_nothing_of_the_other() -> None:
    allocation = replace(ALLOCATION, containers=(ContainerClaim("app", "storage"),))

    given = given_to(APP, allocation)

    assert [mount.source for mount in given.mounts] == [
        f"{DIRECTORY}/6f1c0a52/storage/metadata.json"
    ]
    assert given.env == (("DRA_NET_TWO_NICS_STORAGE_IFNAMES", "net2"),)
    assert (given.char_devices, given.rlimits) == ((), ())


def test_container_that_lists_no_request_gets_nothing() -> None:
    allocation = replace(ALLOCATION, containers=(ContainerClaim("other"),))

    assert given_to(APP, allocation) == Edits()


def test_edits_already_present_in_the_container_are_not_sent_again() -> None:
    everything = given_to(APP)
    shown = replace(
        APP,
        mounts=everything.mounts,
        device_paths=tuple(device.path for device in everything.char_devices),
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
def test_partly_present_edits_are_completed(
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
def test_memlock_limit_depends_on_the_options_and_the_container(
    container: Container, options: EditOptions, rlimits: tuple[Rlimit, ...]
) -> None:
    assert given_to(container, options=options).rlimits == rlimits


def test_container_without_rdma_devices_keeps_its_memlock_limit() -> None:
    devices = tuple(replace(device, char_devices=()) for device in ATTACHMENT.devices)

    assert given_to(APP, attachment=replace(ATTACHMENT, devices=devices)).rlimits == ()


def test_environment_variables_can_be_disabled_by_the_operator() -> None:
    assert given_to(APP, options=EditOptions(environment=False)).env == ()


def test_variables_of_a_template_claim_use_its_name_in_the_pod_spec() -> None:
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


def test_variables_of_a_device_without_an_interface_name_only_the_rdma_device() -> None:
    assert given_to(APP, attachment=RDMA_ONLY).env[0] == (
        "DRA_NET_TWO_NICS_DATA_RDMA_DEVICES",
        "mlx5_0",
    )


@pytest.mark.parametrize(
    "now",
    [
        pytest.param({"rdma": (RdmaLink(7, "mlx5_9"),)}, id="it moved with"),
        pytest.param({"shared_rdma": ("mlx5_9",)}, id="it has where it stays"),
    ],
)
def test_variable_of_a_recreated_rdma_device_has_its_current_name(now: dict[str, object]) -> None:
    recreated = replace(ATTACHMENT.devices[0], **now)  # type: ignore[arg-type]

    assert given_to(APP, attachment=replace(ATTACHMENT, devices=(recreated,))).env == (
        ("DRA_NET_TWO_NICS_DATA_IFNAMES", "net1"),
        ("DRA_NET_TWO_NICS_DATA_RDMA_DEVICES", "mlx5_9"),
    )


def test_variable_of_a_renamed_rdma_device_has_its_name_in_the_pod() -> None:
    renamed = replace(ATTACHMENT.devices[0], rdma_name="hca0")

    assert given_to(APP, attachment=replace(ATTACHMENT, devices=(renamed,))).env == (
        ("DRA_NET_TWO_NICS_DATA_IFNAMES", "net1"),
        ("DRA_NET_TWO_NICS_DATA_RDMA_DEVICES", "hca0"),
    )


@pytest.mark.parametrize(
    ("files", "names"),
    [pytest.param((), [], id="no file"), pytest.param((RDMA_CM,), ["mlx5_0"], id="shared mode")],
)
def test_variable_of_a_child_names_the_rdma_device_only_with_device_files(
    files: tuple[CharDevice, ...], names: list[str]
) -> None:
    child = replace(ATTACHMENT.devices[0], child="dra.net/uid/nic", char_devices=files)

    env = given_to(APP, attachment=replace(ATTACHMENT, devices=(child,))).env

    assert [value for name, value in env if name.endswith("RDMA_DEVICES")] == names


def test_device_file_mode_is_0666_unless_recorded_otherwise() -> None:
    files = (UVERBS0, replace(UVERBS0, path="/dev/infiniband/umad0", mode=0o600, uid=1, gid=2))
    attachment = replace(ATTACHMENT, devices=(replace(ATTACHMENT.devices[0], char_devices=files),))

    given = given_to(APP, attachment=attachment).char_devices

    assert [(char_device.mode, char_device.uid, char_device.gid) for char_device in given] == [
        (0o600, 1, 2),
        (0o666, None, None),
    ]


def test_device_file_of_two_devices_is_given_once() -> None:
    devices = tuple(replace(device, char_devices=(RDMA_CM,)) for device in ATTACHMENT.devices)

    given = given_to(APP, attachment=replace(ATTACHMENT, devices=devices))

    assert given.char_devices == (RDMA_CM,)


# --------------------------------------------------------- several claims of one container


def test_container_with_two_claims_gets_the_edits_of_both() -> None:
    one = Edits((Mount("/a", "/run/a"),), (UVERBS0,), (("A", "net1"),), (Rlimit("MEMLOCK", 8, 8),))
    other = Edits((Mount("/b", "/run/b"),), (RDMA_CM,), (("B", "net2"),), (Rlimit("NOFILE", 4, 4),))

    assert merged_edits(one, other) == Edits(
        (*one.mounts, *other.mounts),
        (UVERBS0, RDMA_CM),
        (("A", "net1"), ("B", "net2")),
        (*one.rlimits, *other.rlimits),
    )


def test_file_or_limit_of_two_claims_is_given_once_as_in_the_first() -> None:
    one = Edits(char_devices=(RDMA_CM,), rlimits=(Rlimit("MEMLOCK", 8, 8),))
    other = Edits(char_devices=(replace(RDMA_CM, mode=0o600),), rlimits=(Rlimit("MEMLOCK", 4, 4),))

    assert merged_edits(one, other) == one


# --------------------------------------------------------------------------- RDMA that is unusable

RUNTIMES_LIMIT = replace(APP, memlock=8 << 20)
UMAD0 = replace(UVERBS0, path="/dev/infiniband/umad0")


@pytest.mark.parametrize(
    ("char", "container", "desired", "warnings"),
    [
        pytest.param(UVERBS0, RUNTIMES_LIMIT, 1 << 30, ["8388608 bytes"], id="a lower limit"),
        pytest.param(UVERBS0, RUNTIMES_LIMIT, 8 << 20, [], id="the limit that is wanted"),
        pytest.param(UVERBS0, RUNTIMES_LIMIT, None, [], id="disabled by the operator"),
        pytest.param(UVERBS0, APP, 1 << 30, [], id="the runtime sets none"),
        pytest.param(UMAD0, replace(APP, own_users=True), None, ["umad0"], id="own users"),
        pytest.param(UMAD0, APP, None, [], id="the node's users"),
        pytest.param(UVERBS0, replace(APP, own_users=True), None, [], id="a file for all users"),
    ],
)
def test_warnings_explain_why_rdma_may_fail_in_a_container(
    char: CharDevice, container: Container, desired: int | None, warnings: list[str]
) -> None:
    device = replace(ATTACHMENT.devices[0], char_devices=(char,))

    found = list(rdma_warnings((device,), container, desired))

    assert len(found) == len(warnings)
    assert all(part in warning for part, warning in zip(warnings, found, strict=True))


def test_container_without_rdma_files_has_no_warning() -> None:
    device = replace(ATTACHMENT.devices[0], char_devices=())

    assert list(rdma_warnings((device,), RUNTIMES_LIMIT, 1 << 30)) == []
