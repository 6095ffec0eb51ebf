"""Events of the discovery controller."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    """There are other devices to offer than before.

    Attributes:
        devices: how many there are now.
        rdma: how many of them have RDMA.
        appeared: their names.
        withdrawn: (name, why) of those that are offered no longer.
    """

    devices: int
    rdma: int
    appeared: tuple[str, ...]
    withdrawn: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Devices are not offered for one reason: hardware that was not left out for it a look ago.

    What is withdrawn is not told again. Virtual devices come and go with pods: none is named, and
    the first look tells how many the flags drop.

    Attributes:
        reason: why; it begins with the interface's name where that is not the device's.
        devices: names of those that are PCI functions, or on one, or have RDMA; sorted.
        virtual: how many others; 0 after the first look.
    """

    reason: str
    devices: tuple[str, ...]
    virtual: int = 0


@dataclass(frozen=True, slots=True)
class Ailing:
    """A device is not well; it is tainted until it recovers."""

    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """A device is well again, or at least nobody sees what ails it."""

    device: str


@dataclass(frozen=True, slots=True)
class LookFailed:
    """The node could not be looked at. What was offered stays so, and it is tried again."""

    error: Exception
    retry_s: float


@dataclass(frozen=True, slots=True)
class LookStuck:
    """A look takes so many seconds by now; the kernel keeps its thread. Nothing else waits for it.

    Attributes:
        doing: what the thread is at.
    """

    doing: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Deaf:
    """Events of one source are heard no longer; looks without news replace them."""

    source: str
    error: Exception


@dataclass(frozen=True, slots=True)
class Untold:
    """What the plugin tells of the host cannot be read. What it told before counts."""

    error: Exception


Notice = Seen | LeftOut | Ailing | Recovered | LookFailed | LookStuck | Deaf | Untold
Notify = Callable[[Notice], None]
