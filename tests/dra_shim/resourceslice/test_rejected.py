"""Devices that a server rejects: left out, while the rest is published."""

from dataclasses import replace

import pytest

from dra_shim.pool import DriverResources
from dra_shim.resourceapi import SliceDevice
from dra_shim.resourceslice import DeviceRefused, SlicesPublished, SliceSyncFailed
from dra_shim.resourceslice.schedule import GATHER_S, REST_S
from tests.dra_shim.resourceslice.pools import many
from tests.dra_shim.resourceslice.publisher_bench import (
    FIRST,
    NODE_1,
    plain,
    publishing,
    writing,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.exchange import Told

pytestmark = pytest.mark.process


def with_bad(resources: DriverResources, *names: str, alias: str = "x" * 65) -> DriverResources:
    """Add devices with an attribute that no server takes."""
    bad = [SliceDevice("dra.net", NODE_1, name, (("dra.net/alias", alias),)) for name in names]
    offers = sorted([*resources.offers, *bad], key=lambda offer: offer.name)
    return replace(resources, offers=tuple(offers))


def test_refused_devices_are_reported_and_not_retried_unchanged() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            names = many(150)
            first = await it.publish(with_bad(plain(*names), "a-bad", "z-bad"))
            refused = [notice.device for notice in it.said(DeviceRefused)]
            await it.rest_over(4)
            second = await it.publish(with_bad(plain(*names, "zz"), "a-bad", "z-bad"))

            assert sorted(refused) == ["a-bad", "z-bad"]
            assert (first.devices, second.devices, second.writes) == (150, 151, 1)
            assert len(it.said(DeviceRefused)) == 2
            assert it.troubles() == []
            assert server.tokens is None

    finish(scene())


def test_refused_device_is_retried_after_a_change() -> None:
    async def scene() -> None:
        async with publishing() as (_, it):
            await it.publish(with_bad(plain("a"), "b"))
            await it.rest_over(2)
            still = await it.publish(with_bad(plain("a"), "b", alias="y" * 65))
            await it.rest_over(1)
            told = await it.publish(with_bad(plain("a"), "b", alias="short"))

            assert (still.devices, told.devices) == (1, 2)
            assert [notice.device for notice in it.said(DeviceRefused)] == ["b", "b"]

    finish(scene())


def test_refused_slice_is_retried_rarely() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            refusal = {"code": 422, "message": "no", "details": {"causes": [{"field": "spec"}]}}
            server.fail(Told(422, refusal), writing, times=2)
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            await it.rest(5.0)
            await it.rest(10.0)
            await it.until_said(SlicesPublished)

            assert [pause_s for _, pause_s in it.troubles()] == [5.0, 10.0]
            assert it.troubles()[0][0] == f"create ResourceSlice {FIRST}: no"

    finish(scene())


def test_server_that_refuses_everything_gets_no_more_writes() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            causes = [{"field": "spec.devices[0].name", "message": "no"}]
            refusal = {"code": 422, "message": "no", "details": {"causes": causes}}
            server.fail(Told(422, refusal), writing, times=40)
            it.publisher.offer(plain(*many(50)))
            await it.rest(GATHER_S)
            trouble = await it.until_said(SliceSyncFailed)

            assert len(it.said(DeviceRefused)) == 32
            assert "refused 32 times in a row" in str(trouble.error)
            assert trouble.retry_s == 32 * REST_S

    finish(scene())
