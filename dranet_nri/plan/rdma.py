"""Plans for RDMA devices: moved before their net device, into the pod and back (exclusive mode).

Rules:
1. They move into the pod before the net device: a driver that cannot move its RDMA device refuses
   before any change, and some drivers destroy it when its net device leaves.
2. They also return before the net device: a scan of the host must find both together.
3. A device with another index is new: its driver was reloaded. The kernel creates it on the host,
   so it need not be moved.
4. A device is renamed in the pod only: on the host, udev renames new devices.
"""

from dranet_nri.component.replace import replace
from dranet_nri.errors import RefusedError
from dranet_nri.model import Ns, ObservedRdma, RdmaLink
from dranet_nri.plan.ops import MoveRdma, Op, Plan, RenameRdma


def plan_rdma_attach(links: tuple[RdmaLink, ...], name: str, observed: ObservedRdma) -> Plan:
    """Return the operations that move RDMA devices into the pod.

    Args:
        links: the devices as observed on the host.
        name: name in the pod of a single device, "" to keep its own.
        observed: their current location.

    Raises:
        RefusedError: one is missing, or the name is taken.
    """
    ops: list[Op] = []
    for link in links:
        now = find_same(link, observed.pod)
        if now is None:
            now = find_same(link, observed.host)
            if now is None:
                raise RefusedError(
                    f"RDMA device {link.name} is neither on the host nor in the pod: its driver"
                    " was reloaded, or another namespace has it; see dranet-nri status"
                )
            ops.append(MoveRdma(Ns.HOST, now.index, Ns.POD, now.name))
        if name and now.name != name:
            _require_free(name, observed)
            ops.append(RenameRdma(Ns.POD, now.index, name))
    return tuple(ops)


def _require_free(name: str, observed: ObservedRdma) -> None:
    """Refuse a name in use in either namespace: before Linux 7.3 names are unique system-wide."""
    if name in observed.taken_host_names | observed.taken_pod_names:
        raise RefusedError(f"rdma.name {name!r} is taken; set rdma.name to another one")


def plan_rdma_restore(before: tuple[RdmaLink, ...], observed: ObservedRdma) -> Plan:
    """Return the operations that restore the RDMA devices on the host."""
    ops: list[Op] = []
    taken = observed.taken_host_names | observed.taken_pod_names
    for link in before:
        in_pod = find_same(link, observed.pod)
        now = in_pod or find_same(link, observed.host)
        if now is None:
            continue
        ns = Ns.POD if in_pod else Ns.HOST
        if now.name != link.name and link.name not in taken:
            ops.append(RenameRdma(ns, now.index, link.name))
            now = replace(now, name=link.name)
        if in_pod:
            ops.append(MoveRdma(Ns.POD, now.index, Ns.HOST, now.name))
    return tuple(ops)


def why_rdma_not_restored(before: tuple[RdmaLink, ...], observed: ObservedRdma) -> str:
    """Return why the RDMA devices are not restored, "" if they are.

    A device that its driver did not recreate must also have its name.
    """
    for link in before:
        on_host = find_same(link, observed.host)
        if on_host is not None and on_host.name == link.name:
            continue
        if on_host is not None:
            return (
                f"RDMA device {link.name} is called {on_host.name}: its name is taken; give the"
                f" device that has it another (rdma dev set {link.name} name NAME)"
            )
        if find_same(link, observed.pod) is not None:
            return f"RDMA device {link.name} is still in the pod"
        if not _recreated(before, observed):
            return f"RDMA device {link.name} is gone: load its driver again"
    return ""


def present_rdma(before: tuple[RdmaLink, ...], observed: ObservedRdma) -> tuple[RdmaLink, ...]:
    """Return the RDMA devices that are on the host or in the pod."""
    present = (*observed.host, *observed.pod)
    return tuple(link for link in before if find_same(link, present))


def _recreated(before: tuple[RdmaLink, ...], observed: ObservedRdma) -> tuple[RdmaLink, ...]:
    """Return new devices on the host, which a driver recreated."""
    return tuple(
        device
        for device in observed.host
        if all(find_same(link, (device,)) is None for link in before)
    )


def find_same(link: RdmaLink, others: tuple[RdmaLink, ...]) -> RdmaLink | None:
    """Return the same device among `others`, or None; the kernel may reuse an index."""
    return next(
        (
            device
            for device in others
            if device.index == link.index
            and (device.node_guid == link.node_guid or device.name == link.name)
        ),
        None,
    )
