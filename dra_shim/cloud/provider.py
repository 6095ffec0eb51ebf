"""The cloud protocol: a device's identity goes in, its attributes and parameters come out.

Rules:
1. An attribute of a cloud never replaces one that the node itself found: a selector by `dra.net/`
   names decides which device is moved.
2. Text is cut to the API's 64 bytes, and attributes of a cloud are dropped before a device has more
   than the API allows.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Protocol

from dranet_nri.errors import DranetError
from dranet_nri.inventory import MAX_ATTRIBUTES, within_budget
from dranet_nri.inventory.attributes import clipped
from dranet_nri.model import AttributeValue, Device

_NO_PARAMETERS: Final[Mapping[str, object]] = MappingProxyType({})


class CloudError(DranetError):
    """A cloud provider cannot answer, or its answer cannot be used."""

    kind = "cloud"


@dataclass(frozen=True, slots=True)
class ProviderDeviceId:
    """How providers know a device; what is unknown is "".

    Attributes:
        name: of the device in the slice.
        interface: of its net device on the host.
        mac: colon-hex, lower case.
        pci: address of its function.
        driver: of that function.
        rdma: names of its RDMA devices.
    """

    name: str
    interface: str = ""
    mac: str = ""
    pci: str = ""
    driver: str = ""
    rdma: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a provider says about one device.

    Attributes:
        attributes: (qualified name, value), the most useful first.
        parameters: NetworkConfig as JSON, not yet validated.
    """

    attributes: tuple[tuple[str, AttributeValue], ...] = ()
    parameters: Mapping[str, object] = field(default_factory=lambda: _NO_PARAMETERS)


Describe = Callable[[ProviderDeviceId], DeviceFacts]


@dataclass(frozen=True, slots=True)
class Described:
    """A provider's answer.

    Attributes:
        facts: of the devices that it knows.
        failure: why it could not be asked about others, "" if it could.
    """

    facts: Mapping[ProviderDeviceId, DeviceFacts]
    failure: str = ""


class Provider(Protocol):
    """Source of facts about devices.

    Attributes:
        name: as --cloud-provider-hint has it.
        required: Prepare waits for the facts of a device.
    """

    @property
    def name(self) -> str: ...
    @property
    def required(self) -> bool: ...

    async def describe(self, devices: Sequence[ProviderDeviceId]) -> Described:
        """Return the facts of devices.

        Raises:
            CloudError: the provider cannot answer now.
        """


@dataclass(frozen=True, slots=True)
class Question:
    """A request to a metadata server.

    Attributes:
        path: below the server's address, with the query.
        headers: (name, value).
        optional: a 404 is answered "".
    """

    path: str
    headers: tuple[tuple[str, str], ...] = ()
    method: str = "GET"
    optional: bool = False


Ask = Callable[[Question], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Cloud:
    """A cloud with a metadata server.

    Attributes:
        name: as --cloud-provider-hint has it.
        server: address of the metadata server.
        load: asks the server, and returns how devices are described.
    """

    name: str
    server: str
    load: Callable[[Ask], Awaitable[Describe]]


def read_json(text: str, what: str) -> object:
    """Return a JSON document.

    Raises:
        CloudError: it is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError:
        raise CloudError(f"{what}: answered something else than JSON: {text[:60]!r}") from None


def member(document: object, *path: str | int) -> object:
    """Return what is at a path of keys and list indices, None if there is nothing."""
    for key in path:
        if isinstance(key, str) and isinstance(document, Mapping):
            document = document.get(key)
        elif isinstance(key, int) and isinstance(document, list) and key < len(document):
            document = document[key]
        else:
            return None
    return document


def text_at(document: object, *path: str | int) -> str:
    """Return the text at a path, "" if there is none."""
    found = member(document, *path)
    return found if isinstance(found, str) else ""


def texts(pairs: Mapping[str, str]) -> tuple[tuple[str, AttributeValue], ...]:
    """Return attributes of text without the empty ones."""
    return tuple((name, text) for name, text in pairs.items() if text)


def bare_mac(mac: str) -> str:
    """Return a MAC's hex digits: clouds separate the bytes differently."""
    return mac.replace(":", "").replace("-", "").lower()


def identity_of(device: Device) -> ProviderDeviceId:
    """Return how providers know a device."""
    return ProviderDeviceId(
        device.name,
        device.key.name,
        str(device.attribute("dra.net/mac") or ""),
        device.key.pci,
        str(device.attribute("dra.net/driver") or ""),
        device.rdma_devices,
    )


def enriched(device: Device, facts: DeviceFacts) -> Device:
    """Return the device with the provider's attributes beside its own."""
    own = dict(device.attributes)
    given = [name for name, _ in facts.attributes if name not in own]
    added = {
        name: clipped(value) if isinstance(value, str) else value
        for name, value in facts.attributes
    }
    kept = dict(within_budget(added | own))
    surplus = max(0, len(kept) - MAX_ATTRIBUTES)
    given = [name for name in given if name in kept]
    for name in given[len(given) - surplus :]:
        kept.pop(name)
    return replace(device, attributes=tuple(sorted(kept.items())))
