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
    ill,
    names_of,
    plain,
    publishing,
    writing,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.exchange import Asked, Silence, Told, Watching
from tests.fakes.slice_rules import FEATURES

pytestmark = pytest.mark.process


VF = "0000:8a:00.1"


def test_server_without_taints_gets_none_and_restart_causes_no_write() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.features = frozenset(FEATURES) - {"taints"}
            await it.publish(ill("a"))
            await it.rest_over(1)
            again = await it.publish(ill("b"))
            other = Bench(it.api, NODE_1)
            async with other.running():
                restarted = await other.publish(ill("a"))

            assert (again.writes, restarted.writes) == (0, 0)
            assert it.said(FeaturesMissing) == [FeaturesMissing(frozenset({Feature.TAINTS}))]
            assert "taints" not in str(await it.slices())
            assert len([request for request in server.asked if request.query.get("dryRun")]) == 2

    finish(scene())


def test_new_feature_is_used_with_the_first_change_after_an_hour() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.features = frozenset(FEATURES) - {"taints"}
            await it.publish(ill("a"))
            server.features = frozenset(FEATURES)
            await it.until_at_ease()
            it.clock.pass_time(PROBE_S - 1)
            early = await it.publish(ill("b"))
            it.clock.pass_time(1)
            told = await it.publish(ill("a"))

            assert (early.writes, told.writes) == (0, 1)
            assert "NoCarrier" in str(await it.slices())
            missing = [notice.features for notice in it.said(FeaturesMissing)]
            assert missing == [{Feature.TAINTS}, frozenset()]

    finish(scene())


def test_unneeded_feature_is_not_reported() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.features = frozenset(FEATURES) - {"taints"}
            await it.publish(ill("a"))
            await it.until_at_ease()
            it.clock.pass_time(60.0)
            await it.publish(plain("a"))
            await it.until_at_ease()
            it.clock.pass_time(60.0)
            await it.publish(ill("a"))

            assert it.said(FeaturesMissing) == [FeaturesMissing(frozenset({Feature.TAINTS}))]

    finish(scene())


def test_server_with_all_features_is_probed_once() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(ill("a"))
            await it.until_at_ease()
            it.clock.pass_time(PROBE_S)
            await it.publish(ill("b"))

            assert len([request for request in server.asked if request.query.get("dryRun")]) == 1

    finish(scene())


def test_server_without_counters_gets_only_devices() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.features = frozenset(FEATURES) - {"counters"}
            card = [device("pf", PF, "eth0"), device("vf", VF)]
            told = await it.publish(driver_resources(NODE_1, card, physical={VF: PF}))

            assert (told.devices, told.writes) == (2, 1)
            assert "ounters" not in str(
                [resource_slice["spec"] for resource_slice in await it.slices()]
            )

    finish(scene())


def test_server_that_refuses_counters_gets_only_devices() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            field = "spec.devices[0].consumesCounters[0].counterSet"
            refusal = {"code": 422, "message": "no", "details": {"causes": [{"field": field}]}}
            server.fail(Told(422, refusal), lambda entry: writing(entry) and not entry.query)
            card = [device("pf", PF, "eth0"), device("vf", VF)]
            told = await it.publish(driver_resources(NODE_1, card, physical={VF: PF}))

            assert told.devices == 2
            assert it.said(DeviceRefused) == []
            assert it.said(FeaturesMissing) == [FeaturesMissing(frozenset({Feature.COUNTERS}))]
            assert "ounters" not in str(
                [resource_slice["spec"] for resource_slice in await it.slices()]
            )

    finish(scene())


def test_server_without_sharing_gets_no_shared_devices() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.features = frozenset(FEATURES) - {"sharing"}
            resources = driver_resources(NODE_1, [device("a"), device("b")], frozenset({"b"}))
            await it.publish(resources)

            assert [names_of(resource_slice) for resource_slice in await it.slices()] == [["a"]]

    finish(scene())


@pytest.mark.parametrize(
    ("status", "missing"),
    [(403, 0), (422, 1)],
    ids=["a rule against it", "the server refuses a field"],
)
def test_refused_probe_gives_partial_results(status: int, missing: int) -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            causes = [{"field": "spec.devices[0].taints[0].effect"}]
            refusal = {"code": status, "message": "no", "details": {"causes": causes}}
            server.fail(Told(status, refusal), lambda entry: "dryRun" in entry.query)
            await it.publish(ill("a"))

            assert len(it.said(FeaturesMissing)) == missing
            assert ("NoCarrier" in str(await it.slices())) == (not missing)

    finish(scene())


def test_plain_devices_need_no_probe() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))

            assert not [request for request in server.asked if request.query.get("dryRun")]

    finish(scene())


def test_refused_slice_is_retried_after_a_gate_change() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.features = frozenset(FEATURES) - {"taints"}
            causes = [{"field": "spec.devices[0].name", "message": "not with these gates"}]
            refusal = {"code": 422, "message": "no", "details": {"causes": causes}}
            server.fail(Told(422, refusal), lambda entry: writing(entry) and not entry.query)
            first = await it.publish(ill("b"))
            await it.until_at_ease()
            it.clock.pass_time(PROBE_S)
            same = await it.publish(ill("a", "b"))
            server.features = frozenset(FEATURES)
            await it.until_at_ease()
            it.clock.pass_time(PROBE_S)
            other = await it.publish(ill("b"))

            assert (first.devices, same.devices, other.devices) == (1, 1, 2)
            assert [notice.device for notice in it.said(DeviceRefused)] == ["a"]

    finish(scene())


# --------------------------------------------------------------------------- writes tell more


class Mixed(FakeApiServer):
    """Two servers behind one address: who has no gate answers the writes, the other the probes."""

    def answer(self, asked: Asked) -> Told | Watching | Silence | None:
        probe = "dryRun" in asked.query
        self.features = frozenset(FEATURES) - (set() if probe else {"taints", "sharing"})
        return super().answer(asked)


class Meddling(FakeApiServer):
    """A server with a webhook that takes the attributes off each device."""

    def answer(self, asked: Asked) -> Told | Watching | Silence | None:
        for entry in asked.body.get("spec", {}).get("devices", ()):
            entry.pop("attributes", None)
        return super().answer(asked)


@pytest.mark.parametrize("wipe", [True, False], ids=["a kubelet starts", "a device changes"])
def test_shared_nic_is_withdrawn_when_the_gate_is_off(wipe: bool) -> None:  # noqa: FBT001
    def resources(mtu: int) -> DriverResources:
        return driver_resources(NODE_1, [device("a"), device("ib", mtu=mtu)], frozenset({"ib"}))

    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(resources(1500))
            await it.rest_over(1)
            server.features = frozenset(FEATURES) - {"sharing"}
            if wipe:
                await it.wiped(server)
            else:
                await it.publish(resources(9000))

            assert [names_of(resource_slice) for resource_slice in await it.slices()] == [["a"]]
            assert it.said(FeaturesMissing) == [FeaturesMissing(frozenset({Feature.SHARING}))]
            assert it.said(FieldsDropped) == []
            assert it.said(SlicesPublished)[-1].devices == 1

    finish(scene())


def test_disabled_gate_is_probed_again_after_an_hour() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(ill("a"))
            await it.rest_over(1)
            server.features = frozenset(FEATURES) - {"taints"}
            await it.wiped(server)
            server.features = frozenset(FEATURES)
            await it.until_at_ease()
            it.clock.pass_time(PROBE_S - 1)
            early = await it.publish(ill("b"))
            it.clock.pass_time(1)
            await it.publish(ill("a"))

            assert early.writes == 0
            assert "NoCarrier" in str(await it.slices())

    finish(scene())


def test_enabled_gate_is_found_without_changes() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.features = frozenset(FEATURES) - {"sharing"}
            await it.publish(driver_resources(NODE_1, [device("a"), device("b")], frozenset({"b"})))
            await it.rest_over(1)
            asked = len(server.asked)
            server.features = frozenset(FEATURES)
            it.clock.pass_time(2 * PROBE_S - 2 * REPAIR_S)
            await it.until_at_ease()
            assert len(server.asked) == asked
            it.clock.pass_time(2 * REPAIR_S)
            told = await it.until_said(SlicesPublished, 2)
            await it.until_at_ease()
            it.clock.pass_time(10 * PROBE_S)
            await it.until_at_ease()

            assert (told.devices, told.writes) == (2, 1)
            assert len(server.asked) == asked + 4, "the node, a probe, the slices, a write"

    finish(scene())


def test_servers_with_different_gates_get_one_write_an_hour() -> None:
    async def scene() -> None:
        async with publishing(server=Mixed()) as (server, it):
            first = await it.publish(ill("a"))
            before = len(server.writes)
            for minute in range(1, 120):
                await it.until_at_ease()
                it.clock.pass_time(60.0)
                await it.publish(ill("b" if minute % 2 else "a"))

            assert first.writes == 1
            assert len(server.asked) > 240
            assert server.writes[before:] == []
            assert len([request for request in server.asked if writing(request)]) == 4, (
                "two are probes"
            )

    finish(scene())


def test_fields_dropped_for_other_reasons_are_reported_once() -> None:
    async def scene() -> None:
        async with publishing(server=Meddling()) as (server, it):
            await it.publish(plain("a"))
            await it.until_at_ease()
            it.clock.pass_time(10 * REPAIR_S)
            await it.until_at_ease()
            changed = await it.publish(plain("a", "b"))
            await it.until_at_ease()

            dropped = FieldsDropped(FIRST, frozenset({"attributes"}))
            assert it.said(FieldsDropped) == [dropped]
            assert [write.split()[0] for write in server.writes] == ["create", "update"]
            assert changed.writes == 1

    finish(scene())


def test_slice_with_dropped_fields_is_not_rewritten() -> None:
    async def scene() -> None:
        async with publishing(server=Meddling()) as (_, it):
            names = many(200)
            first = await it.publish(plain(*names, "y"))
            await it.rest_over(2)
            second = await it.publish(plain(*names, "z"))

            assert (first.writes, second.writes) == (2, 1)

    finish(scene())
