"""What is recorded for a claim, what the kubelet hears of it, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from dra_shim.prepare.allocation import (
    PreparedDevice,
    allocation_of,
    consumer_of,
    is_gated,
    prepared_devices,
    requested_claim,
    requested_use,
)
from dra_shim.prepare.errors import ApiUnavailableError, NotYetError
from dra_shim.resourceapi import PodUse
from dranet_nri.config import Provided
from dranet_nri.errors import ConfigError, RefusedError
from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    Consumed,
    ContainerClaim,
    DeviceKey,
    InterfaceConfig,
    NetworkConfig,
    ObjectRef,
)
from tests.dra_shim.prepare.claims import HCA, NICS, POD, REF, TERMS, USE, claim, document, recorded
from tests.fakes.cluster import POOL, Document, claim_document, config, result, user


def mtu(number: int) -> Document:
    return {"interface": {"mtu": number}}


def with_mtu(number: int) -> NetworkConfig:
    return NetworkConfig(interface=InterfaceConfig(mtu=number))


# --------------------------------------------------------------------------- the claim


def test_the_claim_asked_for_is_read() -> None:
    assert requested_claim(document(result("a")), REF) == claim(result("a"))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "does not exist;"),
        (claim_document("nics", "u2", [], []), "had UID u1, there is one with u2"),
        ({**document(), "status": {}}, "is not allocated"),
    ],
)
def test_a_claim_that_is_not_the_one_asked_for_is_refused(found: Any, words: str) -> None:
    with pytest.raises(RefusedError) as caught:
        requested_claim(found, REF)

    assert str(caught.value).startswith("claim ai/nics: ")
    assert words in str(caught.value)


# --------------------------------------------------------------------------- its pod


def test_the_pod_that_the_claim_is_reserved_for_has_it() -> None:
    assert consumer_of(claim(result("a")), None).uid == "p1"


TWO = [user("train", "p1"), user("other", "p2")]
HOST = replace(USE, host_network=True)
GANG = [user("gang", "g1", apiGroup="scheduling.k8s.io", resource="podgroups")]


@pytest.mark.parametrize(
    ("users", "words"),
    [
        ([], "is reserved for no pod"),
        (TWO, "is used by 2 pods (train, other), and a device can be in one only"),
        (GANG, "is reserved for podgroups.scheduling.k8s.io/gang, which is no pod, and a device"),
        (
            GANG,
            "take the claim out of the PodGroup and give each pod its own: resourceClaimTemplate",
        ),
        ([*TWO, *GANG], "is reserved for podgroups.scheduling.k8s.io/gang, which is no pod"),
    ],
)
def test_a_claim_that_is_not_one_pods_is_refused(users: Any, words: str) -> None:
    wanted = replace(claim(result("a")), consumers=claim(users=users).consumers if users else ())

    with pytest.raises(RefusedError) as caught:
        consumer_of(wanted, None)

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("over", "names"), [({"p1"}, "train"), ({"p2"}, "other"), ({"p2", "p1"}, "train, other")]
)
def test_a_claim_that_pods_have_still_that_ended_may_become_one_pods(
    over: set[str], names: str
) -> None:
    with pytest.raises(NotYetError) as caught:
        consumer_of(claim(result("a"), users=TWO), None, over)

    assert str(caught.value) == (
        f"claim ai/nics: is still reserved for {names} as well, which ended"
    )


def test_pods_that_ended_are_none_of_those_that_share_a_claim() -> None:
    users = [*TWO, user("old", "p0")]

    with pytest.raises(RefusedError, match=r"is used by 2 pods \(train, other\), and"):
        consumer_of(claim(result("a"), users=users), None, {"p0"})


MIXED = (result("a", "look", adminAccess=True), result("b", "take"))


@pytest.mark.parametrize("results", [MIXED, MIXED[::-1]], ids=["looks first", "takes first"])
def test_a_claim_that_takes_one_device_and_looks_at_another_is_one_pods(
    results: tuple[Document, ...],
) -> None:
    with pytest.raises(RefusedError, match="is used by 2 pods"):
        consumer_of(claim(*results, users=TWO), None)
    with pytest.raises(RefusedError, match="is on the host network"):
        requested_use(HOST, claim(*results), POD)


def test_a_claim_that_only_observes_may_be_of_several_pods_and_stays_with_the_recorded_one() -> (
    None
):
    wanted = claim(result("a", adminAccess=True), users=TWO)
    of_the_second = recorded(wanted, pod=ObjectRef("ai", "other", "p2"))
    of_one_that_left = recorded(wanted, pod=ObjectRef("ai", "gone", "p0"))

    assert consumer_of(wanted, None).uid == "p1"
    assert consumer_of(wanted, of_the_second).uid == "p2"
    assert consumer_of(wanted, of_one_that_left).uid == "p1"


def test_of_pods_that_look_on_one_that_lives_counts() -> None:
    wanted = claim(result("a", adminAccess=True), users=TWO)
    of_the_second = recorded(wanted, pod=ObjectRef("ai", "other", "p2"))

    assert consumer_of(wanted, None, {"p1"}).uid == "p2"
    assert consumer_of(wanted, of_the_second, {"p2"}).uid == "p1"
    assert consumer_of(wanted, of_the_second, {"p1", "p2"}).uid == "p2", "who asks hears it is gone"


def test_a_claim_that_only_observes_is_the_pods_though_a_group_has_it_too() -> None:
    shared = claim(result("a", adminAccess=True), users=[*GANG, *TWO])
    of_the_group = claim(result("a", adminAccess=True), users=GANG)

    assert consumer_of(shared, None).uid == "p1"
    with pytest.raises(RefusedError, match="gang, which is no pod"):
        consumer_of(of_the_group, None)


def test_the_pod_as_the_server_has_it_may_have_the_claim() -> None:
    assert requested_use(USE, claim(result("a")), POD) == USE


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (None, "the one with UID p1 does not exist any more"),
        (replace(USE, uid="p9"), "the one with UID p1 does not exist any more"),
        (replace(USE, refers=False), "claim ai/nics is reserved for it, but it has none such"),
        (HOST, "is on the host network"),
    ],
)
def test_a_pod_that_cannot_have_the_claim_is_refused(use: PodUse | None, words: str) -> None:
    with pytest.raises(RefusedError) as caught:
        requested_use(use, claim(result("a")), POD)

    assert str(caught.value).startswith("pod ai/train: ")
    assert words in str(caught.value)


def test_a_pod_on_the_hosts_network_may_observe() -> None:
    assert requested_use(HOST, claim(result("a", adminAccess=True)), POD) == HOST


# --------------------------------------------------------------------------- the record


def test_devices_are_recorded_with_their_facts_and_what_the_allocation_says_of_them() -> None:
    consumed = {"dra.net/bandwidth": "20G", "dra.net/a": "1500m", "dra.net/b": 0}
    share = result("a", "rdma", shareID="5a", consumedCapacity=consumed)
    wanted = claim(result("b", "nic/fast"), share)

    assert recorded(wanted, a=HCA) == Allocation(
        REF,
        POD,
        (
            AllocatedDevice("nic", POOL, NICS["b"], subrequest="fast"),
            AllocatedDevice(
                "rdma",
                POOL,
                HCA,
                share_id="5a",
                consumed=(
                    Consumed("dra.net/a", 2),
                    Consumed("dra.net/b", 0),
                    Consumed("dra.net/bandwidth", 20 * 10**9),
                ),
            ),
        ),
        "n0nce",
        "boot1",
        "fast",
        (ContainerClaim("main", "nic"),),
    )


CONFIGS = [
    config({"interface": {"mtu": 1000, "name": "net1"}}, source="FromClass"),
    config(mtu(2000), "nic"),
    config(mtu(3000), "nic/fast"),
    config(mtu(68), "other"),
    config({}),
]


def test_the_claim_beats_the_class_and_the_subrequest_the_request() -> None:
    wanted = claim(result("a", "nic/fast"), result("b", "nic/slow"), configs=CONFIGS)

    found = [device.config.interface for device in recorded(wanted).devices]

    assert [(ref.mtu, ref.name) for ref in found] == [(3000, "net1"), (2000, "net1")]


def test_with_dranets_order_the_first_configuration_is_taken_alone() -> None:
    wanted = claim(result("a", "nic"), result("b", "nic/fast"), configs=CONFIGS[1:])

    devices = recorded(wanted, replace(TERMS, first_valid_config=True)).devices

    assert [device.config for device in devices] == [with_mtu(2000), with_mtu(3000)]


def test_who_observes_configures_nothing_not_even_wrongly() -> None:
    wanted = claim(result("a", "look", adminAccess=True), configs=[config(mtu(2000))])

    (device,) = recorded(wanted).devices

    assert device == AllocatedDevice("look", POOL, NICS["a"], admin_access=True)


def test_a_share_of_a_device_is_configured_by_nobody() -> None:
    wanted = claim(result("a", "nic", shareID="5a"), configs=[config(mtu(2000), "nic")])

    with pytest.raises(ConfigError, match=r"^device a: interface\.mtu: 2000: not possible on"):
        recorded(wanted, a=HCA)


def test_a_share_that_gives_nothing_is_refused_but_to_who_only_observes() -> None:
    with pytest.raises(ConfigError, match=r"^device a: a share of it gives a pod nothing"):
        recorded(claim(result("a", shareID="5a")))

    (device,) = recorded(claim(result("a", shareID="5a", adminAccess=True))).devices
    assert (device.device, device.share_id) == (NICS["a"], "5a")


def test_every_violation_of_every_request_and_device_is_told_once() -> None:
    wanted = claim(
        result("a", "x"),
        result("b", "z"),
        result("c", "y"),
        configs=[
            config(mtu(1), "x"),
            config({"interfaces": {}}, "x", "z", source="FromClass"),
            config({"rdma": {"name": "hca0"}}, "y"),
        ],
    )

    with pytest.raises(ConfigError) as caught:
        recorded(wanted)

    assert [line.split(": ")[0] for line in caught.value.violations] == [
        "claim spec.devices.config[0].opaque.parameters.interface.mtu",
        "class spec.config[0].opaque.parameters.interfaces",
        "device c",
    ]


def test_a_device_that_is_not_on_the_node_may_come() -> None:
    with pytest.raises(NotYetError, match="device z: this node has none such now") as caught:
        recorded(claim(result("a"), result("z")))

    assert "'dranet-nri inventory'" in str(caught.value)
    assert "the shim's log ('left out')" in str(caught.value)


def test_a_device_whose_interface_is_away_may_get_it_back() -> None:
    bare = replace(NICS["a"], key=DeviceKey("pci", "0000:82:00.0", ""), rdma_devices=())

    with pytest.raises(NotYetError, match="device a: has no network interface on the host"):
        allocation_of(claim(result("a")), POD, USE, {"a": bare}, TERMS, "n0nce")
    looks = claim(result("a", "look", adminAccess=True))
    assert allocation_of(looks, POD, USE, {"a": bare}, TERMS, "n0nce").devices


def test_another_nodes_device_of_the_same_name_is_refused() -> None:
    with pytest.raises(
        RefusedError, match="device a: is of pool node-2, and this node's is node-1"
    ):
        recorded(claim(result("a", pool="node-2")))


# --------------------------------------------------------------------------- the answer


def test_each_request_that_takes_devices_has_one_cdi_id_and_on_its_first_device() -> None:
    wanted = claim(
        result("a", "nic/fast"),
        result("h", "nic/fast", shareID="5a"),
        result("c", "look", adminAccess=True),
    )

    assert prepared_devices(recorded(wanted, h=replace(HCA, name="h"))) == (
        PreparedDevice("nic", POOL, "a", ("dra.net/nic=ai_nics_nic_n0nce",)),
        PreparedDevice("nic", POOL, "h", (), "5a"),
        PreparedDevice("look", POOL, "c"),
    )


@pytest.mark.parametrize(
    ("listed", "gated"),
    [
        ([], False),
        (["gpu"], False),
        (["nic"], False),
        (["nic", "second"], True),
        (["gpu", "second", "nic"], True),
        ([""], True),
        (["gpu", ""], True),
    ],
)
def test_a_claim_is_gated_where_each_request_is_listed(listed: list[str], gated: bool) -> None:  # noqa: FBT001
    record = recorded(
        claim(result("a"), result("b", "second"), result("c", "see", adminAccess=True))
    )
    record = replace(record, containers=tuple(ContainerClaim("main", entry) for entry in listed))

    assert is_gated(record) is gated


def test_a_claim_that_only_observes_waits_for_nothing() -> None:
    record = replace(recorded(claim(result("a", adminAccess=True))), containers=())

    assert is_gated(record)


def test_who_is_told_to_come_back_later_knows_when() -> None:
    assert (ApiUnavailableError("busy").after_s, ApiUnavailableError("busy", 3.5).after_s) == (
        0.0,
        3.5,
    )


def test_parameters_of_a_provider_that_are_not_valid_are_named_by_their_origin() -> None:
    provided = {("nic", "a"): (Provided("cloud GCE", {"interface": {"mtu": 1}}),)}

    with pytest.raises(ConfigError) as caught:
        allocation_of(claim(result("a")), POD, USE, NICS, TERMS, "n0nce", provided)

    assert caught.value.violations[0].startswith("cloud GCE.interface.mtu: 1: ")
