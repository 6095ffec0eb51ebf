"""Underlays of WireGuard, PPPoE and storage, from messages and files in the form of the kernel."""

import struct
from contextlib import nullcontext
from errno import EBADMSG, ENODEV, ENOENT, EPERM, EPROTONOSUPPORT
from pathlib import Path
from socket import AF_INET, AF_INET6, inet_pton
from typing import cast

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink import underlays as module
from dranet_nri.linux.netlink.codec import attribute
from dranet_nri.linux.netlink.generic import GENERIC, NETLINK_GENERIC
from dranet_nri.linux.netlink.links import DumpedLink
from dranet_nri.linux.netlink.protocols import LoadedProtocols
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.linux.storage import StorageConnection
from dranet_nri.model import Address

INFO = attribute(1, b"wireguard\0")
WIREGUARD = DumpedLink("wg0", 7, 65534, 0, {18: INFO})


@pytest.fixture(autouse=True)
def storage(monkeypatch: pytest.MonkeyPatch) -> list[StorageConnection]:
    """Return the connections to storage; none at first."""
    found = list[StorageConnection]()
    monkeypatch.setattr(module, "storage_connections", lambda: found)
    return found


def sockaddr(address: str, link: int = 0) -> bytes:
    """Return a socket address of port 51820."""
    if ":" in address:
        return struct.pack("=HHI16sI", AF_INET6, 27850, 0, inet_pton(AF_INET6, address), link)
    return struct.pack("=HH4s8x", AF_INET, 27850, inet_pton(AF_INET, address))


def device(*endpoints: bytes | None, mark: int | None = None) -> bytes:
    """Return a message about a link, with its peers; None for one without an endpoint."""
    peers = (attribute(0, b"" if one is None else attribute(4, one)) for one in endpoints)
    marked = b"" if mark is None else attribute(7, struct.pack("=I", mark))
    return GENERIC.pack(0, 1, 0) + attribute(3, bytes(32)) + marked + attribute(8, b"".join(peers))


class Kernel:
    """A kernel with WireGuard.

    Attributes:
        answers: the messages about the link.
        code: the errno of the request for them, 0 for none.
        source: the source of the looked-up routes.
        lookups: remote addresses and marks of the looked-up routes.
    """

    def __init__(self, *answers: bytes, code: int = 0, source: bytes = b"") -> None:
        """Take the answers."""
        self.answers, self.code, self.source = list(answers), code, source
        self.lookups: list[tuple[bytes, int]] = []

    def open_socket(self, protocol: int) -> "Kernel":
        """Open a socket of a protocol."""
        assert protocol == NETLINK_GENERIC
        return self

    def dump(self, what: str, kind: int, body: bytes) -> list[bytes]:
        """Answer the request for the peers."""
        if self.code:
            raise KernelError(what, self.code)
        assert (kind, body) == (33, GENERIC.pack(0, 1, 0) + attribute(1, struct.pack("=I", 7)))
        return self.answers

    def link_to(self, _: object, remote: bytes, source: bytes, mark: int) -> int:
        """Look up a route."""
        assert source == self.source
        self.lookups.append((remote, mark))
        return 5

    def close(self) -> None:
        """Close the socket."""


def underlays(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, *links: DumpedLink
) -> dict[int, tuple[str, ...]]:
    """Return the underlays that this kernel reports."""
    monkeypatch.setattr(module, "open_socket", kernel.open_socket)
    monkeypatch.setattr(module, "NetlinkSocket", lambda kernel: kernel)
    monkeypatch.setattr(module, "family_id", lambda *_: 33)
    monkeypatch.setattr(module, "link_to", kernel.link_to)
    return dict(module.underlays(cast("RtnetlinkSocket", None), links, None))


def test_links_towards_endpoints_are_underlays(monkeypatch: pytest.MonkeyPatch) -> None:
    first = device(sockaddr("192.0.2.9"), None, mark=0xCA6C)
    second = device(sockaddr("2001:db8::9"), sockaddr("192.0.2.9"))
    kernel = Kernel(first, second)

    assert underlays(kernel, monkeypatch, WIREGUARD) == {5: ("WireGuard",)}
    assert sorted(kernel.lookups) == [
        (inet_pton(AF_INET6, "2001:db8::9"), 0xCA6C),
        (inet_pton(AF_INET, "192.0.2.9"), 0xCA6C),
    ]


def test_link_of_a_link_local_endpoint_is_the_underlay(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(device(sockaddr("fe80::9", 4)))

    assert underlays(kernel, monkeypatch, WIREGUARD) == {4: ("WireGuard",)}
    assert kernel.lookups == []


@pytest.mark.parametrize("code", [EPERM, ENODEV, ENOENT])
def test_what_is_absent_has_no_underlay(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    assert underlays(Kernel(code=code), monkeypatch, WIREGUARD) == {}


def test_wireguard_is_asked_only_if_there_is_such_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    unreadable = DumpedLink("bad0", 8, 1, 0, {5: b"\1"})

    assert underlays(Kernel(code=EBADMSG), monkeypatch, unreadable) == {}


def test_link_of_a_pppoe_session_is_an_underlay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sessions = tmp_path / "pppoe"
    monkeypatch.setattr(module, "PPPOE", sessions)
    links = [DumpedLink(name, index, 1, 0, {}) for index, name in enumerate(("eth0", "eth1"), 3)]
    ppp = DumpedLink("ppp0", 9, 512, 0, {18: attribute(1, b"ppp\0")})
    assert underlays(Kernel(), monkeypatch, *links, ppp) == {}

    sessions.write_text(
        "Id       Address              Device\n00000F2A 02:00:00:00:00:01     eth1\n"
    )

    assert underlays(Kernel(), monkeypatch, *links, ppp) == {4: ("PPPoE",)}
    assert underlays(Kernel(), monkeypatch, *links) == {}


@pytest.mark.parametrize(
    ("source", "link", "expected"),
    [
        pytest.param("", "", {5: ("iSCSI",)}, id="by its route"),
        pytest.param("", "eth1", {4: ("iSCSI",)}, id="bound to a link"),
        pytest.param("10.5.0.7", "", {3: ("iSCSI",), 5: ("iSCSI",)}, id="with its source"),
    ],
)
def test_links_towards_storage_are_underlays(
    monkeypatch: pytest.MonkeyPatch,
    storage: list[StorageConnection],
    source: str,
    link: str,
    expected: dict[int, tuple[str, ...]],
) -> None:
    packed = inet_pton(AF_INET, source) if source else b""
    storage.append(StorageConnection("iSCSI", inet_pton(AF_INET, "10.9.0.9"), packed, link))
    monkeypatch.setattr(module, "addresses", lambda _: {3: (Address("10.5.0.7/24"),)})
    links = [DumpedLink(name, index, 1, 0, {}) for index, name in enumerate(("eth0", "eth1"), 3)]
    kernel = Kernel(source=packed)

    assert underlays(kernel, monkeypatch, *links) == expected


def test_link_local_storage_of_an_unknown_link_has_no_underlay(
    monkeypatch: pytest.MonkeyPatch, storage: list[StorageConnection]
) -> None:
    storage.append(StorageConnection("NFS", inet_pton(AF_INET6, "fe80::9")))

    assert underlays(Kernel(), monkeypatch) == {}


class Loaded(LoadedProtocols):
    """A kernel with these protocols."""

    def __init__(self, *protocols: int) -> None:
        """Open no list."""
        self._protocols = protocols

    def has(self, protocol: int) -> bool:
        """Whether it is one of them."""
        return protocol in self._protocols


def test_module_of_ipsec_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "open_socket", lambda _: pytest.fail("loads the module"))

    assert module.open_ipsec(Loaded(0, NETLINK_GENERIC)) is None


@pytest.mark.parametrize("code", [EPROTONOSUPPORT, EBADMSG])
def test_kernel_without_ipsec_has_no_socket_for_it(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(protocol: int) -> None:
        assert protocol == module.NETLINK_XFRM
        raise KernelError("open netlink socket", code)

    monkeypatch.setattr(module, "open_socket", refuse)

    with pytest.raises(KernelError) if code == EBADMSG else nullcontext():
        assert module.open_ipsec(Loaded(module.NETLINK_XFRM)) is None


@pytest.mark.parametrize("endpoint", [sockaddr("192.0.2.9")[:7], sockaddr("fe80::9")[:27], b"\2"])
def test_truncated_endpoint_is_a_kernel_error(
    monkeypatch: pytest.MonkeyPatch, endpoint: bytes
) -> None:
    with pytest.raises(KernelError, match="EBADMSG"):
        underlays(Kernel(device(endpoint)), monkeypatch, WIREGUARD)


@pytest.mark.parametrize("body", [bytes(167), b""])
def test_truncated_policy_is_a_kernel_error(body: bytes) -> None:
    with pytest.raises(KernelError, match="EBADMSG"):
        list(module._templates(body))
