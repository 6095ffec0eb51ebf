"""Name and address clashes among several devices of one pod.

Rules:
1. In a pod, names of interfaces, with altnames, and of RDMA devices are unique.
2. The kernel accepts an address on two interfaces, but uses one of them for its packets. Link-local
   addresses belong to their link, so several devices may have the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface
from typing import Final

from dranet_nri.config.json_cursor import show
from dranet_nri.model import NetworkConfig

_NAME: Final = "interface.name"
_ALTNAME: Final = "interface.altnames"
_ADDRESS: Final = "interface.addresses"
_RDMA: Final = "rdma.name"
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
    """Return a violation for each name and address that several devices would have."""
    users: dict[tuple[str, str], list[SameConfig]] = {}
    paths: dict[tuple[str, str], str] = {}
    for device in devices:
        for key, path in {
            (_space(path), value): path for path, value in _exclusive_values(device)
        }.items():
            paths.setdefault(key, path)
            users.setdefault(key, []).append(device)
    return tuple(
        f"{paths[key]}: {show(key[1])}: is for {' and '.join(_title(user) for user in found)}, but "
        f"one device of the pod can have it; {_REMEDY[paths[key]]}"
        for key, found in users.items()
        if len(found) > 1 or found[0].several
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
