"""Cloud provider protocol: attributes and parameters for the identity of a device.

Rules:
1. An attribute of a cloud never replaces one of the node: selectors on `dra.net/` names decide
   which device is moved.
2. Strings are cut to the 64 bytes of the API. If a device has more attributes than the API allows,
   those of DROP_ORDER are dropped first, then the last ones of the cloud.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

from dranet_nri.component.replace import replace
from dranet_nri.errors import DranetError
from dranet_nri.inventory import MAX_ATTRIBUTES, within_budget
from dranet_nri.inventory.attributes import truncated
from dranet_nri.model import AttributeValue, Device, NetworkConfig

_MOST: Final = MAX_ATTRIBUTES - 1  # the capacity of a shared device counts too
_WORD: Final = re.compile("[!-;=-~]*")  # without "<", with which an HTML page begins
_NO_PARAMETERS: Final[Mapping[str, object]] = MappingProxyType({})


class CloudError(DranetError):
    """The cloud provider does not answer, or its answer is unusable."""

    kind = "cloud"


@dataclass(frozen=True, slots=True)
class ProviderDeviceId:
    """Identity of a device for providers; unknown fields are "".

    Attributes:
        name: device name in the slice.
        interface: name of its net device on the host.
        mac: colon-hex, lower case.
        pci: address of its PCI function.
        driver: driver of the PCI function.
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
    """Facts of a provider about one device.

    Attributes:
        attributes: (qualified name, value), the most useful first.
        parameters: NetworkConfig as JSON, not validated.
        ipvlan: in its place for an IPVLAN child that has no other source of addresses.
    """

    attributes: tuple[tuple[str, AttributeValue], ...] = ()
    parameters: Mapping[str, object] = field(default_factory=lambda: _NO_PARAMETERS)
    ipvlan: Mapping[str, object] = field(default_factory=lambda: _NO_PARAMETERS)

    def parameters_for(self, own: NetworkConfig) -> Mapping[str, object]:
        """Return the parameters for a claim; routing of its own replaces that of `ipvlan`."""
        if not (self.ipvlan and needs_addresses(own)):
            return self.parameters
        routed = own.routes or own.rules or own.interface.vrf
        return {"interface": self.ipvlan["interface"]} if routed else self.ipvlan


def needs_addresses(own: NetworkConfig) -> bool:
    """Return whether a claim has an IPVLAN child, and neither addresses nor a profile for it."""
    return own.interface.needs_addresses and not own.profile


Describe = Callable[[ProviderDeviceId], DeviceFacts]


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """Facts of a provider about several devices.

    Attributes:
        facts: facts of the known devices.
        failure: error for the other devices, "" if there is none.
    """

    facts: Mapping[ProviderDeviceId, DeviceFacts]
    failure: str = ""


class Provider(Protocol):
    """Source of facts about devices.

    Attributes:
        name: value of --cloud-provider-hint.
        required: Prepare waits for the facts of a device.
    """

    @property
    def name(self) -> str: ...
    @property
    def required(self) -> bool: ...

    async def describe(self, devices: Sequence[ProviderDeviceId]) -> ProviderFacts:
        """Return the facts of devices.

        Raises:
            CloudError: the provider does not answer now.
        """


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """Request to a metadata server.

    Attributes:
        path: path and query.
        headers: (name, value) pairs.
        optional: a 404 response counts as "".
    """

    path: str
    headers: tuple[tuple[str, str], ...] = ()
    method: str = "GET"
    optional: bool = False


Get = Callable[[MetadataRequest], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Cloud:
    """A cloud with a metadata server.

    Attributes:
        name: value of --cloud-provider-hint.
        server: address of the metadata server.
        load: sends the requests, and returns a function that describes a device.
    """

    name: str
    server: str
    load: Callable[[Get], Awaitable[Describe]]


def read_word(text: str, what: str) -> str:
    """Return a text of one word, such as a token or a machine type; "" is returned unchanged.

    Raises:
        CloudError: it is something else, such as the HTML page of a proxy.
    """
    word = text.strip()
    if not _WORD.fullmatch(word):
        raise CloudError(f"{what}: answered {text[:60]!r}, must be one word")
    return word


def read_json(text: str, what: str) -> object:
    """Return a JSON document.

    Raises:
        CloudError: it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise CloudError(f"{what}: answered no valid JSON: {text[:60]!r}") from None


def value_at(document: object, *path: str | int) -> object:
    """Return the value at a path of keys and list indices, None if there is none."""
    for key in path:
        if isinstance(key, str) and isinstance(document, Mapping):
            document = document.get(key)
        elif isinstance(key, int) and isinstance(document, list) and key < len(document):
            document = document[key]
        else:
            return None
    return document


def text_at(document: object, *path: str | int) -> str:
    """Return the string at a path, "" if there is none."""
    found = value_at(document, *path)
    return found if isinstance(found, str) else ""


def string_attributes(pairs: Mapping[str, str]) -> tuple[tuple[str, AttributeValue], ...]:
    """Return string attributes without the empty ones."""
    return tuple((name, text) for name, text in pairs.items() if text)


def mac_digits(mac: str) -> str:
    """Return the hex digits of a MAC; clouds use different separators."""
    return mac.replace(":", "").replace("-", "").lower()


def identity_of(device: Device) -> ProviderDeviceId:
    """Return the identity of a device for providers."""
    return ProviderDeviceId(
        device.name,
        device.key.name,
        str(device.attribute("dra.net/mac") or ""),
        device.key.pci,
        str(device.attribute("dra.net/driver") or ""),
        device.rdma_devices,
    )


def enriched(device: Device, facts: DeviceFacts) -> Device:
    """Return the device with the attributes of the provider added."""
    own = dict(device.attributes)
    added = {
        name: truncated(value) if isinstance(value, str) else value
        for name, value in facts.attributes
    }
    attributes = dict(within_budget(added | own, _MOST))
    removable = [name for name in reversed(added) if name in attributes and name not in own]
    surplus = max(0, len(attributes) - _MOST)
    for name in removable[:surplus]:
        attributes.pop(name)
    return replace(device, attributes=tuple(sorted(attributes.items())))
