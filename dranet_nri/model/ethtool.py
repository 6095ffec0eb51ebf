"""`ethtool` switches of a net device: offload features and private flags."""

from dataclasses import dataclass
from typing import Final

# Current and former names of feature groups (ethtool(8), -K), and a pattern (*: any) of their
# features. The kernel has names of features only.
_GROUPS: Final = (
    ("rx", "rx-checksumming", "rx-checksum"),
    ("tx", "tx-checksumming", "tx-checksum-*"),
    ("sg", "scatter-gather", "tx-scatter-gather*"),
    ("tso", "tcp-segmentation-offload", "tx-tcp*-segmentation"),
    ("ufo", "udp-fragmentation-offload", "tx-udp-fragmentation"),
    ("gso", "generic-segmentation-offload", "tx-generic-segmentation"),
    ("gro", "generic-receive-offload", "rx-gro"),
    ("lro", "large-receive-offload", "rx-lro"),
    ("rxvlan", "rx-vlan-offload", "rx-vlan-hw-parse"),
    ("txvlan", "tx-vlan-offload", "tx-vlan-hw-insert"),
    ("ntuple", "ntuple-filters", "rx-ntuple-filter"),
    ("rxhash", "receive-hashing", "rx-hashing"),
)
FEATURE_ALIASES: Final = {
    alias: pattern for short, long, pattern in _GROUPS for alias in (short, long)
}


@dataclass(frozen=True, slots=True)
class Switches:
    """Switches that are on or off, by name; each name once, sorted."""

    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any switch."""
        return bool(self.on or self.off)

    def __str__(self) -> str:
        """Return all switches as text, those that are on first."""
        words = (*(f"{name} on" for name in self.on), *(f"{name} off" for name in self.off))
        return ", ".join(words)


def switches(states: dict[str, bool]) -> Switches:
    """Return the value for a mapping of name to state."""
    on = tuple(sorted(name for name, state in states.items() if state))
    return Switches(on, tuple(sorted(name for name, state in states.items() if not state)))


@dataclass(frozen=True, slots=True)
class EthtoolConfig:
    """`ethtool` of NetworkConfig: names as a claim gives them, aliases of features included."""

    features: Switches = Switches()
    private_flags: Switches = Switches()

    def __bool__(self) -> bool:
        """Whether any switch is requested."""
        return bool(self.features or self.private_flags)


@dataclass(frozen=True, slots=True)
class EthtoolState:
    """Offload features and private flags of a net device.

    Attributes:
        features: changeable features, as last requested (ETHTOOL_A_FEATURES_WANTED).
        active: features in effect; a requested one is not if a feature that it needs is off.
        private_flags: flags of the driver.
    """

    features: Switches = Switches()
    active: tuple[str, ...] = ()
    private_flags: Switches = Switches()
