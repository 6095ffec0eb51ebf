"""Children that the kernel does not have beside each other are refused before one is made."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dranet_nri.attach.checks.conflicts import refuse_unlike_children
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


def asked(child: ChildConfig, share: str = "") -> AllocatedDevice:
    ipvlan = child if isinstance(child, IpvlanConfig) else None
    macvlan = child if isinstance(child, MacvlanConfig) else None
    config = NetworkConfig(InterfaceConfig(ipvlan=ipvlan, macvlan=macvlan))
    return replace(given(VIRTUAL, config), share_id=share)


def record(device: AllocatedDevice, *, touched: bool = True) -> Attachment:
    """Return the record of another claim, which has a child of the device."""
    attached = AttachedDevice(
        device.request,
        device.device,
        pod_name="net1" if touched else "",
        child="dra.net/x" if touched else "",
        made_by=device.config.interface,
        share_id=device.share_id,
    )
    other = claim(STORAGE, device)
    return Attachment(other.claim, other.pod, "s", NetnsId("/n", 1, 1), Phase.ATTACHED, (attached,))


@pytest.mark.parametrize(
    ("devices", "records", "words"),
    [
        pytest.param([asked(IpvlanConfig())], [record(asked(IpvlanConfig()))], "", id="alike"),
        pytest.param(
            [asked(L3)],
            [record(asked(IpvlanConfig()))],
            "is shared with pod .*, and its IPVLAN children have mode L2 Bridge; use the same",
            id="another mode",
        ),
        pytest.param([asked(L3)], [record(asked(IpvlanConfig()), touched=False)], "", id="gone"),
        pytest.param(
            [asked(L3, "one"), asked(MacvlanConfig(), "two")],
            [],
            "is shared with the same pod, and it has a child of type (IPVLAN|MACVLAN); use the",
            id="of one claim",
        ),
        pytest.param([given(VIRTUAL)], [record(asked(L3))], "", id="no child"),
    ],
)
def test_unlike_children_of_one_parent_are_refused(
    devices: Sequence[AllocatedDevice], records: Sequence[Attachment], words: str
) -> None:
    claims = (claim(DATA, *devices),)
    if not words:
        refuse_unlike_children(claims, tuple(records))
        return
    with pytest.raises(OwnedError, match=words):
        refuse_unlike_children(claims, tuple(records))


def test_the_claims_own_child_of_before_is_none_beside_it() -> None:
    own = replace(record(asked(IpvlanConfig())), claim=claim(DATA, asked(L3)).claim)

    refuse_unlike_children((claim(DATA, asked(L3)),), (own,))
