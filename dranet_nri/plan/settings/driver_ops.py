"""Operations on driver settings of a net device."""

from dataclasses import dataclass

from dranet_nri.model import DriverSetting, Ns


@dataclass(frozen=True, slots=True)
class SetDriver:
    """Set rings, channels, coalescing or flow control (ETHTOOL_MSG_*_SET).

    Attributes:
        settings: settings of one group.
        claimed: whether they are claimed; else they are restored.
    """

    ns: Ns
    name: str
    settings: tuple[DriverSetting, ...]
    claimed: bool

    def __str__(self) -> str:
        return f"set {', '.join(map(str, self.settings))} of {self.name} in {self.ns}"


@dataclass(frozen=True, slots=True)
class SetRss:
    """Set the indirection table of receive-side scaling (ETHTOOL_SRSSH); the hash key stays.

    Attributes:
        table: see RssState; (): the driver's default, which follows the number of queues.
        claimed: whether it is claimed; else it is restored.
    """

    ns: Ns
    name: str
    table: tuple[int, ...]
    claimed: bool

    def __str__(self) -> str:
        what = f"{len(set(self.table))} queues" if self.table else "its default"
        return f"set RSS of {self.name} to {what} in {self.ns}"
