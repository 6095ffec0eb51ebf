"""What a virtual device is known by once it was touched, for its name may be another's by then."""

from dataclasses import dataclass
from typing import Final

from dranet_nri.model import AttachedDevice, Link

# Links of these kinds have their parent's address, so that it tells them from nothing.
BORROWED_ADDRESS: Final = frozenset({"vlan", "ipvlan", "ipvtap", "macsec"})


@dataclass(frozen=True, slots=True)
class Known:
    """A virtual device as it was when it was touched.

    Attributes:
        index: its ifindex on the host.
        kind: of the link ("veth").
        macs: link-layer addresses it had or was given.
    """

    index: int
    kind: str
    macs: frozenset[str]

    def is_it(self, link: Link) -> bool:
        """Whether a link of the right name is the device and no namesake."""
        return link.kind == self.kind and (link.index == self.index or link.mac in self.macs)

    def looks_like(self, link: Link) -> bool:
        """Whether a link of any name may be the device: its address is its own."""
        return (
            link.kind == self.kind and link.mac in self.macs and link.kind not in BORROWED_ADDRESS
        )


def known_as(device: AttachedDevice) -> Known | None:
    """Return what the device is known by; None if it was not touched, or is hardware."""
    if device.snapshot is None or device.device.key.bus or device.home:
        return None
    link = device.snapshot.link
    return Known(link.index, link.kind, frozenset({link.mac, device.mac} - {""}))
