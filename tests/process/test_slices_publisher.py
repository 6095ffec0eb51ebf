"""The publisher through what a server and time can do to it. Writes are counted."""

from dataclasses import replace

import pytest

from dra_shim.api import SLICE
from dra_shim.claims import Offer
from dra_shim.slices import (
    DeviceRefused,
    Feature,
    FeaturesMissing,
    FieldsDropped,
    Goods,
    Published,
    Trouble,
    goods_of,
)
from dra_shim.slices.layout import slice_name
from dra_shim.slices.pace import GATHER_S, REPAIR_S, REST_S
from dra_shim.slices.publisher import PROBE_S
from tests.fakes.exchange import Asked, Told
from tests.fakes.slice_rules import FEATURES
from tests.process.plugin_bench import finish
from tests.process.publisher_bench import Bench, names_of, publishing
from tests.slices.pools import PF, device, many

NODE = "node-1"
FIRST = slice_name(NODE, 0)
VF = "0000:8a:00.1"


def plain(*names: str, mtu: int = 1500) -> Goods:
    return goods_of(NODE, [device(name, mtu=mtu) for name in names])


def ill(*names: str) -> Goods:
    """Return devices a and b, those named without a carrier."""
    return goods_of(NODE, [device("a"), device("b")], ills=dict.fromkeys(names, "NoCarrier"))


def with_bad(goods: Goods, *names: str, alias: str = "x" * 65) -> Goods:
    """Add devices with an attribute that no server takes."""
    bad = [Offer("dra.net", NODE, name, (("dra.net/alias", alias),)) for name in names]
    offers = sorted([*goods.offers, *bad], key=lambda offer: offer.name)
    return replace(goods, offers=tuple(offers))


def writing(asked: Asked) -> bool:
    return asked.method in {"POST", "PUT", "DELETE"}


# --------------------------------------------------------------------------- when it writes


def test_nothing_is_written_before_something_is_offered() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await server.until(lambda: server.watching == 1)

            assert it.clock.asleep() == []
            assert server.writes == []

    finish(scene())


def test_a_node_without_devices_says_that_its_driver_is_there() -> None:
    async def scene() -> None:
        async with publishing() as (_, it):
            told = await it.publish(Goods())

            (document,) = await it.slices()
            assert (told.devices, told.slices, names_of(document)) == (0, 1, [])

    finish(scene())


def test_the_same_again_is_not_even_looked_at() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))
            await it.until_at_ease()
            count = len(server.asked)

            for _ in range(50):
                it.publisher.offer(plain("a"))
            it.clock.pass_time(3600)
            await it.until_at_ease()

            assert len(server.asked) == count

    finish(scene())


def test_what_comes_at_once_is_written_once() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            for number in range(1, 30):
                it.publisher.offer(plain(*many(number)))
            told = await it.publish(plain(*many(30)))

            assert (told.devices, server.writes) == (30, [f"create resourceslices/{FIRST}"])

    finish(scene())


def test_a_link_that_flaps_costs_one_write_in_5_seconds() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(ill())
            for turn in range(12):
                for flap in range(40):
                    it.publisher.offer(ill("a") if flap % 2 else ill())
                it.publisher.offer(ill("a") if turn % 2 else ill("b"))
                await it.rest(REST_S)
                await it.until_said(Published, turn + 2)

            assert len(server.writes) == 13

    finish(scene())


def test_a_storm_over_many_slices_stays_within_12_writes_a_minute() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            names = many(300)
            await it.publish(plain(*names))
            for turn in range(4):
                it.publisher.offer(plain(*names, mtu=9000 if turn % 2 == 0 else 1500))
                await it.rest(3 * REST_S)
                told = await it.until_said(Published, turn + 2)
                assert told.writes == 3

            assert len(server.writes) == 3 + 12

    finish(scene())


def test_what_changes_while_it_writes_is_written_next() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            await server.until(lambda: any(writing(each) for each in server.asked))
            it.publisher.offer(plain("a", "b"))
            await it.rest(REST_S)
            await it.until_said(Published, 2)

            assert [names_of(each) for each in await it.slices()] == [["a", "b"]]

    finish(scene())


# --------------------------------------------------------------------------- what others do


def test_what_it_wrote_itself_is_not_repaired() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain(*many(300)))
            await it.until_at_ease()
            count = len(server.asked)
            it.clock.pass_time(10 * REPAIR_S)
            await it.until_at_ease()

            assert len(server.asked) == count

    finish(scene())


def test_somebody_elses_change_that_came_right_is_not_repaired() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))
            await it.until_at_ease()
            right = server.objects("resourceslices")[0]["spec"]
            server.alter("resourceslices", FIRST, lambda each: each["spec"].update(devices=[]))
            await it.clock.until_asleep(REPAIR_S)
            server.alter("resourceslices", FIRST, lambda each: each.update(spec=right))
            await it.until_at_ease()

            assert [each.split()[0] for each in server.writes] == ["create", "alter", "alter"]

    finish(scene())


@pytest.mark.parametrize("what", ["labels", "annotations"])
def test_what_others_write_beside_the_spec_is_theirs(what: str) -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))
            await it.until_at_ease()
            server.alter(
                "resourceslices", FIRST, lambda each: each["metadata"].update({what: {"a": "b"}})
            )
            await it.until_at_ease()
            await it.rest_over(1)
            await it.publish(plain("a", "b"))

            (document,) = await it.slices()
            assert document["metadata"][what] == {"a": "b"}

    finish(scene())


def test_a_slice_that_somebody_adds_to_the_pool_is_removed() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))
            await it.until_at_ease()
            spec = {**server.objects("resourceslices")[0]["spec"], "devices": [{"name": "z"}]}
            await it.api.create(SLICE, {"metadata": {"name": "stray"}, "spec": spec})
            await it.rest(REPAIR_S)
            await it.until_said(Published, 2)

            assert [names_of(each) for each in await it.slices()] == [["a"]]

    finish(scene())


def test_a_change_that_the_node_is_another_is_written_with_the_next_news() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))
            await it.until_at_ease()
            server.remove("nodes")
            uid = await it.add_node()
            await it.rest_over(1)
            await it.publish(plain("a", "b"))

            (document,) = await it.slices()
            assert [each["uid"] for each in document["metadata"]["ownerReferences"]] == [uid]

    finish(scene())


# --------------------------------------------------------------------------- refused devices


def test_refused_devices_are_told_and_not_tried_again_as_they_are() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            names = many(150)
            first = await it.publish(with_bad(plain(*names), "a-bad", "z-bad"))
            refused = [each.device for each in it.said(DeviceRefused)]
            await it.rest_over(4)
            second = await it.publish(with_bad(plain(*names, "zz"), "a-bad", "z-bad"))

            assert sorted(refused) == ["a-bad", "z-bad"]
            assert (first.devices, second.devices, second.writes) == (150, 151, 1)
            assert len(it.said(DeviceRefused)) == 2
            assert it.troubles() == []
            assert server.tokens is None

    finish(scene())


def test_a_refused_device_is_tried_again_when_it_changed() -> None:
    async def scene() -> None:
        async with publishing() as (_, it):
            await it.publish(with_bad(plain("a"), "b"))
            await it.rest_over(2)
            still = await it.publish(with_bad(plain("a"), "b", alias="y" * 65))
            await it.rest_over(1)
            told = await it.publish(with_bad(plain("a"), "b", alias="short"))

            assert (still.devices, told.devices) == (1, 2)
            assert [each.device for each in it.said(DeviceRefused)] == ["b", "b"]

    finish(scene())


def test_a_slice_that_is_refused_as_a_whole_is_tried_again_rarely() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            refusal = {"code": 422, "message": "no", "details": {"causes": [{"field": "spec"}]}}
            server.fail(Told(422, refusal), writing, times=2)
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            await it.rest(5.0)
            await it.rest(10.0)
            await it.until_said(Published)

            assert [pause_s for _, pause_s in it.troubles()] == [5.0, 10.0]
            assert it.troubles()[0][0] == f"create ResourceSlice {FIRST}: no"

    finish(scene())


def test_a_server_that_refuses_whatever_it_gets_is_left_alone_in_the_end() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            causes = [{"field": "spec.devices[0].name", "message": "no"}]
            refusal = {"code": 422, "message": "no", "details": {"causes": causes}}
            server.fail(Told(422, refusal), writing, times=40)
            it.publisher.offer(plain(*many(50)))
            await it.rest(GATHER_S)
            trouble = await it.until_said(Trouble)

            assert len(it.said(DeviceRefused)) == 32
            assert "refused 32 times in a row" in str(trouble.error)
            assert trouble.retry_s == 32 * REST_S

    finish(scene())


# --------------------------------------------------------------------------- features


def test_a_server_without_taints_gets_none_and_no_restart_writes() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.features = frozenset(FEATURES) - {"taints"}
            await it.publish(ill("a"))
            await it.rest_over(1)
            again = await it.publish(ill("b"))
            other = Bench(it.api, NODE)
            async with other.running():
                restarted = await other.publish(ill("a"))

            assert (again.writes, restarted.writes) == (0, 0)
            assert it.said(FeaturesMissing) == [FeaturesMissing(frozenset({Feature.TAINTS}))]
            assert "taints" not in str(await it.slices())
            assert len([each for each in server.asked if each.query.get("dryRun")]) == 2

    finish(scene())


def test_a_feature_that_came_is_used_with_the_first_news_after_an_hour() -> None:
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

    finish(scene())


def test_a_server_without_counters_gets_devices_alone() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.features = frozenset(FEATURES) - {"counters"}
            card = [device("pf", PF, "eth0"), device("vf", VF)]
            told = await it.publish(goods_of(NODE, card, physical={VF: PF}))

            assert (told.devices, told.writes) == (2, 1)
            assert "ounters" not in str([each["spec"] for each in await it.slices()])

    finish(scene())


def test_a_server_that_refuses_our_counters_gets_devices_alone() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            field = "spec.devices[0].consumesCounters[0].counterSet"
            refusal = {"code": 422, "message": "no", "details": {"causes": [{"field": field}]}}
            server.fail(Told(422, refusal), lambda each: writing(each) and not each.query)
            card = [device("pf", PF, "eth0"), device("vf", VF)]
            told = await it.publish(goods_of(NODE, card, physical={VF: PF}))

            assert told.devices == 2
            assert it.said(DeviceRefused) == []
            assert it.said(FeaturesMissing) == [FeaturesMissing(frozenset({Feature.COUNTERS}))]
            assert "ounters" not in str([each["spec"] for each in await it.slices()])

    finish(scene())


def test_a_server_that_cannot_share_gets_no_shared_devices() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.features = frozenset(FEATURES) - {"sharing"}
            goods = goods_of(NODE, [device("a"), device("b")], frozenset({"b"}))
            await it.publish(goods)

            assert [names_of(each) for each in await it.slices()] == [["a"]]

    finish(scene())


@pytest.mark.parametrize(
    ("status", "missing"),
    [(403, 0), (422, 1)],
    ids=["a rule against it", "the server refuses a field"],
)
def test_a_probe_that_is_refused_tells_what_it_can(status: int, missing: int) -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            causes = [{"field": "spec.devices[0].taints[0].effect"}]
            refusal = {"code": status, "message": "no", "details": {"causes": causes}}
            server.fail(Told(status, refusal), lambda each: "dryRun" in each.query)
            await it.publish(ill("a"))

            assert len(it.said(FeaturesMissing)) == missing
            assert ("NoCarrier" in str(await it.slices())) == (not missing)

    finish(scene())


def test_plain_devices_need_no_probe() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))

            assert not [each for each in server.asked if each.query.get("dryRun")]

    finish(scene())


def test_fields_that_a_server_drops_all_the_same_are_told_and_left_at_that() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            refusal = Told(403, {"code": 403, "message": "no"})
            server.fail(refusal, lambda each: "dryRun" in each.query)
            server.features = frozenset(FEATURES) - {"taints"}
            await it.publish(ill("a"))
            await it.until_at_ease()
            it.clock.pass_time(10 * REPAIR_S)
            await it.until_at_ease()
            changed = await it.publish(ill("a", "b"))
            await it.until_at_ease()

            dropped = FieldsDropped(FIRST, frozenset({"taints"}))
            assert it.said(FieldsDropped) == [dropped]
            assert server.writes == [f"create resourceslices/{FIRST}"]
            assert changed.writes == 1

    finish(scene())


# --------------------------------------------------------------------------- trouble


def test_a_write_whose_answer_was_lost_is_not_done_twice() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.lose_answer(lambda asked: asked.method == "POST")
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            await it.rest(REST_S)
            told = await it.until_said(Published)

            assert told.writes == 0
            assert server.writes == [f"create resourceslices/{FIRST}"]

    finish(scene())


@pytest.mark.parametrize(
    ("told", "pause_s"),
    [
        (Told(409, {"code": 409, "message": "changed"}), REST_S),
        (Told(503, b""), REST_S),
        (Told(429, b"", {"Retry-After": "17"}), 17.0),
        (None, REST_S),
    ],
    ids=["a conflict", "a server that goes down", "a busy one", "a broken connection"],
)
def test_a_write_that_fails_is_tried_again(told: Told | None, pause_s: float) -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.fail(told, writing)
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            await it.rest(pause_s)
            await it.until_said(Published)

            assert [pause for _, pause in it.troubles()] == [pause_s]
            assert [names_of(each) for each in await it.slices()] == [["a"]]

    finish(scene())


def test_a_read_that_fails_is_tried_again_sooner() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await server.until(lambda: server.watching == 1)
            server.fail(Told(503, b""), times=3)
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            for pause_s in (0.5, 1.0, 2.0):
                await it.rest(pause_s)
            await it.until_said(Published)

    finish(scene())


def test_who_may_not_write_is_told_which_right_is_missing() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.fail(Told(403, {"code": 403, "message": "forbidden"}), writing)
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            await it.rest(REST_S)
            await it.until_said(Published)

            assert it.troubles() == [
                (
                    f"create ResourceSlice {FIRST}: forbidden; "
                    "grant create on resourceslices to the service account",
                    5.0,
                )
            ]

    finish(scene())


def test_a_node_that_is_not_there_yet_is_waited_for() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.remove("nodes")
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            await it.clock.until_asleep(0.5)
            await it.add_node()
            it.clock.pass_time(0.5)
            await it.until_said(Published)

            assert it.troubles() == [('get Node node-1: nodes "node-1" not found', 0.5)]

    finish(scene())


def test_who_may_not_watch_publishes_nevertheless() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            refusal = {"code": 403, "message": "no"}
            server.fail(Told(403, refusal), lambda each: "watch" in each.query, times=99)
            told = await it.publish(plain("a"))

            assert told.writes == 1
            assert "grant watch on resourceslices" in it.troubles()[0][0]

    finish(scene())


def test_a_server_that_was_upgraded_is_spoken_to_in_its_own_version() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.versions = ("v1beta1",)
            await it.publish(plain("a"))
            await it.until_at_ease()
            server.versions = ("v1",)
            await it.rest_over(1)
            it.publisher.offer(plain("a", "b"))
            await it.rest(GATHER_S)
            await it.rest(5.0)
            told = await it.until_said(Published, 2)

            assert told.writes == 1
            assert [names_of(each) for each in server.objects("resourceslices")] == [["a", "b"]]

    finish(scene())


def test_a_slice_that_goes_while_it_is_removed_is_gone() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain(*many(200)))
            await it.rest_over(2)
            missing = {
                "code": 404,
                "reason": "NotFound",
                "message": "gone",
                "details": {"name": "x"},
            }
            server.fail(Told(404, missing), lambda each: each.method == "DELETE")
            told = await it.publish(plain(*many(10)))

            assert told.slices == 1
            assert it.troubles() == []

    finish(scene())
