"""Host facts at attach that virtual links lack: switch ports, pinned links, parents."""

from types import SimpleNamespace
from typing import Any

import pytest

from dranet_nri.inventory import NetDevice
from dranet_nri.kernel import host
from dranet_nri.linux.netlink.links import IFLA_NETNS_IMMUTABLE, IFLA_PHYS_PORT_NAME, DumpedLink
from dranet_nri.model import Link

pytestmark = pytest.mark.process


PARENT = "0000:8a:00.1"


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host have no addresses, routes, rules, links above, nor underlays."""
    for name in ("addresses", "run_inside"):
        monkeypatch.setattr(host, name, lambda *_: {})
    monkeypatch.setattr(host, "policy_routes", lambda *_: ())
    monkeypatch.setattr(host, "sysfs_parents", lambda *_: {"eth1": ("pci", PARENT)})


def device(attrs: dict[int, bytes]) -> NetDevice:
    """Return the facts of a host whose only link has these attributes."""
    space: Any = SimpleNamespace(
        links=lambda: [DumpedLink("eth1", 3, 1, 0, attrs)],
        ipsec=lambda: None,
        upper_kinds=dict,
        main_routes=lambda: ((), (), ()),
        rule_messages=list,
        netlink=None,
        fd=-1,
    )
    (found,) = host.host_facts(space, "/sys").netdevs
    return found


def test_port_name_of_a_switch_port_is_read() -> None:
    assert device({IFLA_PHYS_PORT_NAME: b"pf0vf3\0"}).port_name == "pf0vf3"


@pytest.mark.parametrize(("value", "pinned"), [(b"\1", True), (b"\0", False)])
def test_link_with_an_immutable_namespace_is_pinned(value: bytes, *, pinned: bool) -> None:
    assert device({IFLA_NETNS_IMMUTABLE: value}).pinned is pinned


def test_parent_is_read_from_sysfs_if_the_kernel_does_not_report_it() -> None:
    link: Link = device({}).link

    assert (link.bus, link.parent) == ("pci", PARENT)
