"""`ethtool` of a net device: features, private flags, and settings of its driver."""

from dataclasses import dataclass
from enum import StrEnum
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


class SettingGroup(StrEnum):
    """A group of driver settings: its name in a claim, and in ethtool's messages."""

    RINGS = "rings"
    CHANNELS = "channels"
    COALESCE = "coalesce"
    PAUSE = "pause"
    RSS = "rss"


@dataclass(frozen=True, slots=True)
class DriverSetting:
    """One number of rings, channels, coalescing or flow control.

    Attributes:
        name: its path below `ethtool` of a claim, "rings.rx".
        value: descriptors of a ring, queues, microseconds or frames; 1 or 0 of a switch.
        maximum: the highest value that the device takes, 0 if it does not report one.
    """

    name: str
    value: int
    maximum: int = 0

    def __str__(self) -> str:
        """Return name and value."""
        return f"{self.name} {self.value}"

    @property
    def group(self) -> str:
        """Return the group that the setting belongs to."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True)
class RssConfig:
    """`rss` of EthtoolConfig: how receive-side scaling distributes packets over receive queues.

    Exactly one of both is given.

    Attributes:
        equal: packets go to that many queues, from queue 0 on, in equal shares.
        weights: share of each queue, from queue 0 on.
    """

    equal: int = 0
    weights: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RssState:
    """Receive-side scaling of a net device (struct ethtool_rxfh, linux/ethtool.h).

    Attributes:
        table: the indirection table: the queue of each hash value, by its lowest bits.
        queues: how many receive queues there are.
    """

    table: tuple[int, ...]
    queues: int


@dataclass(frozen=True, slots=True)
class EthtoolConfig:
    """`ethtool` of NetworkConfig: names as a claim gives them, aliases of features included."""

    features: Switches = Switches()
    private_flags: Switches = Switches()
    settings: tuple[DriverSetting, ...] = ()
    rss: RssConfig | None = None

    def __bool__(self) -> bool:
        """Whether any switch or setting is requested."""
        return bool(self.features or self.private_flags or self.settings or self.rss)

    @property
    def groups(self) -> frozenset[str]:
        """Return the groups of driver settings that are given."""
        found = {setting.group for setting in self.settings}
        return frozenset(found | {SettingGroup.RSS} if self.rss else found)


@dataclass(frozen=True, slots=True)
class EthtoolState:
    """Offload features and private flags of a net device.

    Attributes:
        features: changeable features, as last requested (ETHTOOL_A_FEATURES_WANTED).
        active: features in effect; a requested one is not if a feature that it needs is off.
        private_flags: flags of the driver.
        settings: driver settings of the requested groups, without those that the driver lacks.
        rss: None where it was not requested, or the driver has no indirection table.
    """

    features: Switches = Switches()
    active: tuple[str, ...] = ()
    private_flags: Switches = Switches()
    settings: tuple[DriverSetting, ...] = ()
    rss: RssState | None = None

    @property
    def groups(self) -> frozenset[str]:
        """Return the groups of driver settings that were requested and that the driver has."""
        found = {setting.group for setting in self.settings}
        return frozenset(found | {SettingGroup.RSS} if self.rss else found)
