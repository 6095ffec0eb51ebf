"""Kernel events that call for a reconcile."""

from collections.abc import Collection
from typing import Final

from dranet_nri.facts.uevents import OVERFLOW, DeviceEvent
from dranet_nri.hooks.handler import HookHandler
from dranet_nri.linux.rdma.types import EventKind

COMING_OR_GOING: Final = frozenset({EventKind.REGISTER, EventKind.UNREGISTER, EventKind.LOST})
APPEARING: Final = frozenset({"add", "move", "bind"})  # uevent actions, linux/kobject.h
DISAPPEARING: Final = frozenset({"remove", "unbind"})
VIRTUAL: Final = "/devices/virtual/"  # where devices without hardware are, drivers/base/core.c


def needs_reconcile(events: Collection[DeviceEvent], plugin: HookHandler) -> bool:
    """Whether events may be about devices of the plugin.

    They are in three cases. A device appears that a claim waits for: it may be back on the host.
    An RDMA device appears: the reload of a driver gives device files other numbers. A device of a
    pod disappears: every namespace gets the events of PCI functions and device files, but those
    of a link are sent to its own namespace only.
    """
    if any(event.action == OVERFLOW for event in events):
        return True
    appeared = [event for event in events if event.action in APPEARING]
    gone = {event.name for event in events if event.action in DISAPPEARING}
    return (
        _may_be_missing(appeared, plugin)
        or (any(event.subsystem == "infiniband" for event in appeared) and plugin.has_rdma())
        or plugin.has_any(gone)
    )


def _may_be_missing(appeared: Collection[DeviceEvent], plugin: HookHandler) -> bool:
    """Whether something that appeared may be what keeps a claim from being settled.

    Hardware may, under any name. Virtual links appear with every pod of the node: one counts only
    if a claim that is not settled has its name.
    """
    if any(event.subsystem != "net" or not event.path.startswith(VIRTUAL) for event in appeared):
        return plugin.pending() > 0
    names = {event.name for event in appeared}
    return any(
        device.device.key.name in names or device.pod_name in names
        for attachment in plugin.unsettled()
        for device in attachment.devices
    )
