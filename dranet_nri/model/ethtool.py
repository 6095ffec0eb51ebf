"""`ethtool` switches of a net device: offload features and private flags."""

from dataclasses import dataclass
from typing import Final

# Present and former names of feature groups in ethtool: the features that they stand for, as
# patterns (*: anything). ethtool(8), -K; the kernel has the feature names only.
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
        """Whether anything is named."""
        return bool(self.on or self.off)

    def __str__(self) -> str:
        """Name all, those that are on first."""
        words = (*(f"{name} on" for name in self.on), *(f"{name} off" for name in self.off))
        return ", ".join(words)


def switches(states: dict[str, bool]) -> Switches:
    """Return switches by name as such."""
    on = tuple(sorted(name for name, state in states.items() if state))
    return Switches(on, tuple(sorted(name for name, state in states.items() if not state)))


@dataclass(frozen=True, slots=True)
class EthtoolConfig:
    """`ethtool` of NetworkConfig: names as a claim gives them, aliases of features included."""

    features: Switches = Switches()
    private_flags: Switches = Switches()

    def __bool__(self) -> bool:
        """Whether it asks for anything."""
        return bool(self.features or self.private_flags)


@dataclass(frozen=True, slots=True)
class EthtoolState:
    """Offload features and private flags of a net device.

    Attributes:
        features: those that can be changed, as they were asked for last ("wanted").
        active: those that are at work, changeable or not: what a feature needs may be off.
        private_flags: the driver's own.
    """

    features: Switches = Switches()
    active: tuple[str, ...] = ()
    private_flags: Switches = Switches()
