"""Conflicts between children of one parent: refused before the first child is created."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dranet_nri.attach.checks.conflicts import check_compatible_children
from dranet_nri.errors import OwnedError
from dranet_nri.model import (
    AllocatedDevice,
    AttachedDevice,
    Attachment,
    ChildConfig,
    InterfaceConfig,
    IpvlanConfig,
    IpvlanMode,
    MacvlanConfig,
    NetnsId,
    NetworkConfig,
    Phase,
)
from tests.dranet_nri.attach.execution.node import DATA, STORAGE, VIRTUAL, claim, given

pytestmark = pytest.mark.process


L3 = IpvlanConfig(IpvlanMode.L3)


def allocated(child: ChildConfig, share: str = "", *addresses: str) -> AllocatedDevice:
    ipvlan = child if isinstance(child, IpvlanConfig) else None
    macvlan = child if isinstance(child, MacvlanConfig) else None
    config = NetworkConfig(InterfaceConfig(ipvlan=ipvlan, macvlan=macvlan, addresses=addresses))
    return replace(given(VIRTUAL, config), share_id=share)


def record(device: AllocatedDevice, *, touched: bool = True) -> Attachment:
    """Return the record of another claim, which has a child of the device."""
    attached = AttachedDevice(
        device.request,
        device.device,
        pod_name="net1" if touched else "",
        child="dra.net/x" if touched else "",
        child_config=device.config.interface,
        share_id=device.share_id,
    )
    other = claim(STORAGE, device)
    return Attachment(other.claim, other.pod, "s", NetnsId("/n", 1, 1), Phase.ATTACHED, (attached,))


@pytest.mark.parametrize(
    ("devices", "records", "message"),
    [
        pytest.param(
            [allocated(IpvlanConfig())], [record(allocated(IpvlanConfig()))], "", id="alike"
        ),
        pytest.param(
            [allocated(L3)],
            [record(allocated(IpvlanConfig()))],
            "is shared with pod .*, and its IPVLAN children have mode L2 Bridge; use the same",
            id="another mode",
        ),
        pytest.param(
            [allocated(L3)], [record(allocated(IpvlanConfig()), touched=False)], "", id="gone"
        ),
        pytest.param(
            [allocated(L3, "one"), allocated(MacvlanConfig(), "two")],
            [],
            "is shared with the same pod, and it has a child of type (IPVLAN|MACVLAN); use the",
            id="of one claim",
        ),
        pytest.param(
            [allocated(MacvlanConfig(), "one", "10.9.0.5/24")],
            [record(allocated(MacvlanConfig(), "two", "10.9.0.5/24"))],
            "is shared with pod .*, and it has the address 10.9.0.5/24 too; give each pod its own",
            id="one address",
        ),
        pytest.param(
            [allocated(MacvlanConfig(), "one", "10.9.0.5/32")],
            [record(allocated(MacvlanConfig(), "two", "10.9.0.5/32"))],
            "",
            id="one service address",
        ),
        pytest.param(
            [allocated(MacvlanConfig(), "one", "2001:db8::5/32")],
            [record(allocated(MacvlanConfig(), "two", "2001:db8::5/32"))],
            "it has the address 2001:db8::5/32 too",
            id="one IPv6 address of a wide network",
        ),
        pytest.param(
            [allocated(MacvlanConfig(), "one", "2001:db8::5/128")],
            [record(allocated(MacvlanConfig(), "two", "2001:db8::5/128"))],
            "",
            id="one IPv6 service address",
        ),
        pytest.param([given(VIRTUAL)], [record(allocated(L3))], "", id="no child"),
    ],
)
def test_children_of_different_kinds_on_one_parent_are_refused(
    devices: Sequence[AllocatedDevice], records: Sequence[Attachment], message: str
) -> None:
    claims = (claim(DATA, *devices),)
    if not message:
        check_compatible_children(claims, tuple(records))
        return
    with pytest.raises(OwnedError, match=message):
        check_compatible_children(claims, tuple(records))


def test_earlier_child_of_the_same_claim_is_no_conflict() -> None:
    own = replace(record(allocated(IpvlanConfig())), claim=claim(DATA, allocated(L3)).claim)

    check_compatible_children((claim(DATA, allocated(L3)),), (own,))
