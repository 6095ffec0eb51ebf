"""The subjects of the contract of RDMA devices: here the kernel in memory.

A machine has two RDMA devices, soft0 and soft1, one on each of two NICs. The real ones are those of
soft-RoCE in the node in a box, tests/system/vm/test_contract_rdma.py.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Protocol

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.model import CharDevice, DeviceKey, NetnsId, Ns, ObservedRdma, RdmaLink, RdmaMode
from dranet_nri.plan.identity import RdmaIdentity
from dranet_nri.plan.kernel import Kernel, Session
from dranet_nri.plan.ops import MoveRdma, Op
from tests.fakes.kernel import FakeKernel

NAMES = ("soft0", "soft1")


class Fabric(Protocol):
    """What a test needs besides the port."""

    kernel: Kernel

    def key(self, name: str) -> DeviceKey:
        """Return the key of the NIC whose RDMA device has that name."""

    def add_netns(self) -> NetnsId:
        """Make a namespace with a path of its own."""

    def unlink(self, netns: NetnsId) -> None:
        """Remove the namespace's path, and every reference that isn't the kernel port's."""

    def plug(self, name: str) -> None:
        """Let the driver make the RDMA device, on the host."""

    def unplug(self, name: str, netns: NetnsId | None = None) -> None:
        """Let the driver take the RDMA device away, from the host or from netns."""


class FakeFabric:
    """The kernel in memory."""

    def __init__(self, mode: RdmaMode, *, movable: bool) -> None:
        """Make the devices. A driver that can't move them shows no NIC above them either."""
        self._fake = FakeKernel()
        self._movable = movable
        self.kernel: Kernel = self._fake
        self._count = 0
        for name in NAMES:
            key = self.key(name)
            self._fake.add_link(key.name, parent=key.parent)
            self.plug(name)
        self._fake.rdma.mode = mode

    def key(self, name: str) -> DeviceKey:
        """Return the key."""
        number = NAMES.index(name) + 1
        address = f"0000:{number:02x}:00.0"
        return DeviceKey("pci", address, f"eth{number}", address)

    def add_netns(self) -> NetnsId:
        """Add a namespace."""
        self._count += 1
        return self._fake.add_netns(f"/run/netns/{self._count}")

    def unlink(self, netns: NetnsId) -> None:
        """Remove it."""
        self._fake.remove_netns(netns)

    def plug(self, name: str) -> None:
        """Add a device."""
        nic = self.key(name).parent
        parent = nic if self._movable else ""
        guid = f"0200:00ff:fe00:000{NAMES.index(name)}"
        self._fake.add_rdma(name, parent=parent, guid=guid, movable=self._movable, nic=nic)

    def unplug(self, name: str, netns: NetnsId | None = None) -> None:
        """Remove it, wherever it is."""
        self._fake.rdma.remove(name)


@dataclass(frozen=True)
class Bench:
    """A machine, a namespace that is held, and a session with it."""

    fabric: Fabric
    pod: NetnsId
    session: Session

    def seen(self, *recorded: RdmaLink, name: str = "soft0") -> ObservedRdma:
        """Observe an RDMA device of which these left the host."""
        return self.session.rdma(RdmaIdentity(self.fabric.key(name), (name,), recorded))

    def on_host(self, name: str = "soft0") -> RdmaLink:
        """Return the device, which must be on the host."""
        (link,) = self.seen(name=name).host
        return link

    def move_in(self, name: str = "soft0") -> RdmaLink:
        """Move a device of the host into the pod; return it as it was."""
        link = self.on_host(name)
        self.session.apply(MoveRdma(Ns.HOST, link.index, Ns.POD, link.name))
        return link

    def files(self, ns: Ns, link: RdmaLink, *kinds: str) -> tuple[CharDevice, ...]:
        """Return the device files of these kinds, uverbs if none is given."""
        return self.session.char_devices(ns, link, kinds or ("uverbs",))

    def refused(self, op: Op) -> KernelError:
        """Apply an operation that must fail, and return why."""
        with pytest.raises(KernelError) as caught:
            self.session.apply(op)
        assert caught.value.op == str(op)
        return caught.value


@contextmanager
def bench(fabric: Fabric) -> Iterator[Bench]:
    """Make a namespace and open a session with it."""
    pod = fabric.add_netns()
    assert fabric.kernel.hold(pod)
    try:
        with closing(fabric.kernel.session(pod)) as session:
            yield Bench(fabric, pod, session)
    finally:
        fabric.kernel.release(pod)


@pytest.fixture
def movable(movable_fabric: Fabric) -> Iterator[Bench]:
    """Return a bench whose RDMA devices belong to one namespace each, and move."""
    with bench(movable_fabric) as made:
        yield made


@pytest.fixture
def fixed(fixed_fabric: Fabric) -> Iterator[Bench]:
    """Return a bench whose RDMA devices belong to the host's namespace, for their driver is so."""
    with bench(fixed_fabric) as made:
        yield made


@pytest.fixture
def shared(shared_fabric: Fabric) -> Iterator[Bench]:
    """Return a bench whose namespaces share all RDMA devices."""
    with bench(shared_fabric) as made:
        yield made
