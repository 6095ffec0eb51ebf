"""The devices of the node, watched: offered as they are, known to Prepare, reported to the kubelet.

Rules:
1. Events say when to look, a look says what is there. The event loop never waits for the kernel.
2. What was offered stays so while the node cannot be looked at; after a while its health is unknown
   to everybody.
3. Records are read before and after a look. A device that moves between host and pod meanwhile is
   in one of them, or was seen.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Final

from dra_shim.goods import Goods
from dra_shim.kubelet import DeviceHealth, HealthReport
from dra_shim.node import notices
from dra_shim.node.held import Held
from dra_shim.node.host import Host, LiveHost
from dra_shim.node.pace import Pace
from dra_shim.node.view import Choice, View, view_of
from dra_shim.settings import State
from dranet_nri.errors import DranetError
from dranet_nri.facts.sysfs import SYSFS
from dranet_nri.model import Device
from dranet_nri.threads import Patience, in_thread

RESCAN_S: Final = 60.0  # dranet's --inventory-max-poll-interval; InfiniBand announces no port state
DOUBT_S: Final = 120.0  # without a look that succeeds; then nobody knows how devices are
STUCK_S: Final = 10.0  # of a look that takes a fraction of a second

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """How the node is looked at.

    Attributes:
        choice: which devices are offered.
        azure_size: what Azure calls this node's size, "" if nobody knows.
        sysfs: where a sysfs of our network namespace is mounted.
        rescan_s: seconds between looks at everything.
    """

    choice: Choice = field(default_factory=Choice)
    azure_size: str = ""
    sysfs: Path = SYSFS
    rescan_s: float = RESCAN_S


class NodeDevices:
    """Watches the node: a DeviceSource and a HealthSource."""

    def __init__(
        self,
        options: NodeOptions,
        state: State,
        node: str,
        offer: Callable[[Goods], None],
        notify: notices.Notify,
        *,
        host: Host | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        patience_s: float = STUCK_S,
    ) -> None:
        """Prepare; run does the work.

        Args:
            options: how to look.
            state: where records are.
            node: its name, and its pool's.
            offer: takes what is there after each look, the same again too; must not raise.
            notify: told what became different; must not raise.
            host: what is looked at, None for the node we run on.
            clock: seconds that only go up.
            sleep: waits that many of them.
            patience_s: seconds of a look after which it is told that it is stuck.

        Raises:
            SelectorError: an expression of the options cannot be compiled.
            InvalidValueError: nothing is known of the size.
        """
        options.choice.check()
        self._choice = options.choice
        self._state = state
        self._node = node
        self._offer = offer
        self._notify = notify
        self._host = host or LiveHost(options.sysfs, options.azure_size)
        self._clock = clock
        self._sleep = sleep
        self._rescan_s = options.rescan_s
        self._pace = Pace(options.rescan_s)
        self._patience = Patience(
            patience_s, lambda doing: notify(notices.LookStuck(doing, patience_s))
        )
        self._nap: asyncio.Task[None] | None = None
        self._nap_until = inf
        self._turn = asyncio.Lock()
        self._begun = 0  # looks, and the last of them that saw everything
        self._whole = 0
        self._view = View()
        self._seen_s = clock()  # when a look succeeded last
        self._report = HealthReport(0, ())
        self._reported = asyncio.Event()
        self._held: Held | None = None
        self._listening = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled; may be called again when it ended.

        Raises:
            KernelError: the kernel's events cannot be heard.
            StateError: inotify is not to be had.
            OSError: the records cannot be read, or nothing can be heard.
        """
        loop = asyncio.get_running_loop()
        with Held(self._state) as held, self._host.listening(self._stir, self._notify):
            for fileno in held.filenos():
                loop.add_reader(fileno, self._recorded, held)
            self._pace = Pace(self._rescan_s)  # what happened before was not heard
            self._held = held
            self._listening.set()
            try:
                while True:
                    await self._until_due()
                    await self._look_if_due()
            finally:
                self._held = None
                self._listening.clear()
                for fileno in held.filenos():
                    loop.remove_reader(fileno)

    async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
        """See DeviceSource.

        Raises:
            KernelError: the node cannot be looked at.
            StateError: a record cannot be read now.
            OSError: sysfs or the records cannot be read now.
        """
        if not self._view.devices.keys() >= set(names):
            await self._look_again()
        return {name: self._view.devices[name] for name in names if name in self._view.devices}

    async def health(self, seen: int | None) -> HealthReport:
        """See HealthSource."""
        while self._report.number == seen:
            await self._reported.wait()
        return self._report

    # ------------------------------------------------------------------- when

    def _stir(self) -> None:
        """Look soon."""
        self._pace.news(self._clock())
        self._wake()

    def _wake(self) -> None:
        """End the nap if it would end too late."""
        if self._nap is not None and self._pace.due < self._nap_until:
            self._nap.cancel()

    def _recorded(self, held: Held) -> None:
        held.take_in()
        self._stir()

    async def _until_due(self) -> None:
        while (left_s := self._pace.due - self._clock()) > 0:
            self._nap_until = self._pace.due
            self._nap = asyncio.ensure_future(self._sleep(left_s))
            try:
                await asyncio.wait({self._nap})
            finally:
                self._nap.cancel()
                self._nap = None

    # ------------------------------------------------------------------- looking

    async def _look_if_due(self) -> None:
        async with self._turn:
            if self._pace.due <= self._clock():
                with suppress(DranetError, OSError):  # told, and tried again
                    await self._look(whole=False)

    async def _look_again(self) -> None:
        """Look at everything, unless somebody does after now."""
        wanted = self._begun + 1
        async with self._turn:
            if self._whole < wanted:
                await self._look(whole=True)

    async def _look(self, *, whole: bool) -> None:
        held = await self._records()
        self._begun += 1
        whole = self._pace.begin(self._clock()) or whole
        try:
            view = await self._see(held, whole=whole)
        except (DranetError, OSError) as error:
            self._notify(notices.LookFailed(error, self._pace.failed(self._clock())))
            self._wake()
            self._doubt(error)
            raise
        self._seen_s = self._clock()
        self._pace.ended(self._seen_s, whole=whole)
        if whole:
            self._whole = self._begun
        self._show(view)

    async def _records(self) -> Held:
        """Return the records; wait until they are open."""
        while self._held is None:
            await self._listening.wait()
        return self._held

    async def _see(self, held: Held, *, whole: bool) -> View:
        before = held.devices()
        facts = await in_thread(partial(self._host.look, whole=whole), self._patience)
        known = tuple((before | held.devices()).values())
        return await in_thread(partial(view_of, self._node, facts, known, self._choice))

    def _show(self, view: View) -> None:
        """Offer what is there, and tell what became different."""
        before, self._view = self._view, view
        self._offer(view.goods)
        self._tell_devices(before, view)
        self._tell_ills(before.ills, view.ills)
        self._report_health(view.health)

    def _doubt(self, error: Exception) -> None:
        """Report as unknown what nobody could see for long."""
        if self._clock() - self._seen_s >= DOUBT_S:
            message = f"the node cannot be looked at: {error}"
            self._report_health(
                tuple(replace(each, healthy=None, message=message) for each in self._view.health)
            )

    def _report_health(self, health: tuple[DeviceHealth, ...]) -> None:
        if health != self._report.devices:
            self._report = HealthReport(self._report.number + 1, health)
            self._reported.set()
            self._reported = asyncio.Event()

    def _tell_devices(self, before: View, now: View) -> None:
        appeared = tuple(now.devices.keys() - before.devices.keys())
        reasons = dict(now.left_out)
        gone = sorted(before.devices.keys() - now.devices.keys())
        if appeared or gone:
            withdrawn = tuple((name, reasons.get(name, "gone from the node")) for name in gone)
            self._notify(
                notices.Seen(len(now.devices), now.rdma, tuple(sorted(appeared)), withdrawn)
            )

    def _tell_ills(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        for device, reason in now.items():
            if before.get(device) != reason:
                self._notify(notices.Ailing(device, reason))
        for device in before.keys() - now.keys():
            self._notify(notices.Recovered(device))
