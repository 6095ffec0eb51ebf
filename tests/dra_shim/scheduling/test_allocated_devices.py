"""Devices that claims have already, read from their status and removed from the pools."""

from fractions import Fraction

import pytest

from dra_shim.resourceapi import (
    AllocatedResult,
    Capacity,
    CounterValue,
    ResourceClaim,
    parse_document,
)
from dra_shim.scheduling.allocator import PoolSet, with_allocated
from dranet_nri.errors import ConfigError
from tests.dra_shim.scheduling.shorthand import (
    claim,
    exactly,
    given,
    pool_set_with,
    refused,
    slice_device,
    vf,
)

ROOM = (Capacity("bandwidth", Fraction(100)),)


def taken_by(status: object) -> tuple[AllocatedResult, ...]:
    document = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "nics"},
        "spec": {},
        "status": status,
    }
    found = parse_document(document)
    assert isinstance(found, ResourceClaim)
    return found.allocated


def allocation(*results: object) -> dict[str, object]:
    return {"allocation": {"devices": {"results": list(results), "config": []}}, "reservedFor": []}


def test_devices_and_shares_are_read_without_admin_access() -> None:
    named = {"request": "r", "driver": "x.y", "pool": "p"}
    status = allocation(
        {**named, "device": "a", "tolerations": [], "ofANewerServer": 1, "shareID": None},
        {**named, "device": "b", "shareID": "5a", "consumedCapacity": {"bandwidth": "40"}},
        {**named, "device": "c", "adminAccess": True},
        {**named, "device": "d", "adminAccess": False},
    )

    assert taken_by(status) == (
        AllocatedResult(("x.y", "p", "a")),
        AllocatedResult(("x.y", "p", "b"), "5a", (("bandwidth", Fraction(40)),)),
        AllocatedResult(("x.y", "p", "d")),
    )


@pytest.mark.parametrize(
    "status",
    [{}, {"allocation": None}, {"allocation": {}}, {"allocation": {"devices": {"results": []}}}],
)
def test_claim_without_an_allocation_has_no_devices(status: object) -> None:
    assert taken_by(status) == ()


def test_malformed_status_is_refused_with_its_path() -> None:
    status = allocation(
        {"driver": "x.y", "pool": 4, "device": "a", "consumedCapacity": {"bandwidth": "much"}}, {}
    )

    with pytest.raises(ConfigError) as caught:
        taken_by(status)

    path = "status.allocation.devices.results"
    assert caught.value.violations == (
        f"{path}[0].pool: 4: must be a string; put it in quotes",
        f'{path}[0].consumedCapacity.bandwidth: "much": must be a quantity such as 10Gi, 500m or'
        " 1.5",
        *(
            f"{path}[1]: object with no fields: needs {name}; add it"
            for name in ("driver", "pool", "device")
        ),
    )


def left(pool_set: PoolSet, *taken: AllocatedResult) -> PoolSet:
    return with_allocated(pool_set, [("claim q", result) for result in taken])


def test_device_of_another_claim_is_in_use() -> None:
    pool_set = left(
        pool_set_with(slice_device("a"), slice_device("b")), AllocatedResult(("x.y", "p", "a"))
    )

    assert given(pool_set, claim(exactly())) == [("r", "b")]
    assert any(
        "device a: in use by claim q" in line for line in refused(pool_set, claim(exactly("r", 2)))
    )


def test_recorded_owner_of_a_device_is_kept() -> None:
    pool_set = left(
        pool_set_with(slice_device("a"), in_use={"a": "pod x"}), AllocatedResult(("x.y", "p", "a"))
    )

    assert any("in use by pod x" in line for line in refused(pool_set, claim(exactly())))


def test_shares_of_other_claims_reduce_the_capacity() -> None:
    pool_set = pool_set_with(slice_device("a", capacity=ROOM, shared=True))
    share = AllocatedResult(("x.y", "p", "a"), "5a", (("bandwidth", Fraction(40)),))
    amounts = (("bandwidth", Fraction(30)),)

    one, two = left(pool_set, share), left(pool_set, share, share)

    assert given(one, claim(exactly(capacity=amounts))) == [("r", "a")]
    assert any(
        "capacity bandwidth: needs 30, 20 is left" in line
        for line in refused(two, claim(exactly(capacity=amounts)))
    )


def test_shared_device_of_other_claims_consumes_counters_once() -> None:
    pool_set = pool_set_with(
        vf("a", shared=True), vf("b"), counters=(CounterValue("pf", "vfs", Fraction(1)),)
    )
    pool_set = left(pool_set, AllocatedResult(("x.y", "p", "a"), "5a"))

    assert given(pool_set, claim(exactly())) == [("r", "a")]
    assert refused(pool_set, claim(exactly("r"), exactly("s", 1), exactly("t", 2)))
