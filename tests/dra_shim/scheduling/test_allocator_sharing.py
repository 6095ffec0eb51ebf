# ruff: noqa: E501  cases in one line read as a table
"""Devices that are not given whole: looked at, drawn from a pool, shared; and tainted ones."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dra_shim.cel import SelectorError
from dra_shim.pool import NodeInventory
from dra_shim.resourceapi import (
    AllocatedResult,
    Capacity,
    ClaimSpec,
    CounterValue,
    Policy,
    ResourceSlice,
    Taint,
    Toleration,
)
from dra_shim.scheduling.allocator import (
    NamedClaim,
    PoolSet,
    allocate,
    pools_of,
    with_allocated,
)
from dra_shim.scheduling.allocator.capacity import CapacityShare, share_of
from dranet_nri.config import ConfigEntry, ConfigSource
from dranet_nri.model import Device, DeviceKey, NetworkConfig
from tests.dra_shim.scheduling.shorthand import (
    BANDWIDTH,
    CLASSES,
    PF,
    amount,
    capacity_request,
    claim,
    every,
    exactly,
    given,
    grants,
    pool_set_with,
    refused,
    shared,
    slice_device,
    vf,
)

# --------------------------------------------------------------------------- adminAccess


def test_admin_access_gets_devices_in_use() -> None:
    pool_set = pool_set_with(slice_device("a"), in_use={"a": "claim q"})

    (grant,) = grants(pool_set, claim(exactly(admin_access=True)))

    assert (grant.device.name, grant.admin_access) == ("a", True)


def test_admin_access_is_recorded_without_configuration() -> None:
    node_devices = NodeInventory((Device("a", DeviceKey("", "", "a")),), {"a": "claim q"})
    config = ConfigEntry(ConfigSource.CLAIM, "dra.net", {"interface": {"mtu": 9000}}, (), "c")
    spec = ClaimSpec((exactly(admin_access=True),), (), (config,))

    ((device,),) = allocate([NamedClaim("a/c", spec)], CLASSES, node_devices, "n", new_uid=str)

    assert (device.admin_access, device.config, device.share_id) == (True, NetworkConfig(), "")


def test_admin_access_is_allocated_once_per_claim_and_after_other_claims() -> None:
    pool_set = pool_set_with(slice_device("a"))
    admin_request = exactly("look", admin_access=True)

    assert refused(pool_set, claim(admin_request, exactly("again", admin_access=True)))
    assert given(pool_set, claim(exactly()), claim(admin_request, label="a/d")) == [
        ("r", "a"),
        ("look", "a"),
    ]
    assert refused(pool_set, claim(admin_request), claim(exactly(), label="a/d"))


def test_admin_access_needs_tolerations() -> None:
    pool_set = pool_set_with(slice_device("a", taints=(Taint("k", "v", "NoExecute"),)))

    assert "tainted k=v:NoExecute" in refused(pool_set, claim(exactly(admin_access=True)))[1]


# --------------------------------------------------------------------------- counters


def test_devices_consume_the_counters_of_their_pool() -> None:
    pool_set = pool_set_with(vf("whole", 2), vf("a"), vf("b"), vf("c"), counters=PF)

    assert given(pool_set, claim(exactly())) == [("r", "whole")]
    assert given(pool_set, claim(exactly("r", 2))) == [("r", "a"), ("r", "b")]
    assert refused(pool_set, claim(exactly("r", 3)))[0].endswith(
        "r: needs 3 devices, but no 3 of the 4 that fit go together; free a device, or relax the selectors or constraints; a device waits for the devices that consume its counter: a physical function and its virtual functions exclude each other"
    )


def test_devices_in_use_have_consumed_their_counters() -> None:
    pool_set = pool_set_with(vf("whole", 2), vf("a"), vf("b"), counters=PF, in_use={"a": "claim q"})

    assert given(pool_set, claim(exactly())) == [("r", "b")]


def test_devices_of_other_nodes_have_consumed_counters_of_the_pool() -> None:
    there = replace(vf("there", 2), node="m")
    slices = [
        ResourceSlice("a", "x.y", "p", count=2, counters=PF),
        ResourceSlice("b", "x.y", "p", count=2, devices=(replace(vf("here"), node="n"), there)),
    ]
    pool_set = PoolSet(pools_of(slices, "n"))
    used = with_allocated(pool_set, [("claim q", AllocatedResult(there.id))])

    assert given(pool_set, claim(exactly())) == [("r", "here")]
    assert "counter pf/vfs: needs 1, 0 is left" in " ".join(refused(used, claim(exactly())))


def test_admin_access_consumes_counters() -> None:
    admin_request = exactly("look", admin_access=True)
    pool_set = pool_set_with(vf("whole", 2), vf("a"), counters=PF)
    busy = pool_set_with(vf("whole", 2), counters=PF, in_use={"whole": "claim q"})

    assert given(pool_set, claim(admin_request)) == [("look", "whole")]
    assert refused(pool_set, claim(admin_request, exactly("s")))
    assert refused(busy, claim(admin_request))[1].endswith(
        "whole: counter pf/vfs: needs 2, 0 is left"
    )


def test_admin_access_to_a_device_of_the_pod_consumes_counters_again() -> None:
    admin_request = exactly("look", admin_access=True)
    half, whole = pool_set_with(vf("a"), counters=PF), pool_set_with(vf("a", 2), counters=PF)

    assert given(half, claim(exactly()), claim(admin_request, label="a/d")) == [
        ("r", "a"),
        ("look", "a"),
    ]
    assert refused(whole, claim(exactly()), claim(admin_request, label="a/d"))


def test_pool_with_an_exceeded_counter_gives_no_consuming_device() -> None:
    other = CounterValue("far", "vfs", Fraction(1))
    far = replace(slice_device("far"), counters=(other,))
    users = {"whole": "claim q", "a": "claim q"}
    pool_set = pool_set_with(
        vf("whole", 2), vf("a"), far, slice_device("plain"), counters=(*PF, other), in_use=users
    )

    assert given(pool_set, claim(exactly())) == [("r", "plain")]
    reason = "counter pf/vfs of the pool is overdrawn by 1, so the scheduler allocates no device of it that consumes counters; free a device of pf"
    assert refused(pool_set, claim(exactly("r", 2)))[3].endswith(f"far: {reason}")


def test_shares_of_a_device_consume_its_counters_once() -> None:
    pool_set = pool_set_with(vf("a", 2, shared=True), vf("b"), counters=PF)

    assert given(pool_set, claim(exactly("r"), exactly("s"))) == [("r", "a"), ("s", "a")]
    assert refused(pool_set, claim(exactly("r"), exactly("s", 2)))


# --------------------------------------------------------------------------- capacity


def test_shared_device_serves_claims_up_to_its_capacity() -> None:
    pool_set = pool_set_with(shared("a", BANDWIDTH), shared("b", BANDWIDTH))
    claims = [claim(exactly("r", 1, **capacity_request(40)), label=f"a/{i}") for i in range(3)]

    found = grants(pool_set, *claims)

    assert [(entry.device.name, entry.share_id, entry.consumed) for entry in found] == [
        ("a", "share-1", (("bandwidth", Fraction(50)),)),
        ("a", "share-2", (("bandwidth", Fraction(50)),)),
        ("b", "share-3", (("bandwidth", Fraction(50)),)),
    ]


def test_admin_access_consumes_capacity() -> None:
    admin_request = exactly("look", 1, admin_access=True, **capacity_request(40))
    pool_set = pool_set_with(shared("a", BANDWIDTH))

    (grant,) = grants(pool_set, claim(admin_request))

    assert (grant.share_id, grant.consumed) == ("share-1", (("bandwidth", Fraction(50)),))
    assert refused(pool_set, *(claim(admin_request, label=f"a/{i}") for i in range(3)))


def test_all_mode_takes_devices_with_sufficient_capacity() -> None:
    small = shared("small", Capacity("bandwidth", Fraction(9)))
    pool_set = pool_set_with(small, shared("a", BANDWIDTH), shared("b", BANDWIDTH))

    assert given(pool_set, claim(every("r", **capacity_request(40)))) == [("r", "a"), ("r", "b")]
    others = [claim(exactly("s", 1, **capacity_request(40)), label=f"a/{i}") for i in range(3)]
    assert refused(pool_set, *others, claim(every("r", **capacity_request(40))))
    none = "the selectors choose no device with the requested capacity"
    assert none in refused(pool_set, claim(every("r", **capacity_request(99))))[0]


def test_request_gets_a_shared_device_once() -> None:
    assert refused(pool_set_with(shared("a", BANDWIDTH)), claim(exactly("r", 2)))


def test_requested_capacity_must_exist_and_be_valid() -> None:
    def refusal_of(number: int, name: str = "bandwidth") -> str:
        pool_set = pool_set_with(shared("a", BANDWIDTH))
        return refused(pool_set, claim(exactly("r", 1, **capacity_request(number, name))))[
            1
        ].rpartition("a: ")[2]

    assert refusal_of(1, "memory") == "the request needs capacity memory, which the device lacks"
    assert (
        refusal_of(61)
        == "the request needs 61 of capacity bandwidth, the device allows at most 60 per request"
    )


def test_exclusive_device_needs_the_requested_capacity() -> None:
    pool_set = pool_set_with(
        *(slice_device(f"d{i}", capacity=(Capacity("memory", Fraction(i)),)) for i in (4, 8))
    )

    (grant,) = grants(pool_set, claim(exactly("r", 1, **capacity_request(5, "memory"))))

    assert (grant.device.name, grant.share_id, grant.consumed) == ("d8", "", ())


RANGE = Policy(amount("2"), (), amount("1"), amount("8"), amount("1.5"))
VALUES = Policy(amount("1"), (amount("1"), amount("2"), amount("4")))


@pytest.mark.parametrize(
    ("policy", "requested", "consumed"),
    [
        (Policy(), None, "10"),
        (Policy(), "3", "3"),
        (Policy(), "11", None),
        (Policy(amount("2")), None, "2"),
        (Policy(amount("2")), "3", "3"),
        (RANGE, None, "2"),
        (RANGE, "500m", "1"),
        (RANGE, "1", "1"),
        (RANGE, "1.1", "2.5"),
        (RANGE, "2.5", "2.5"),
        (RANGE, "7", "7"),
        (RANGE, "7.1", None),
        (Policy(None, (), amount("1")), "3.3", "3.3"),
        (VALUES, None, "1"),
        (VALUES, "1.5", "2"),
        (VALUES, "4", "4"),
        (VALUES, "4.1", None),
    ],
)  # fmt: skip
def test_capacity_is_rounded_up_by_the_policy(
    policy: Policy, requested: str | None, consumed: str | None
) -> None:
    device = shared("a", Capacity("m", amount("10"), policy))

    share = share_of(device, (("m", amount(requested)),) if requested else ())

    assert share.amounts == ((("m", amount(consumed)),) if consumed else ())
    assert bool(share.refusal) is (consumed is None)


@pytest.mark.parametrize(
    ("published", "requested", "remedy"),
    [("m", "x.y/m", ""), ("x.y/m", "m", "; write x.y/m"), ("o.z/m", "m", "")],
)
def test_capacity_is_matched_by_its_published_name(
    published: str, requested: str, remedy: str
) -> None:
    device = shared("a", Capacity(published, Fraction(4)))

    refusal = f"the request needs capacity {requested}, which the device lacks{remedy}"
    assert share_of(device, ((requested, Fraction(1)),)) == CapacityShare(refusal=refusal)
    found = share_of(device, ((published, Fraction(1)),))
    assert found.amounts == ((published, Fraction(1)),)


# --------------------------------------------------------------------------- taints


@pytest.mark.parametrize(
    ("taint", "tolerations", "free"),
    [
        (Taint("k", "v", "NoSchedule"), (), False),
        (Taint("k", "v", "NoExecute"), (), False),
        (Taint("k", "v", "None"), (), True),
        (Taint("k", "v", "NoSchedule"), (Toleration("q", exists=True), Toleration("k", "v")), True),
        (Taint("k", "v", "NoExecute"), (Toleration("k", "v", effect="NoSchedule"),), False),
    ],
)  # fmt: skip
def test_tainted_device_needs_a_toleration(
    taint: Taint,
    tolerations: tuple[Toleration, ...],
    free: bool,  # noqa: FBT001 a column
) -> None:
    pool_set = pool_set_with(slice_device("a", taints=(taint,)), slice_device("b"))

    assert given(pool_set, claim(exactly("r", 1, tolerations=tolerations))) == [
        ("r", "a" if free else "b")
    ]


@pytest.mark.parametrize(
    "fields", [{"taints": (Taint("k"),)}, {"capacity": (Capacity("m", Fraction(1)),)}]
)
def test_selector_is_evaluated_before_taints_and_capacity(fields: dict[str, object]) -> None:
    pool_set = pool_set_with(
        slice_device("a", **fields),
        slice_device("b", rail=1, capacity=(Capacity("m", Fraction(2)),)),
    )
    fails = exactly("r", 1, 'device.attributes["x.y"].rail == 1', capacity=(("m", Fraction(2)),))

    with pytest.raises(SelectorError, match='the device has no "rail"'):
        given(pool_set, claim(fails))


def test_infeasible_request_is_reported_despite_a_failing_selector() -> None:
    pool_set = pool_set_with(slice_device("a"))
    fails = exactly("s", 1, 'device.attributes["x.y"].rail == 1')

    lines = refused(pool_set, claim(exactly("r", 2), fails))

    assert lines[0].startswith(
        "claim a/c: request r: needs 2 devices, 1 of 1 can be allocated together"
    )
    assert not any("request s" in line for line in lines)
