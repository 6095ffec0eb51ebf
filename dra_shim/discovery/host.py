"""The node's kernel: its events, and scans of its current state."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from dra_shim.discovery.notices import EventSourceLost, Notify
from dranet_nri.component.deferred import DeferredReader
from dranet_nri.errors import KernelError
from dranet_nri.facts.invalidation import Event
from dranet_nri.facts.netlink_events import NetEvent, NetEventKind, open_events
from dranet_nri.facts.scan import Scanner
from dranet_nri.facts.sysfs import SYSFS
from dranet_nri.facts.uevents import DeviceEvents
from dranet_nri.inventory import HostFacts
from dranet_nri.linux.rdma.watcher import RdmaListener
from dranet_nri.state.tcx import PrivilegedFacts

Stir = Callable[[], None]


class Host(Protocol):
    """A node that can be scanned."""

    def listening(self, stir: Stir, notify: Notify) -> AbstractContextManager[None]:
        """Call stir, on the running event loop, whenever something may have changed, until exit.

        Raises:
            KernelError, OSError: no events can be received.
        """

    def look(self, *, whole: bool, insight: PrivilegedFacts) -> HostFacts:
        """Return what there is now. It may block; one thread at a time.

        Args:
            whole: read everything; else what no event made stale may be reused.
            insight: the plugin's current facts.

        Raises:
            KernelError: the kernel refused.
            OSError: it cannot be scanned now.
        """


class LiveHost:
    """The node of this process."""

    def __init__(self, sysfs: Path = SYSFS, azure_size: str = "") -> None:
        """Prepare; nothing is opened yet.

        Args:
            sysfs: where a sysfs of this network namespace is mounted.
            azure_size: Azure's name of this node's size, "" if unknown.

        Raises:
            InvalidValueError: nothing is known of the size.
        """
        self._sysfs = sysfs
        self._scanner = Scanner(sysfs, azure_size)

    def look(self, *, whole: bool, insight: PrivilegedFacts) -> HostFacts:
        """See Host."""
        return self._scanner.scan(whole=whole, insight=insight)

    @contextmanager
    def listening(self, stir: Stir, notify: Notify) -> Iterator[None]:
        """See Host."""
        with ExitStack() as stack:
            listener = EventListener(stack, self._scanner, stir, notify)
            rdma = RdmaListener(self._sysfs, listener.take, partial(listener.lose, "RDMA events"))
            stack.callback(rdma.close)
            listener.hear("rtnetlink", stack.enter_context(closing(open_events())))
            listener.hear("uevents", DeviceEvents(), rdma.follow)
            rdma.follow()
            yield


class Source(Protocol):
    """Events of one kind, for a poller."""

    def fileno(self) -> int:
        """Return what becomes readable."""

    def pending(self) -> Iterable[Event]:
        """Return the events that are there now.

        Raises:
            KernelError, OSError: no more events can be received.
        """


@dataclass(frozen=True, slots=True)
class EventListener:
    """Listens to sources of events until the stack unwinds."""

    stack: ExitStack
    scanner: Scanner
    stir: Stir
    notify: Notify

    def hear(self, name: str, source: Source, after: Callable[[], None] = lambda: None) -> None:
        """Request a scan for the source's events; a source that fails is closed, with a full scan.

        Args:
            name: how people call it.
            source: of events.
            after: done each time when they are taken.
        """
        reader = DeferredReader(source.fileno(), lambda: self._heard(name, source, after, reader))
        self.stack.callback(reader.close)

    def take(self, events: tuple[Event, ...]) -> None:
        """Request a scan if one of the events may be relevant."""
        if self.scanner.hear(events):
            self.stir()

    def lose(self, name: str, error: KernelError | OSError) -> None:
        """Report that a source has failed, and request a full scan."""
        self.notify(EventSourceLost(name, error))
        self.take((NetEvent(NetEventKind.LOST),))

    def _heard(
        self, name: str, source: Source, after: Callable[[], None], reader: DeferredReader
    ) -> None:
        try:
            events: tuple[Event, ...] = tuple(source.pending())
        except (KernelError, OSError) as error:
            reader.close()
            self.lose(name, error)
            return
        self.take(events)
        after()
