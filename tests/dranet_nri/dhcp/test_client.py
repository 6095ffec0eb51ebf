"""The state machine of a DHCP client."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranet_nri.dhcp import (
    Action,
    DhcpClient,
    DhcpMessage,
    DhcpMessageType,
    Granted,
    Lost,
    Send,
    next_exchange,
    release_of,
)
from dranet_nri.model import FOREVER, Lease, Route
from tests.dranet_nri.dhcp.test_message import messages
from tests.fakes.dhcp import SERVER_MAC, decoded, reply_bytes

MAC, XID = "02:00:00:00:00:01", 77
OFFER = DhcpMessage(
    DhcpMessageType.OFFER, XID, MAC, offered="10.77.0.50", server="10.77.0.1", mask=24, lease_s=120
)
ACK = replace(OFFER, kind=DhcpMessageType.ACK)
NAK = DhcpMessage(DhcpMessageType.NAK, XID, MAC, server="10.77.0.1")
LEASE = Lease("10.77.0.50/24", "10.77.0.1", SERVER_MAC, 1000, 120, 60, 105)


def only(actions: tuple[Action, ...]) -> DhcpMessage:
    """Return the only message that is sent."""
    (action,) = actions
    assert isinstance(action, Send)
    return decoded(action.payload)


def receive(client: DhcpClient, message: DhcpMessage, now: float = 1001.0) -> tuple[Action, ...]:
    return client.receive(reply_bytes(message), SERVER_MAC, now)


def requesting() -> DhcpClient:
    """Return a client that has requested what it was offered, at 1001."""
    client = DhcpClient(MAC, XID)
    assert only(client.start(1000.0)).kind is DhcpMessageType.DISCOVER
    request = only(receive(client, OFFER))
    assert (request.kind, request.requested, request.server) == (
        DhcpMessageType.REQUEST,
        "10.77.0.50",
        "10.77.0.1",
    )
    assert request.secs == 1
    return client


def granted(message: DhcpMessage = ACK) -> Granted:
    """Return the lease of a client after this acknowledgement."""
    (action,) = receive(requesting(), message, 1001.5)
    assert isinstance(action, Granted)
    return action


def test_offer_is_requested_and_the_lease_begins_with_the_request() -> None:
    assert granted() == Granted(replace(LEASE, since_s=1001))


def test_lease_times_and_mtu_are_those_of_the_server() -> None:
    given = granted(replace(ACK, renew_s=10, rebind_s=20, mtu=1400))

    assert (given.lease.renew_s, given.lease.rebind_s, given.mtu) == (10, 20, 1400)


@pytest.mark.parametrize(
    ("renew_s", "rebind_s", "times"),
    [
        (0, 105, (60, 105)),
        (110, 100, (60, 105)),
        (60, 121, (60, 105)),
        (None, 40, (40, 40)),
        (20, None, (20, 105)),
        (60, 120, (60, 105)),
        (120, 120, (60, 105)),
    ],
)
def test_invalid_lease_times_become_the_defaults(
    renew_s: int | None, rebind_s: int | None, times: tuple[int, int]
) -> None:
    lease = granted(replace(ACK, renew_s=renew_s, rebind_s=rebind_s)).lease

    assert (lease.renew_s, lease.rebind_s) == times


def test_infinite_lease_is_never_due() -> None:
    lease = granted(replace(ACK, lease_s=FOREVER, renew_s=0)).lease

    assert (lease.renew_at, lease.rebind_at, lease.ends_at) == (inf, inf, inf)
    assert next_exchange(lease, 5000.0) == inf


def test_classless_routes_take_precedence_over_routers() -> None:
    routes = (("10.88.0.0/16", "10.77.0.9"), ("10.89.0.0/16", "0.0.0.0"))
    both = granted(replace(ACK, routes=routes, routers=("10.77.0.254",)))
    routers = granted(replace(ACK, routers=("10.77.0.254", "10.77.0.253")))

    assert both.routes == (
        Route("10.88.0.0/16", gateway="10.77.0.9", protocol=16),
        Route("10.89.0.0/16", scope=253, protocol=16),
    )
    assert routers.routes == (Route("0.0.0.0/0", gateway="10.77.0.254", protocol=16),)


@pytest.mark.parametrize("barred", ["0.0.0.0", "224.0.0.1", "127.0.0.1", "255.255.255.255"])
def test_router_that_is_no_host_is_ignored(barred: str) -> None:
    given = granted(replace(ACK, routers=(barred, "10.77.0.254", "10.77.0.253")))

    assert given.routes == (Route("0.0.0.0/0", gateway="10.77.0.254", protocol=16),)
    assert granted(replace(ACK, routers=(barred,))).routes == ()
    if barred != "0.0.0.0":
        routes = (("10.88.0.0/16", barred),)
        assert granted(replace(ACK, routes=routes, routers=("10.77.0.254",))).routes == ()


def test_destination_is_on_the_link_if_the_client_is_its_router() -> None:
    assert granted(replace(ACK, routers=("10.77.0.50",))).routes == (
        Route("0.0.0.0/0", scope=253, protocol=16),
    )


@pytest.mark.parametrize(
    ("offered", "length"),
    [("10.77.0.50", 8), ("127.0.0.1", None), ("172.16.0.5", 16), ("192.0.2.5", 24)],
)
def test_address_without_a_mask_has_that_of_its_class(offered: str, length: int | None) -> None:
    client = DhcpClient(MAC, XID)
    client.start(1000.0)
    offer = replace(OFFER, offered=offered, mask=None)

    sent = receive(client, offer)

    assert bool(sent) is (length is not None)
    if sent:
        (given,) = receive(client, replace(offer, kind=DhcpMessageType.ACK))
        assert isinstance(given, Granted)
        assert given.lease.address == f"{offered}/{length}"


def test_messages_are_retransmitted_and_discovery_restarts_after_three() -> None:
    client = DhcpClient(MAC, XID)
    client.start(1000.0)
    sent = [at / 2 for at in range(2000, 2050) if client.tick(at / 2)]
    assert sent == [1000.5, 1001.5, 1003.5, 1007.5, 1015.5, 1023.5]

    client = requesting()
    assert client.tick(1001.4) == ()
    assert [only(client.tick(client.due)).kind for _ in range(3)] == [
        DhcpMessageType.REQUEST,
        DhcpMessageType.REQUEST,
        DhcpMessageType.DISCOVER,
    ]


@pytest.mark.parametrize(
    "message",
    [
        replace(OFFER, xid=78),
        replace(OFFER, mac="02:00:00:00:00:02"),
        replace(OFFER, offered="0.0.0.0"),
        replace(OFFER, offered="255.255.255.255"),
        replace(OFFER, offered="224.0.0.1"),
        replace(OFFER, offered="127.0.0.1"),
        replace(OFFER, server=""),
        replace(OFFER, mask=0),
        ACK,
        NAK,
    ],
)
def test_unusable_offer_is_ignored(message: DhcpMessage) -> None:
    client = DhcpClient(MAC, XID)
    client.start(1000.0)

    assert receive(client, message) == ()
    assert client.receive(b"no message", SERVER_MAC, 1000.1) == ()
    assert only(receive(client, OFFER)).kind is DhcpMessageType.REQUEST


@pytest.mark.parametrize(
    "message",
    [
        replace(ACK, offered="10.77.0.51"),
        replace(ACK, server="10.77.0.2"),
        replace(ACK, lease_s=None),
        replace(ACK, lease_s=0),
        replace(NAK, server="10.77.0.2"),
        OFFER,
    ],
)
def test_message_that_does_not_answer_the_request_is_ignored(message: DhcpMessage) -> None:
    client = requesting()

    assert receive(client, message) == ()
    assert isinstance(receive(client, ACK)[0], Granted)
    assert receive(client, ACK) == ()
    assert client.tick(1e9) == ()


def test_discovery_restarts_after_a_nak() -> None:
    client = requesting()

    assert receive(client, NAK) == ()
    assert client.tick(1001.4) == ()
    assert only(client.tick(1001.5)).kind is DhcpMessageType.DISCOVER


# --------------------------------------------------------------------------- extension


def extending(now: float) -> tuple[DhcpClient, Send]:
    """Return a client that extends its lease, and what it sent."""
    client = DhcpClient(MAC, XID, LEASE)
    (sent,) = client.start(now)
    assert isinstance(sent, Send)
    return client, sent


def test_renewal_is_sent_to_the_server_at_t1_and_broadcast_at_t2() -> None:
    (_, renews), (client, rebinds) = extending(1060.0), extending(1105.0)

    assert (renews.source, renews.target, renews.server_mac) == (
        "10.77.0.50",
        "10.77.0.1",
        SERVER_MAC,
    )
    assert (rebinds.target, rebinds.server_mac) == ("255.255.255.255", "")
    assert only((rebinds,)).client == "10.77.0.50"
    assert only((rebinds,)).requested == ""
    other = replace(ACK, server="10.77.0.2")
    assert receive(client, other, 1105.2) == (
        Granted(replace(LEASE, server="10.77.0.2", since_s=1105)),
    )


def test_renewed_lease_without_a_mask_keeps_its_own() -> None:
    (given,) = receive(extending(1060.0)[0], replace(ACK, mask=None), 1060.2)

    assert given == Granted(replace(LEASE, since_s=1060))


def lost(actions: tuple[Action, ...]) -> str:
    (action,) = actions
    assert isinstance(action, Lost)
    return action.why


def test_lease_is_lost_by_expiry_a_nak_or_another_address() -> None:
    ended = DhcpClient(MAC, XID, LEASE)

    assert lost(ended.start(1120.0)) == (
        "the lease of 10.77.0.50/24 ended: no DHCP server extended it"
    )
    assert lost(receive(extending(1060.0)[0], NAK)) == (
        "the DHCP server 10.77.0.1 withdrew 10.77.0.50/24"
    )
    other = replace(NAK, server="10.77.0.2")
    assert receive(extending(1060.0)[0], other) == ()
    assert "10.77.0.2 withdrew" in lost(receive(extending(1105.0)[0], other))
    moved = replace(ACK, offered="10.77.0.51")
    assert lost(receive(extending(1060.0)[0], moved)) == (
        "the DHCP server 10.77.0.1 offers 10.77.0.51/24, not 10.77.0.50/24"
    )


def test_unanswered_renewal_is_repeated_after_half_of_the_remaining_time() -> None:
    long = replace(LEASE, lease_s=8000, renew_s=4000, rebind_s=7000)

    assert next_exchange(long, 1100.0) == 5000.0
    assert next_exchange(long, 5000.0) == 6500.0
    assert next_exchange(long, 7990.0) == 8000.0
    assert next_exchange(long, 8000.0) == 8500.0
    assert next_exchange(long, 9100.0) == 9101.0


def test_released_lease_is_sent_to_its_server() -> None:
    sent = release_of(LEASE, MAC, 5)

    message = decoded(sent.payload)
    assert (message.kind, message.client, message.server) == (
        DhcpMessageType.RELEASE,
        "10.77.0.50",
        "10.77.0.1",
    )
    assert (sent.source, sent.target, sent.server_mac) == ("10.77.0.50", "10.77.0.1", SERVER_MAC)


@given(
    st.none() | st.just(LEASE),
    st.lists(messages | st.sampled_from([OFFER, ACK, NAK]), max_size=8),
    st.lists(st.floats(0, 10), min_size=8, max_size=8),
)
def test_any_answers_give_at_most_one_result(
    lease: Lease | None, answers: list[DhcpMessage], pauses: list[float]
) -> None:
    client, now, results = DhcpClient(MAC, XID, lease), 1060.0, []
    actions = list(client.start(now))
    for message, pause in zip(answers, pauses, strict=False):
        now += pause
        actions += client.tick(now)
        actions += receive(client, replace(message, xid=XID, mac=MAC), now)
    results = [action for action in actions if not isinstance(action, Send)]

    assert len(results) <= 1
    for result in results:
        if isinstance(result, Granted):
            assert result.lease.lease_s > 0
            assert result.lease.lease_s == FOREVER or (
                result.lease.renew_s <= result.lease.rebind_s <= result.lease.lease_s
            )
            assert lease is None or result.lease.address == lease.address
