"""Allocations of claims: the record, the answer to the kubelet, and refused claims."""

from dataclasses import replace
from typing import Any

import pytest

from dra_shim.prepare.allocation import (
    PreparedDevice,
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
from tests.dra_shim.prepare.claims import (
    HCA,
    NICS,
    POD,
    REF,
    TERMS,
    USE,
    allocated_with,
    claim,
    document,
    recorded,
)
from tests.fakes.cluster import POOL, Document, claim_document, config, result, user


def mtu(number: int) -> Document:
    return {"interface": {"mtu": number}}


def with_mtu(number: int) -> NetworkConfig:
    return NetworkConfig(interface=InterfaceConfig(mtu=number))


# --------------------------------------------------------------------------- the claim


def test_requested_claim_is_read() -> None:
    assert requested_claim(document(result("a")), REF) == claim(result("a"))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "does not exist;"),
        (claim_document("nics", "u2", [], []), "with UID u1, and the server one with UID u2"),
        ({**document(), "status": {}}, "is not allocated"),
    ],
)
def test_claim_with_another_uid_is_refused(found: Any, message: str) -> None:
    with pytest.raises(RefusedError) as caught:
        requested_claim(found, REF)

    assert str(caught.value).startswith("claim ai/nics: ")
    assert message in str(caught.value)


# --------------------------------------------------------------------------- its pod


def test_claim_belongs_to_the_pod_of_its_reservation() -> None:
    assert consumer_of(claim(result("a")), None).uid == "p1"


TWO = [user("train", "p1"), user("other", "p2")]
HOST = replace(USE, host_network=True)
GANG = [user("gang", "g1", apiGroup="scheduling.k8s.io", resource="podgroups")]


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ([], "is reserved for no pod"),
        (TWO, "is used by 2 pods (train, other), and a device can be in one only"),
        (
            GANG,
            "is reserved for podgroups.scheduling.k8s.io/gang, which is not a pod, and a device",
        ),
        (
            GANG,
            "remove the claim from the PodGroup, and give each pod its own: resourceClaimTemplate",
        ),
        ([*TWO, *GANG], "is reserved for podgroups.scheduling.k8s.io/gang, which is not a pod"),
    ],
)
def test_claim_without_a_single_pod_is_refused(users: Any, message: str) -> None:
    allocated = replace(claim(result("a")), consumers=claim(users=users).consumers if users else ())

    with pytest.raises(RefusedError) as caught:
        consumer_of(allocated, None)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("over", "names"), [({"p1"}, "train"), ({"p2"}, "other"), ({"p2", "p1"}, "train, other")]
)
def test_claim_reserved_for_ended_pods_can_be_retried(over: set[str], names: str) -> None:
    with pytest.raises(NotYetError) as caught:
        consumer_of(claim(result("a"), users=TWO), None, over)

    assert str(caught.value) == (
        f"claim ai/nics: is still reserved for {names} as well, which ended"
    )


def test_ended_pods_do_not_share_a_claim() -> None:
    users = [*TWO, user("old", "p0")]

    with pytest.raises(RefusedError, match=r"is used by 2 pods \(train, other\), and"):
        consumer_of(claim(result("a"), users=users), None, {"p0"})


MIXED = (result("a", "look", adminAccess=True), result("b", "take"))


@pytest.mark.parametrize("results", [MIXED, MIXED[::-1]], ids=["looks first", "takes first"])
def test_claim_with_partial_admin_access_belongs_to_one_pod(
    results: tuple[Document, ...],
) -> None:
    with pytest.raises(RefusedError, match="is used by 2 pods"):
        consumer_of(claim(*results, users=TWO), None)
    with pytest.raises(RefusedError, match="is on the host network"):
        requested_use(HOST, claim(*results), POD)


def test_admin_access_claim_of_several_pods_keeps_its_recorded_pod() -> None:
    allocated = claim(result("a", adminAccess=True), users=TWO)
    of_the_second = recorded(allocated, pod=ObjectRef("ai", "other", "p2"))
    of_one_that_left = recorded(allocated, pod=ObjectRef("ai", "gone", "p0"))

    assert consumer_of(allocated, None).uid == "p1"
    assert consumer_of(allocated, of_the_second).uid == "p2"
    assert consumer_of(allocated, of_one_that_left).uid == "p1"


def test_living_pod_of_an_admin_access_claim_is_chosen() -> None:
    allocated = claim(result("a", adminAccess=True), users=TWO)
    of_the_second = recorded(allocated, pod=ObjectRef("ai", "other", "p2"))

    assert consumer_of(allocated, None, {"p1"}).uid == "p2"
    assert consumer_of(allocated, of_the_second, {"p2"}).uid == "p1"
    # With no living pod the recorded one is returned.
    assert consumer_of(allocated, of_the_second, {"p1", "p2"}).uid == "p2"


def test_admin_access_claim_reserved_for_a_group_belongs_to_the_pod() -> None:
    shared = claim(result("a", adminAccess=True), users=[*GANG, *TWO])
    of_the_group = claim(result("a", adminAccess=True), users=GANG)

    assert consumer_of(shared, None).uid == "p1"
    with pytest.raises(RefusedError, match="gang, which is not a pod"):
        consumer_of(of_the_group, None)


def test_pod_of_the_server_can_have_the_claim() -> None:
    assert requested_use(USE, claim(result("a")), POD) == USE


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (None, "does not exist any more with UID p1"),
        (replace(USE, uid="p9"), "does not exist any more with UID p1"),
        (replace(USE, has_claim=False), "does not list claim ai/nics, which is reserved for it"),
        (HOST, "is on the host network"),
    ],
)
def test_ineligible_pod_is_refused(use: PodUse | None, message: str) -> None:
    with pytest.raises(RefusedError) as caught:
        requested_use(use, claim(result("a")), POD)

    assert str(caught.value).startswith("pod ai/train: ")
    assert message in str(caught.value)


def test_pod_on_the_host_network_can_have_admin_access() -> None:
    assert requested_use(HOST, claim(result("a", adminAccess=True)), POD) == HOST


# --------------------------------------------------------------------------- the record


@pytest.mark.parametrize("name", ["bandwidth", "dra.net/bandwidth"])
def test_share_has_its_bandwidth_by_either_form_of_the_name(name: str) -> None:
    share = result("a", "nic", shareID="5a", consumedCapacity={name: "20G"})

    (device,) = recorded(claim(share), a=HCA).devices

    assert device.bandwidth == 20 * 10**9


def test_devices_are_recorded_with_facts_and_allocation() -> None:
    consumed = {"dra.net/bandwidth": "20G", "dra.net/a": "1500m", "dra.net/b": 0}
    share = result("a", "rdma", shareID="5a", consumedCapacity=consumed)
    allocated = claim(result("b", "nic/fast"), share)

    assert recorded(allocated, a=HCA) == Allocation(
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


def test_claim_overrides_class_and_subrequest_overrides_request() -> None:
    allocated = claim(result("a", "nic/fast"), result("b", "nic/slow"), configs=CONFIGS)

    found = [device.config.interface for device in recorded(allocated).devices]

    assert [(ref.mtu, ref.name) for ref in found] == [(3000, "net1"), (2000, "net1")]


def test_first_configuration_is_used_alone_in_dranets_order() -> None:
    allocated = claim(result("a", "nic"), result("b", "nic/fast"), configs=CONFIGS[1:])

    devices = recorded(allocated, replace(TERMS, first_valid_config=True)).devices

    assert [device.config for device in devices] == [with_mtu(2000), with_mtu(3000)]


def test_configuration_of_admin_access_is_ignored() -> None:
    allocated = claim(result("a", "look", adminAccess=True), configs=[config(mtu(2000))])

    (device,) = recorded(allocated).devices

    assert device == AllocatedDevice("look", POOL, NICS["a"], admin_access=True)


def test_share_of_a_device_has_no_configuration() -> None:
    allocated = claim(result("a", "nic", shareID="5a"), configs=[config(mtu(2000), "nic")])

    with pytest.raises(ConfigError, match=r"^device a: interface\.mtu: 2000: not possible on"):
        recorded(allocated, a=HCA)


def test_useless_share_is_refused_without_admin_access() -> None:
    with pytest.raises(ConfigError, match=r"^device a: a share of it gives a pod nothing"):
        recorded(claim(result("a", shareID="5a")))

    (device,) = recorded(claim(result("a", shareID="5a", adminAccess=True))).devices
    assert (device.device, device.share_id) == (NICS["a"], "5a")


def test_every_violation_is_reported_once() -> None:
    allocated = claim(
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
        recorded(allocated)

    assert [line.split(": ")[0] for line in caught.value.violations] == [
        "claim spec.devices.config[0].opaque.parameters.interface.mtu",
        "class spec.config[0].opaque.parameters.interfaces",
        "device c",
    ]


def test_missing_device_can_be_retried() -> None:
    with pytest.raises(NotYetError, match="device z: this node has no such device now") as caught:
        recorded(claim(result("a"), result("z")))

    assert "'dranet-nri inventory'" in str(caught.value)
    assert "'devices excluded' in the shim's log" in str(caught.value)


def test_device_without_its_interface_can_be_retried() -> None:
    without_interface = replace(
        NICS["a"], key=DeviceKey("pci", "0000:82:00.0", ""), rdma_devices=()
    )

    with pytest.raises(NotYetError, match="device a: has no network interface on the host"):
        allocated_with(claim(result("a")), {"a": without_interface})
    admin_claim = claim(result("a", "look", adminAccess=True))
    assert allocated_with(admin_claim, {"a": without_interface}).devices


def test_device_of_another_node_is_refused() -> None:
    with pytest.raises(
        RefusedError, match="device a: is in pool node-2, and the pool of this node is node-1"
    ):
        recorded(claim(result("a", pool="node-2")))


# --------------------------------------------------------------------------- the answer


def test_request_has_one_cdi_id_on_its_first_device() -> None:
    allocated = claim(
        result("a", "nic/fast"),
        result("h", "nic/fast", shareID="5a"),
        result("c", "look", adminAccess=True),
    )

    assert prepared_devices(recorded(allocated, h=replace(HCA, name="h"))) == (
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
def test_claim_is_gated_if_each_request_is_listed(listed: list[str], gated: bool) -> None:  # noqa: FBT001
    record = recorded(
        claim(result("a"), result("b", "second"), result("c", "see", adminAccess=True))
    )
    record = replace(record, containers=tuple(ContainerClaim("main", entry) for entry in listed))

    assert is_gated(record) is gated


def test_admin_access_claim_counts_as_gated() -> None:
    record = replace(recorded(claim(result("a", adminAccess=True))), containers=())

    assert is_gated(record)


def test_retryable_error_has_a_delay() -> None:
    assert (ApiUnavailableError("busy").after_s, ApiUnavailableError("busy", 3.5).after_s) == (
        0.0,
        3.5,
    )


def test_invalid_provider_parameters_are_named_by_origin() -> None:
    provided = {("nic", "a"): (Provided("cloud GCE", {"interface": {"mtu": 1}}),)}

    with pytest.raises(ConfigError) as caught:
        allocated_with(claim(result("a")), NICS, provided=provided)

    assert caught.value.violations[0].startswith("cloud GCE.interface.mtu: 1: ")


ROUTE: Document = {"routes": [{"destination": "0.0.0.0/0", "gateway": "10.9.0.1"}]}
NEAR, FAR = ({"interface": {"addresses": [address]}} for address in ("10.9.0.5/24", "10.8.0.5/24"))


@pytest.mark.parametrize("given", ["FromClass", "FromClaim", "provider"])
@pytest.mark.parametrize("routed", ["FromClass", "FromClaim", "provider"])
@pytest.mark.parametrize("profile", [{}, {"profile": "fast"}], ids=["no-profile", "profile"])
def test_gateway_is_checked_after_every_merge(given: str, routed: str, profile: Document) -> None:
    def lines(addresses: Document) -> tuple[str, ...]:
        entries = [(given, addresses), (routed, ROUTE), ("FromClaim", profile)]
        configs = [config(part, source=name) for name, part in entries if name != "provider"]
        layers = tuple(Provided(name, part) for name, part in entries if name == "provider")
        try:
            allocated_with(
                claim(result("a"), configs=configs), NICS, provided={("nic", "a"): layers}
            )
        except ConfigError as error:
            return error.violations
        return ()

    expected = 'device a: routes[0].gateway: "10.9.0.1": is in no network of'
    does_not_apply = routed == "provider" != given

    assert lines(NEAR) == ()
    assert [line[: len(expected)] for line in lines(FAR)] == [expected] * (not does_not_apply)
