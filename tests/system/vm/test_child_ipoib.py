"""IPoIB children: the kernel's own driver and the one in memory refuse the same parents.

No kernel here has an InfiniBand port. rtnetlink checks the attributes of a request by the policy of
the driver before the driver looks for the parent, so that ENODEV shows that it takes all of them.
"""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from errno import ENODEV, EOPNOTSUPP

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.kernel import child
from dranet_nri.kernel.links import MoveEnd, set_settings
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket, open_here
from dranet_nri.model import IpoibConfig, IpoibMode, IpoibState, Ns
from dranet_nri.plan.ops import AddChild, LinkSettings
from tests.fakes.kernel import FakeKernel

LO = 1
CHILDREN = [IpoibConfig(0x8001), IpoibConfig(mode=IpoibMode.CONNECTED)]


@pytest.fixture
def netlink() -> Iterator[RtnetlinkSocket]:
    subprocess.run(("modprobe", "ib_ipoib"), check=True)
    with closing(open_here()) as netlink:
        yield netlink
    subprocess.run(("modprobe", "--remove", "ib_ipoib"), check=True)


@pytest.mark.parametrize("link", CHILDREN, ids=str)
def test_parent_without_infiniband_is_refused_as_by_the_kernel_in_memory(
    netlink: RtnetlinkSocket, link: IpoibConfig
) -> None:
    fake = FakeKernel()
    parent = fake.add_link("eth1").index

    with pytest.raises(KernelError) as refused:
        child.add(netlink, MoveEnd(netlink, -1), "add", AddChild(Ns.HOST, LO, "dra1", "a", link))
    with pytest.raises(KernelError) as expected:
        fake.do(AddChild(Ns.HOST, parent, "dra1", "a", link), None)

    assert (refused.value.code, expected.value.code) == (ENODEV, ENODEV)


def test_mode_of_another_link_is_refused(netlink: RtnetlinkSocket) -> None:
    with pytest.raises(KernelError) as refused:
        set_settings(netlink, "set", LO, LinkSettings(ipoib=IpoibState(connected=True)))

    assert refused.value.code == EOPNOTSUPP
