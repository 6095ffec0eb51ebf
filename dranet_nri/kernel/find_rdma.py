"""RDMA device identification: the RDMA devices of a device among those of two namespaces.

Rules:
1. On the host they are those that the inventory publishes for the device, by the same rule. If the
   net device is in the pod, the port of a shared RDMA device shows it to a reader there.
2. An RDMA device that left the host is found by its recorded facts in any namespace; it may return
   before its net device.
3. A software device whose net device is in neither namespace is found by its name.
4. In a pod without recorded RDMA devices, with none on the host (a record was lost, or another
   driver moved them), they are those with a port that has the device's net device; if no port has
   one, as with InfiniBand, those with the published names.
5. Sub-devices belong to no device, but are reported, because they block a move of their RDMA
   device.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dranet_nri.inventory import RdmaDeviceFacts, own_rdma
from dranet_nri.linux.rdma import types
from dranet_nri.model import Ns, ObservedRdma, RdmaLink, RdmaMode
from dranet_nri.plan.identity import RdmaIdentity

Devices = Sequence[types.RdmaDevice]


@dataclass(frozen=True, slots=True)
class VisibleRdma:
    """RDMA devices that the namespaces show.

    Attributes:
        mode: mode of the machine.
        host, pod: the RDMA devices of each namespace; in shared mode the host's only.
        parents: name of an RDMA device on the host -> (bus, name) of its parent device, "" for a
            software device; without those that sysfs does not show.
        ports: bus and name of the parent devices of the ports, if the device is a bond.
        netdevs: returns index of an RDMA device -> ifindexes of its ports' net devices in a
            namespace.
    """

    mode: RdmaMode
    host: Devices
    pod: Devices
    parents: Mapping[str, tuple[str, str]]
    netdevs: Callable[[Ns, Devices], Mapping[int, frozenset[int]]]
    ports: frozenset[tuple[str, str]] = frozenset()


def find_rdma(visible: VisibleRdma, identity: RdmaIdentity) -> ObservedRdma:
    """Return the location of the RDMA devices.

    Raises:
        KernelError: ports could not be read.
    """
    here = _on_host(visible, identity)
    names = {device.name for device in here}
    there = _in_pod(visible, identity, nowhere_else=not here)
    return ObservedRdma(
        mode=visible.mode,
        host=tuple(map(_link, here)),
        pod=tuple(map(_link, there)),
        taken_host_names=frozenset(device.name for device in visible.host if device not in here),
        taken_pod_names=frozenset(device.name for device in visible.pod if device not in there),
        sub_devices=tuple(device.name for device in visible.host if device.parent in names),
        software=tuple(
            name for name, (_, parent) in visible.parents.items() if name in names and not parent
        ),
    )


def _on_host(visible: VisibleRdma, identity: RdmaIdentity) -> Devices:
    whole = {device.name: device for device in visible.host if not device.parent}
    facts = [RdmaDeviceFacts(name, *visible.parents.get(name, ("", ""))) for name in whole]

    # A bond has no parent: a NIC with the name of a bond in its key gets none of its RDMA devices.
    ports = () if identity.key.parent else visible.ports
    netdevs = [(Ns.HOST, identity.host_netdev)]
    netdevs += [(Ns.POD, identity.pod_netdev)] if visible.mode is RdmaMode.SHARED else []

    def with_netdev(rdma_devices: Sequence[RdmaDeviceFacts]) -> set[str]:
        devices = [whole[device.name] for device in rdma_devices]
        return {
            device.name
            for ns, netdev in netdevs
            if netdev
            for device in _with_netdev(visible, ns, devices, netdev)
        }

    own = {device.name for device in own_rdma(identity.key, facts, with_netdev, ports)}
    own = own or {
        device.name for device in facts if not device.parent and device.name in identity.names
    }
    return [
        device for name, device in whole.items() if name in own or identity.has_left(_link(device))
    ]


def _with_netdev(visible: VisibleRdma, ns: Ns, devices: Devices, netdev: int) -> Devices:
    netdevs = visible.netdevs(ns, devices)
    return [device for device in devices if netdev in netdevs.get(device.index, ())]


def _in_pod(visible: VisibleRdma, identity: RdmaIdentity, *, nowhere_else: bool) -> Devices:
    whole = [device for device in visible.pod if not device.parent]
    if identity.before or not (whole and nowhere_else):
        return [device for device in whole if identity.has_left(_link(device))]
    netdevs = visible.netdevs(Ns.POD, whole)
    names = {*identity.names, identity.pod_name}

    def is_its(device: types.RdmaDevice) -> bool:
        indexes = netdevs.get(device.index)
        return identity.pod_netdev in indexes if indexes else device.name in names

    return [device for device in whole if is_its(device)]


def _link(device: types.RdmaDevice) -> RdmaLink:
    return RdmaLink(device.index, device.name, device.node_guid)
