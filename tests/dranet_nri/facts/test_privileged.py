"""Facts that require a privilege: reads without it, and failures that are raised."""

from errno import EINVAL, EPERM

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.facts import privileged
from dranet_nri.linux import bpf
from dranet_nri.linux.netlink.other_netns import UpperLinks
from dranet_nri.state.privileged_facts import PrivilegedFacts

pytestmark = pytest.mark.process


ABOVE = {7: ("macvlan",)}
UNDERLAYS = {8: ("IPsec",)}


@pytest.fixture(autouse=True)
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a link of another namespace run over a link of the host, and IPsec send through one."""
    monkeypatch.setattr(UpperLinks, "kinds", lambda *_: ABOVE)
    monkeypatch.setattr(privileged, "underlays", lambda *_: UNDERLAYS)


def refuse(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Let the kernel refuse to list programs."""

    def names() -> dict[int, tuple[str, ...]]:
        raise KernelError("query the TCX programs", code)

    monkeypatch.setattr(bpf, "tcx_names", names)


def test_eperm_on_programs_leaves_the_other_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, EPERM)

    assert privileged.read_allowed_facts() == PrivilegedFacts({}, ABOVE, UNDERLAYS)


def test_other_error_on_programs_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, EINVAL)

    with pytest.raises(KernelError, match="EINVAL"):
        privileged.read_allowed_facts()


def test_plugin_raises_eperm_on_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, EPERM)

    with pytest.raises(KernelError, match="EPERM"):
        privileged.read_privileged_facts(UpperLinks(None))
