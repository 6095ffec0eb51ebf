"""Reconcile triggers: the kernel events after which a reconcile is needed."""

from collections.abc import Collection
from typing import Final

from dranet_nri.attach.reconciler import Reconciler
from dranet_nri.facts.uevents import OVERFLOW, DeviceEvent
from dranet_nri.linux.rdma.types import RdmaEvent

LIFECYCLE: Final = frozenset({RdmaEvent.REGISTER, RdmaEvent.UNREGISTER, RdmaEvent.LOST})
APPEARING: Final = frozenset({"add", "move", "bind"})  # uevent actions, linux/kobject.h
DISAPPEARING: Final = frozenset({"remove", "unbind"})
VIRTUAL: Final = "/devices/virtual/"  # devices without hardware, drivers/base/core.c


def needs_reconcile(events: Collection[DeviceEvent], reconciler: Reconciler) -> bool:
    """Whether events may concern devices of the plugin.

    In three cases: an awaited device appears, which may be back on the host; an RDMA device
    appears, because a driver reload changes device numbers; a pod's PCI function or device file
    disappears. Link events are sent to the link's namespace only, the others to all namespaces.
    """
    if any(event.action == OVERFLOW for event in events):
        return True
    appeared = [event for event in events if event.action in APPEARING]
    gone = {event.name for event in events if event.action in DISAPPEARING}
    return (
        _may_be_missing(appeared, reconciler)
        or (any(event.subsystem == "infiniband" for event in appeared) and reconciler.has_rdma())
        or reconciler.has_any(gone)
    )


def _may_be_missing(appeared: Collection[DeviceEvent], reconciler: Reconciler) -> bool:
    """Whether an unsettled claim may be waiting for a device that appeared.

    Hardware counts with any name. Virtual links appear with every pod of the node: one counts only
    if an unsettled claim has its name.
    """
    if any(event.subsystem != "net" or not event.path.startswith(VIRTUAL) for event in appeared):
        return reconciler.pending() > 0
    names = {event.name for event in appeared}
    return any(
        device.device.key.name in names or device.pod_name in names
        for attachment in reconciler.unsettled()
        for device in attachment.devices
    )
