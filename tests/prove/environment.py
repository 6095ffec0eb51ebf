"""Environment of the rows: the host, its NICs, and its expected state."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count

from tests.box.nics import Nic, settled
from tests.box.waiting import wait_until
from tests.prove import observed_state
from tests.prove.shapes import HARDWARE_ONLY, NOTHING, Shape


class Loss(StrEnum):
    """A kind of failure of a row."""

    LOST = "lost"  # a NIC is nowhere
    MISCONFIGURED = "misconfigured"  # neither whole in the pod nor whole on the host
    UNGUARDED = "unguarded"  # a container may start, or has, without its NIC
    HUNG = "hung"  # the plugin does not answer, or does not end


class After(StrEnum):
    """The runtime's list after the restart of the plugin."""

    LISTED = "listed"  # the sandbox lives
    GONE = "gone"  # it does not


class Failed(Exception):  # noqa: N818 - it ends a row, which may well be what a row is for
    """A row did not end as it must."""

    def __init__(self, loss: Loss, detail: str) -> None:
        """Keep the kind of failure and the detail."""
        super().__init__(f"{loss}: {detail}")
        self.loss = loss
        self.detail = detail


@dataclass
class HostEnvironment:
    """A host: its NICs, its initial state, and the expected state of the pod of each shape.

    Attributes:
        tier: "vm" has virtual functions, which come back when their namespace dies, "vm rdma"
            with an RDMA device each that moves with them, "vm rdma shared" with one that stays;
            "host" wires, and "vm wires" the same in a machine.
        rebuild: makes the NICs anew after a row lost one.
    """

    tier: str
    nics: tuple[Nic, ...]
    rebuild: Callable[[], tuple[Nic, ...]]
    before: dict[str, object] = field(default_factory=dict)
    whole: dict[str, observed_state.Facts] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        """Record the initial state of the host."""
        self._record()

    @property
    def hardware(self) -> bool:
        """Whether a NIC whose namespace dies comes back to the host."""
        return self.tier not in {"host", "vm wires"}

    def changed(self, since: dict[str, object] | None = None) -> str:
        """Return the first difference from an earlier state of the host, "" if there is none.

        Args:
            since: the earlier state; None for the initial state.
        """
        before = self.before if since is None else since
        return next(filter(None, (_changed(before, part) for part in observed_state.parts())), "")

    def restore(self) -> None:
        """Make the NICs anew."""
        self.nics = self.rebuild()
        self.whole.clear()  # new NICs have new addresses
        self._record()

    def _record(self) -> None:
        """Record the state of the host once the kernel has given each NIC its last address."""
        names = {nic.name for nic in self.nics}
        wait_until("link-local addresses", lambda: names <= observed_state.links_with_link_local())
        settled()
        self.before = observed_state.host_state()

    def fits(self, shape: Shape) -> bool:
        """Whether these NICs can take part in the shape."""
        if self.tier == "vm rdma shared":  # the host's devices do the same whatever the pod has
            return not shape.has_rdma and shape.claims == ((NOTHING,),)
        with_rdma = self.tier == "vm rdma"
        return (
            (self.hardware or shape.act not in HARDWARE_ONLY)
            and (self.tier == "host" or not shape.has_lease)  # the server is on a wire
            and (not shape.machines or (self.tier == "vm" and _machine() in shape.machines))
            and (with_rdma or not shape.has_rdma)
            and not (with_rdma and shape.shared)  # in exclusive mode, nobody shares them
        )


def _machine() -> str:
    """Return the kind of this machine, "" outside of one."""
    return os.environ.get("BOX_MACHINE", "")


def differences(expected: observed_state.Facts, found: observed_state.Facts) -> str:
    """Return what is missing and what is too much, "" if nothing is."""
    if expected == found:
        return ""
    return f"missing {sorted(expected - found)}, beside {sorted(found - expected)}"


def _changed(before: dict[str, object], part: dict[str, object]) -> str:
    return "; ".join(
        f"{kind}: {differences(frozenset(_rows(kind, before)), frozenset(_rows(kind, part)))}"
        for kind, now in part.items()
        if before[kind] != now
    )


def _rows(kind: str, state: dict[str, object]) -> list[str]:
    """Return the rows of one kind; of sysctls, a row for each number of the kernel's arrays."""
    dumped = state[kind]
    assert isinstance(dumped, list)
    if kind != "sysctls":
        return dumped
    return [
        json.dumps([name, family, number, value])
        for name, family, values in map(json.loads, dumped)
        for number, value in enumerate(values)
    ]
