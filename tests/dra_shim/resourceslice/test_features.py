"""Fields that a server does not support: removed after the probe, or after a failed write."""

import pytest

from dra_shim.pool import DriverResources, Feature, driver_resources
from dra_shim.resourceslice import DeviceRefused, FeaturesMissing, FieldsDropped, SlicesPublished
from dra_shim.resourceslice.controller import PROBE_S
from dra_shim.resourceslice.schedule import REPAIR_S
from tests.dra_shim.resourceslice.pools import PF, device, many
from tests.dra_shim.resourceslice.publisher_bench import (
    FIRST,
    NODE_1,
    Bench,
    is_write,
    names_of,
    plain,
    publishing,
    unhealthy_devices,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.exchange import NoResponse, Request, Response, WatchStream
from tests.fakes.slice_rules import FEATURES

pytestmark = pytest.mark.process


VF = "0000:8a:00.1"


def test_server_without_taints_gets_none_and_restart_causes_no_write() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            server.features = frozenset(FEATURES) - {"taints"}
            await bench.publish(unhealthy_devices("a"))
            await bench.rest_over(1)
            again = await bench.publish(unhealthy_devices("b"))
            other = Bench(bench.api, NODE_1)
            async with other.running():
                restarted = await other.publish(unhealthy_devices("a"))

            assert (again.writes, restarted.writes) == (0, 0)
            assert bench.notices_of(FeaturesMissing) == [
                FeaturesMissing(frozenset({Feature.TAINTS}))
            ]
            assert "taints" not in str(await bench.slices())
            assert len([request for request in server.requests if request.query.get("dryRun")]) == 2

    finish(scenario())


def test_new_feature_is_used_with_the_first_change_after_an_hour() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            server.features = frozenset(FEATURES) - {"taints"}
            await bench.publish(unhealthy_devices("a"))
            server.features = frozenset(FEATURES)
            await bench.until_in_sync()
            bench.clock.pass_time(PROBE_S - 1)
            early = await bench.publish(unhealthy_devices("b"))
            bench.clock.pass_time(1)
            response = await bench.publish(unhealthy_devices("a"))

            assert (early.writes, response.writes) == (0, 1)
            assert "NoCarrier" in str(await bench.slices())
            missing = [notice.features for notice in bench.notices_of(FeaturesMissing)]
            assert missing == [{Feature.TAINTS}, frozenset()]

    finish(scenario())


def test_unneeded_feature_is_not_reported() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            server.features = frozenset(FEATURES) - {"taints"}
            await bench.publish(unhealthy_devices("a"))
            await bench.until_in_sync()
            bench.clock.pass_time(60.0)
            await bench.publish(plain("a"))
            await bench.until_in_sync()
            bench.clock.pass_time(60.0)
            await bench.publish(unhealthy_devices("a"))

            assert bench.notices_of(FeaturesMissing) == [
                FeaturesMissing(frozenset({Feature.TAINTS}))
            ]

    finish(scenario())


def test_server_with_all_features_is_probed_once() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(unhealthy_devices("a"))
            await bench.until_in_sync()
            bench.clock.pass_time(PROBE_S)
            await bench.publish(unhealthy_devices("b"))

            assert len([request for request in server.requests if request.query.get("dryRun")]) == 1

    finish(scenario())


def test_server_without_counters_gets_only_devices() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            server.features = frozenset(FEATURES) - {"counters"}
            card = [device("pf", PF, "eth0"), device("vf", VF)]
            response = await bench.publish(driver_resources(NODE_1, card, physical={VF: PF}))

            assert (response.devices, response.writes) == (2, 1)
            assert "ounters" not in str(
                [resource_slice["spec"] for resource_slice in await bench.slices()]
            )

    finish(scenario())


def test_server_that_refuses_counters_gets_only_devices() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            field = "spec.devices[0].consumesCounters[0].counterSet"
            refusal = {"code": 422, "message": "no", "details": {"causes": [{"field": field}]}}
            server.fail(Response(422, refusal), lambda entry: is_write(entry) and not entry.query)
            card = [device("pf", PF, "eth0"), device("vf", VF)]
            response = await bench.publish(driver_resources(NODE_1, card, physical={VF: PF}))

            assert response.devices == 2
            assert bench.notices_of(DeviceRefused) == []
            assert bench.notices_of(FeaturesMissing) == [
                FeaturesMissing(frozenset({Feature.COUNTERS}))
            ]
            assert "ounters" not in str(
                [resource_slice["spec"] for resource_slice in await bench.slices()]
            )

    finish(scenario())


def test_server_without_sharing_gets_no_shared_devices() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            server.features = frozenset(FEATURES) - {"sharing"}
            resources = driver_resources(NODE_1, [device("a"), device("b")], frozenset({"b"}))
            await bench.publish(resources)

            assert [names_of(resource_slice) for resource_slice in await bench.slices()] == [["a"]]

    finish(scenario())


@pytest.mark.parametrize(
    ("status", "missing"),
    [(403, 0), (422, 1)],
    ids=["a rule against it", "the server refuses a field"],
)
def test_refused_probe_gives_partial_results(status: int, missing: int) -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            causes = [{"field": "spec.devices[0].taints[0].effect"}]
            refusal = {"code": status, "message": "no", "details": {"causes": causes}}
            server.fail(Response(status, refusal), lambda entry: "dryRun" in entry.query)
            await bench.publish(unhealthy_devices("a"))

            assert len(bench.notices_of(FeaturesMissing)) == missing
            assert ("NoCarrier" in str(await bench.slices())) == (not missing)

    finish(scenario())


def test_plain_devices_need_no_probe() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(plain("a"))

            assert not [request for request in server.requests if request.query.get("dryRun")]

    finish(scenario())


def test_refused_slice_is_retried_after_a_gate_change() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            server.features = frozenset(FEATURES) - {"taints"}
            causes = [{"field": "spec.devices[0].name", "message": "not with these gates"}]
            refusal = {"code": 422, "message": "no", "details": {"causes": causes}}
            server.fail(Response(422, refusal), lambda entry: is_write(entry) and not entry.query)
            first = await bench.publish(unhealthy_devices("b"))
            await bench.until_in_sync()
            bench.clock.pass_time(PROBE_S)
            same = await bench.publish(unhealthy_devices("a", "b"))
            server.features = frozenset(FEATURES)
            await bench.until_in_sync()
            bench.clock.pass_time(PROBE_S)
            other = await bench.publish(unhealthy_devices("b"))

            assert (first.devices, same.devices, other.devices) == (1, 1, 2)
            assert [notice.device for notice in bench.notices_of(DeviceRefused)] == ["a"]

    finish(scenario())


# --------------------------------------------------------------------------- writes tell more


class Mixed(FakeApiServer):
    """Two servers behind one address: who has no gate answers the writes, the other the probes."""

    def answer(self, request: Request) -> Response | WatchStream | NoResponse | None:
        probe = "dryRun" in request.query
        self.features = frozenset(FEATURES) - (set() if probe else {"taints", "sharing"})
        return super().answer(request)


class Meddling(FakeApiServer):
    """A server with a webhook that takes the attributes off each device."""

    def answer(self, request: Request) -> Response | WatchStream | NoResponse | None:
        for entry in request.body.get("spec", {}).get("devices", ()):
            entry.pop("attributes", None)
        return super().answer(request)


@pytest.mark.parametrize("wipe", [True, False], ids=["a kubelet starts", "a device changes"])
def test_shared_nic_is_withdrawn_when_the_gate_is_off(wipe: bool) -> None:  # noqa: FBT001
    def resources(mtu: int) -> DriverResources:
        return driver_resources(NODE_1, [device("a"), device("ib", mtu=mtu)], frozenset({"ib"}))

    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(resources(1500))
            await bench.rest_over(1)
            server.features = frozenset(FEATURES) - {"sharing"}
            if wipe:
                await bench.wiped(server)
            else:
                await bench.publish(resources(9000))

            assert [names_of(resource_slice) for resource_slice in await bench.slices()] == [["a"]]
            assert bench.notices_of(FeaturesMissing) == [
                FeaturesMissing(frozenset({Feature.SHARING}))
            ]
            assert bench.notices_of(FieldsDropped) == []
            assert bench.notices_of(SlicesPublished)[-1].devices == 1

    finish(scenario())


def test_disabled_gate_is_probed_again_after_an_hour() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(unhealthy_devices("a"))
            await bench.rest_over(1)
            server.features = frozenset(FEATURES) - {"taints"}
            await bench.wiped(server)
            server.features = frozenset(FEATURES)
            await bench.until_in_sync()
            bench.clock.pass_time(PROBE_S - 1)
            early = await bench.publish(unhealthy_devices("b"))
            bench.clock.pass_time(1)
            await bench.publish(unhealthy_devices("a"))

            assert early.writes == 0
            assert "NoCarrier" in str(await bench.slices())

    finish(scenario())


def test_enabled_gate_is_found_without_changes() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            server.features = frozenset(FEATURES) - {"sharing"}
            await bench.publish(
                driver_resources(NODE_1, [device("a"), device("b")], frozenset({"b"}))
            )
            await bench.rest_over(1)
            count = len(server.requests)
            server.features = frozenset(FEATURES)
            bench.clock.pass_time(2 * PROBE_S - 2 * REPAIR_S)
            await bench.until_in_sync()
            assert len(server.requests) == count
            bench.clock.pass_time(2 * REPAIR_S)
            response = await bench.until_notice(SlicesPublished, 2)
            await bench.until_in_sync()
            bench.clock.pass_time(10 * PROBE_S)
            await bench.until_in_sync()

            assert (response.devices, response.writes) == (2, 1)
            assert len(server.requests) == count + 4, "the node, a probe, the slices, a write"

    finish(scenario())


def test_servers_with_different_gates_get_one_write_an_hour() -> None:
    async def scenario() -> None:
        async with publishing(server=Mixed()) as (server, bench):
            first = await bench.publish(unhealthy_devices("a"))
            before = len(server.writes)
            for minute in range(1, 120):
                await bench.until_in_sync()
                bench.clock.pass_time(60.0)
                await bench.publish(unhealthy_devices("b" if minute % 2 else "a"))

            assert first.writes == 1
            assert len(server.requests) > 240
            assert server.writes[before:] == []
            assert len([request for request in server.requests if is_write(request)]) == 4, (
                "two are probes"
            )

    finish(scenario())


def test_fields_dropped_for_other_reasons_are_reported_once() -> None:
    async def scenario() -> None:
        async with publishing(server=Meddling()) as (server, bench):
            await bench.publish(plain("a"))
            await bench.until_in_sync()
            bench.clock.pass_time(10 * REPAIR_S)
            await bench.until_in_sync()
            changed = await bench.publish(plain("a", "b"))
            await bench.until_in_sync()

            dropped = FieldsDropped(FIRST, frozenset({"attributes"}))
            assert bench.notices_of(FieldsDropped) == [dropped]
            assert [write.split()[0] for write in server.writes] == ["create", "update"]
            assert changed.writes == 1

    finish(scenario())


def test_slice_with_dropped_fields_is_not_rewritten() -> None:
    async def scenario() -> None:
        async with publishing(server=Meddling()) as (_, bench):
            names = many(200)
            first = await bench.publish(plain(*names, "y"))
            await bench.rest_over(2)
            second = await bench.publish(plain(*names, "z"))

            assert (first.writes, second.writes) == (2, 1)

    finish(scenario())
