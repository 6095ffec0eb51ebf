"""Name and address clashes among several devices of one pod.

Rules:
1. In a pod, names of interfaces, with altnames, and of RDMA devices are unique. Several interfaces
   can have one VRF, whose name is none of theirs.
2. The kernel accepts an address on two interfaces, but uses one of them for its packets. Link-local
   addresses belong to their link, so several devices may have the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface
from typing import Final

from dranet_nri.config.json_cursor import show
from dranet_nri.model import NetworkConfig

_NAME: Final = "interface.name"
_ALTNAME: Final = "interface.altnames"
_ADDRESS: Final = "interface.addresses"
_RDMA: Final = "rdma.name"
_VRF: Final = "interface.vrf"
_REMEDY: Final = {
    _NAME: "give each device a request of its own with its own name, or remove the name",
    _ALTNAME: "give each device a request of its own with its own names, or remove the name",
    _ADDRESS: "give each device a request of its own with its own address, or write a range such "
    'as "10.9.1.16-10.9.1.63/24", of which each gets one',
    _RDMA: "give each device a request of its own with its own name, or remove the name",
}


@dataclass(frozen=True, slots=True)
class SameConfig:
    """Devices of one pod with the same configuration.

    Attributes:
        title: their name in messages ("request nics").
        config: their configuration.
        ifname: name of the interface on the host, and in the pod unless config sets one.
        several: whether there is more than one.
    """

    title: str
    config: NetworkConfig
    ifname: str = ""
    several: bool = False


def clashes(devices: Sequence[SameConfig]) -> tuple[str, ...]:
    """Return a violation for each name and address that several devices would have.

    Also for each VRF with the name of another device, or with two tables.
    """
    users: dict[tuple[str, str], list[SameConfig]] = {}
    paths: dict[tuple[str, str], str] = {}
    for device in devices:
        for key, path in {
            (_space(path), value): path for path, value in _exclusive_values(device)
        }.items():
            paths.setdefault(key, path)
            users.setdefault(key, []).append(device)
    named = {value: found[0] for (space, value), found in users.items() if space == _NAME}
    return (
        *(
            f"{paths[key]}: {show(key[1])}: is for {' and '.join(map(_title, found))}, but one"
            f" device of the pod can have it; {_REMEDY[paths[key]]}"
            for key, found in users.items()
            if len(found) > 1 or found[0].several
        ),
        *_vrf_clashes(devices, named),
    )


def _vrf_clashes(devices: Sequence[SameConfig], named: Mapping[str, SameConfig]) -> Iterator[str]:
    """Yield the violations of VRFs, given the devices by their names in the pod."""
    first: dict[str, tuple[int, SameConfig]] = {}
    for device in devices:
        vrf = device.config.interface.vrf
        if vrf is None:
            continue
        if other := named.get(vrf.name):
            yield (
                f"{_VRF}.name: {show(vrf.name)}: is the VRF of {device.title}, and a name of"
                f" {other.title}; choose another name"
            )
        table, other = first.setdefault(vrf.name, (vrf.table, device))
        if table != vrf.table:
            yield (
                f"{_VRF}.table: {vrf.table}: VRF {vrf.name} of {device.title} has table {table} for"
                f" {other.title}; write one table"
            )


def _space(path: str) -> str:
    """Return the field whose values are unique together with those of this one."""
    return _NAME if path == _ALTNAME else path


def _title(devices: SameConfig) -> str:
    return f"every device of {devices.title}" if devices.several else devices.title


def _exclusive_values(devices: SameConfig) -> Iterator[tuple[str, str]]:
    interface = devices.config.interface
    name = interface.name or devices.ifname
    if name:
        yield _NAME, name
    for altname in interface.altnames or ():
        yield _ALTNAME, altname
    for cidr in interface.addresses or ():
        if "-" not in cidr and not (address := ip_interface(cidr).ip).is_link_local:
            yield _ADDRESS, str(address)
    if devices.config.rdma.name:
        yield _RDMA, devices.config.rdma.name
