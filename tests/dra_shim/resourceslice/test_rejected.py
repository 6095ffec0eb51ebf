"""Devices that a server rejects: left out, while the rest is published."""

from dataclasses import replace

import pytest

from dra_shim.pool import DriverResources
from dra_shim.resourceapi import SliceDevice
from dra_shim.resourceslice import DeviceRefused, SlicesPublished, SliceSyncFailed
from dra_shim.resourceslice.schedule import DEBOUNCE_S, MIN_INTERVAL_S
from tests.dra_shim.resourceslice.pools import many
from tests.dra_shim.resourceslice.publisher_bench import (
    FIRST,
    NODE_1,
    is_write,
    plain,
    publishing,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.exchange import Response

pytestmark = pytest.mark.process


def with_bad(resources: DriverResources, *names: str, alias: str = "x" * 65) -> DriverResources:
    """Add devices with an attribute that no server takes."""
    bad = [SliceDevice("dra.net", NODE_1, name, (("dra.net/alias", alias),)) for name in names]
    devices = sorted([*resources.devices, *bad], key=lambda slice_device: slice_device.name)
    return replace(resources, devices=tuple(devices))


def test_refused_devices_are_reported_and_not_retried_unchanged() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            names = many(150)
            first = await bench.publish(with_bad(plain(*names), "a-bad", "z-bad"))
            refused = [notice.device for notice in bench.notices_of(DeviceRefused)]
            await bench.rest_over(4)
            second = await bench.publish(with_bad(plain(*names, "zz"), "a-bad", "z-bad"))

            assert sorted(refused) == ["a-bad", "z-bad"]
            assert (first.devices, second.devices, second.writes) == (150, 151, 1)
            assert len(bench.notices_of(DeviceRefused)) == 2
            assert bench.troubles() == []
            assert server.tokens is None

    finish(scenario())


def test_refused_device_is_retried_after_a_change() -> None:
    async def scenario() -> None:
        async with publishing() as (_, bench):
            await bench.publish(with_bad(plain("a"), "b"))
            await bench.rest_over(2)
            still = await bench.publish(with_bad(plain("a"), "b", alias="y" * 65))
            await bench.rest_over(1)
            response = await bench.publish(with_bad(plain("a"), "b", alias="short"))

            assert (still.devices, response.devices) == (1, 2)
            assert [notice.device for notice in bench.notices_of(DeviceRefused)] == ["b", "b"]

    finish(scenario())


def test_refused_slice_is_retried_rarely() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            refusal = {"code": 422, "message": "no", "details": {"causes": [{"field": "spec"}]}}
            server.fail(Response(422, refusal), is_write, times=2)
            bench.publisher.publish(plain("a"))
            await bench.rest(DEBOUNCE_S)
            await bench.rest(5.0)
            await bench.rest(10.0)
            await bench.until_notice(SlicesPublished)

            assert [pause_s for _, pause_s in bench.troubles()] == [5.0, 10.0]
            assert bench.troubles()[0][0] == f"create ResourceSlice {FIRST}: no"

    finish(scenario())


def test_server_that_refuses_everything_gets_no_more_writes() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            causes = [{"field": "spec.devices[0].name", "message": "no"}]
            refusal = {"code": 422, "message": "no", "details": {"causes": causes}}
            server.fail(Response(422, refusal), is_write, times=40)
            bench.publisher.publish(plain(*many(50)))
            await bench.rest(DEBOUNCE_S)
            failure = await bench.until_notice(SliceSyncFailed)

            assert len(bench.notices_of(DeviceRefused)) == 32
            assert "rejected 32 times in a row" in str(failure.error)
            assert failure.retry_s == 32 * MIN_INTERVAL_S

    finish(scenario())
