"""Devices of one pod that want the same route get routes that can stand beside each other."""

import pytest

from dranet_nri.model import Route
from dranet_nri.plan.network import PodNetwork, beside_each_other

V4, V6 = "10.200.0.0/16", "2001:db8:9::/48"


def pod(
    *devices: tuple[Route, ...], now: tuple[tuple[Route, ...], ...] = ()
) -> tuple[tuple[Route, ...], ...]:
    """Return the routes that the devices get."""
    networks = [PodNetwork(f"net{number}", routes=each) for number, each in enumerate(devices)]
    return tuple(network.routes for network in beside_each_other(networks, now))


@pytest.mark.parametrize(
    ("route", "later"),
    [
        pytest.param(Route(V4), Route(V4, metric=1), id="ipv4-without-a-metric"),
        pytest.param(Route(V4, metric=7), Route(V4, metric=8), id="ipv4-with-a-metric"),
        pytest.param(Route(V6), Route(V6, metric=1025), id="ipv6-after-the-kernels-own"),
    ],
)
def test_a_later_device_gets_the_next_metric(route: Route, later: Route) -> None:
    assert pod((route,), (route,)) == ((route,), (later,))


def test_a_metric_that_another_route_has_is_passed_over() -> None:
    first, second, third = pod((Route(V4), Route(V4, metric=1)), (Route(V4),), (Route(V4),))

    assert first == (Route(V4), Route(V4, metric=1))
    assert (second, third) == ((Route(V4, metric=2),), (Route(V4, metric=3),))


def test_other_destinations_and_tables_keep_what_they_have() -> None:
    devices = ((Route(V4),), (Route(V4, table=100),), (Route(V6),), (Route("10.201.0.0/16"),))

    assert pod(*devices) == devices


def test_a_device_keeps_the_metric_that_it_has_while_another_one_has_the_first() -> None:
    now = ((), (Route(V4, metric=1),), (Route(V4), Route(V6, metric=1024)))
    wanted = (Route(V4), Route(V6))

    first, second = pod(wanted, wanted, now=now)

    assert first == (Route(V4, metric=2), Route(V6, metric=1025))
    assert second == (Route(V4, metric=1), Route(V6, metric=1026))


def test_devices_that_are_in_the_pod_keep_their_metrics_in_whatever_order() -> None:
    now = ((Route(V4, metric=1),), (Route(V4),))

    assert pod((Route(V4),), (Route(V4),), (Route(V4),), now=now) == (
        (Route(V4, metric=1),),
        (Route(V4),),
        (Route(V4, metric=2),),
    )


def test_a_device_has_no_two_routes_in_the_slot_that_it_has() -> None:
    twice = (Route(V4, gateway="10.0.0.1"), Route(V4, gateway="10.0.0.2"))

    assert pod(twice, now=(twice[:1],)) == ((twice[0], Route(V4, "10.0.0.2", metric=1)),)
