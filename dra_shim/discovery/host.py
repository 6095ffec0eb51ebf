"""Host access: kernel events, and scans of the current state."""

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
from dranet_nri.state.privileged_facts import PrivilegedFacts

ScanRequest = Callable[[], None]


class Host(Protocol):
    """A node that can be scanned."""

    def listening(self, request_scan: ScanRequest, notify: Notify) -> AbstractContextManager[None]:
        """Call request_scan on the running event loop after each relevant event, until exit.

        Raises:
            KernelError, OSError: no events can be received.
        """

    def scan(self, *, full: bool, privileged_facts: PrivilegedFacts) -> HostFacts:
        """Return the current facts. May block; one thread at a time.

        Args:
            full: read everything; otherwise facts without an event since the last scan are reused.
            privileged_facts: current facts from the plugin.

        Raises:
            KernelError: the kernel refused.
            OSError: the node cannot be scanned now.
        """


class LiveHost:
    """The node of this process."""

    def __init__(self, sysfs: Path = SYSFS, azure_size: str = "") -> None:
        """Create the scanner; nothing is opened yet.

        Args:
            sysfs: mount point of a sysfs of this network namespace.
            azure_size: Azure VM size of this node, "" if unknown.

        Raises:
            InvalidValueError: the size is unknown.
        """
        self._sysfs = sysfs
        self._scanner = Scanner(sysfs, azure_size)

    def scan(self, *, full: bool, privileged_facts: PrivilegedFacts) -> HostFacts:
        """Implement Host."""
        return self._scanner.scan(whole=full, privileged_facts=privileged_facts)

    @contextmanager
    def listening(self, request_scan: ScanRequest, notify: Notify) -> Iterator[None]:
        """Implement Host."""
        with ExitStack() as stack:
            listener = EventListener(stack, self._scanner, request_scan, notify)
            rdma = RdmaListener(
                self._sysfs, listener.on_events, partial(listener.on_error, "RDMA events")
            )
            stack.callback(rdma.close)
            listener.add("rtnetlink", stack.enter_context(closing(open_events())))
            listener.add("uevents", DeviceEvents(), rdma.follow)
            rdma.follow()
            yield


class Source(Protocol):
    """Source of events of one kind, for a poller."""

    def fileno(self) -> int:
        """Return the file descriptor to poll."""

    def pending(self) -> Iterable[Event]:
        """Return the events that are pending.

        Raises:
            KernelError, OSError: no more events can be received.
        """


@dataclass(frozen=True, slots=True)
class EventListener:
    """Sources of events on the event loop, until the exit stack unwinds."""

    stack: ExitStack
    scanner: Scanner
    request_scan: ScanRequest
    notify: Notify

    def add(self, name: str, source: Source, after: Callable[[], None] = lambda: None) -> None:
        """Request a scan for events of a source; a source that fails is closed, with a full scan.

        Args:
            name: name of the source in messages.
            source: the source.
            after: called after each batch of events.
        """
        reader = DeferredReader(
            (source.fileno(),), lambda: self._on_readable(name, source, after, reader)
        )
        self.stack.callback(reader.close)

    def on_events(self, events: tuple[Event, ...]) -> None:
        """Request a scan if one of the events is relevant."""
        if self.scanner.invalidate(events):
            self.request_scan()

    def on_error(self, name: str, error: KernelError | OSError) -> None:
        """Report that a source failed, and request a full scan."""
        self.notify(EventSourceLost(name, error))
        self.on_events((NetEvent(NetEventKind.LOST),))

    def _on_readable(
        self, name: str, source: Source, after: Callable[[], None], reader: DeferredReader
    ) -> None:
        try:
            events: tuple[Event, ...] = tuple(source.pending())
        except (KernelError, OSError) as error:
            reader.close()
            self.on_error(name, error)
            return
        self.on_events(events)
        after()
